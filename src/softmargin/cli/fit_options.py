"""What a fit can be asked for on the command line: the groups of options that `train` and `path` share.

It imports nothing heavy: `--help` is instant.
"""

from typing import Any

from softmargin.cli import choices
from softmargin.cli.choices import DEFAULT_SEED
from softmargin.cli.values import (
    class_weight,
    count,
    degree,
    gamma,
    jobs,
    names,
    not_negative,
    number,
    penalty,
    positive,
    positives,
    ratio,
    share,
)
from softmargin.solvers.names import SOLVERS

__all__ = [
    "DATA_HELP",
    "add_class_weight",
    "add_data_dir",
    "add_effort",
    "add_grid",
    "add_jobs",
    "add_kernel",
    "add_problem",
    "add_table",
    "add_test_rows",
]

DATA_HELP = (
    "a data set's name (see `softmargin data`), a file, or - for stdin: LIBSVM text (plain, .xz, .gz, .bz2), a table "
    "(.csv, .tsv, .parquet, .feather), .npz with X and y, .npy with NAME.y.npy beside it"
)

# Problems with a penalty of another library's model are judged by `certify`, and not trained here.
_TRAINED = {kind: names for kind, names in SOLVERS.items() if kind != "penalized"}


def add_problem(parser: Any, models: tuple[str, ...]) -> Any:
    """Add what the problem may be; return the group."""
    problem = parser.add_argument_group("the problem")
    problem.add_argument("--model", choices=models, default=models[0], help=f"what to train (default: {models[0]})")
    problem.add_argument(
        "-C", "-c", dest="C", metavar="C", type=positive, help="SVMs, softmax: price of one unit of loss (default: 1)"
    )
    problem.add_argument(
        "--radius", metavar="R", type=positive, help="balls: what the norm of the weights may be (default: 1)"
    )
    problem.add_argument("--l2", metavar="STRENGTH", type=not_negative, help="balls: of the ridge (default: 1e-4)")
    problem.add_argument(
        "--loss",
        choices=tuple(dict.fromkeys([*choices.LOSSES, *choices.BALL_LOSSES])),
        help="SVMs: how a violated margin is charged; squared_hinge is for two classes, one_vs_rest or one_vs_one "
        f"(default: hinge). Classifiers in a ball: {', '.join(choices.BALL_LOSSES)} (default: smooth_hinge)",
    )
    problem.add_argument(
        "--multiclass",
        choices=choices.MULTICLASS,
        help="SVMs: the loss of a row, the sum of its margin violations, or the largest; or a binary problem per "
        "class, or per pair of classes, as LIBSVM's (default: weston_watkins for hinge, one_vs_rest for squared_hinge "
        "and a free intercept)",
    )
    problem.add_argument("--no-intercept", action="store_true", help="scores without a constant term")
    problem.add_argument(
        "--free-intercept",
        action="store_true",
        default=None,
        help="SVMs with the hinge: an intercept without a penalty, as LIBSVM's; for two classes, one_vs_rest or "
        "one_vs_one (default: it is the weight of a constant feature)",
    )
    problem.add_argument(
        "--penalized-intercept",
        action="store_true",
        default=None,
        help="linear SVMs with the squared hinge: the intercept is the weight of a constant feature, as LIBLINEAR's "
        "(default: it is free; with the hinge it is such a weight)",
    )
    problem.add_argument(
        "--intercept-scaling",
        metavar="VALUE",
        type=positive,
        help="SVMs: value of the constant feature that carries a penalised intercept, LIBLINEAR's -B (default: 1)",
    )
    problem.add_argument(
        "--l1-ratio",
        metavar="SHARE",
        type=ratio,
        help="softmax: share of l1 in the penalty; 0 is a ridge, 1 makes most weights zero, between them lies the "
        "elastic net (default: 0)",
    )
    problem.add_argument(
        "--penalty",
        metavar="NAME:NUMBERS",
        type=penalty,
        help="softmax: another penalty than the elastic net, such as group:1.0, box:-1,1 or mcp:1.0,3.0; "
        + ", ".join(f"{name}:{numbers}" for name, numbers in choices.PENALTIES.items()),
    )
    problem.add_argument(
        "--pinned",
        metavar="LABEL",
        help="softmax: the class of three or more whose weights are zero (default: none, every class has weights)",
    )
    add_class_weight(problem)
    problem.add_argument(
        "--normalize",
        choices=choices.NORMALIZE,
        default="none",
        help="rows: of length 1; maxabs: columns of largest magnitude 1; standard: columns of mean 0 and variance 1 "
        "(sparse ones keep their zeros); quantile: columns of ranks from 0 to 1. The saved model still takes raw data "
        "(default: none)",
    )
    problem.add_argument("--float32", action="store_true", help="hold X in single precision: half the memory")
    return problem


def add_kernel(parser: Any) -> None:
    """Add what the kernel may be."""
    kernel = parser.add_argument_group("the kernel (--model kernel-svc)")
    kernel.add_argument("--kernel", choices=choices.KERNELS, help="default: rbf")
    kernel.add_argument(
        "--gamma", type=gamma, help="width: scale is 1 / (d var(X)), auto is 1 / d, or a number (default: scale)"
    )
    kernel.add_argument("--degree", type=degree, help="of the polynomial kernel (default: 3)")
    kernel.add_argument("--coef0", type=number, help="of the polynomial and sigmoid kernels (default: 0)")
    kernel.add_argument(
        "--cache-size", metavar="MB", type=positive, help="megabytes that kernel values may fill (default: 1000)"
    )
    kernel.add_argument(
        "--approximation",
        choices=choices.APPROXIMATIONS,
        help="nystroem: landmarks stand for the space of the kernel, and the certificate is that of the approximate "
        "problem; auto: so for more than 20000 rows with --solver auto (default: auto)",
    )
    kernel.add_argument(
        "--n-components", metavar="N", type=degree, help="landmarks, or vectors that --stream keeps (default: 500)"
    )


def add_grid(parser: Any, what: str) -> Any:
    """Add the grid of a path; return the group."""
    grid = parser.add_argument_group(what)
    grid.add_argument("--points", metavar="N", type=degree, help="C or radii of the grid (default: 10)")
    grid.add_argument("--grid", metavar="VALUE,VALUE", type=positives, help="these C or radii, no grid of our own")
    return grid


def add_effort(parser: Any) -> Any:
    """Add how far and how long to go; return the group."""
    effort = parser.add_argument_group("how far, how long")
    effort.add_argument(
        "--tol",
        type=not_negative,
        default=1e-3,
        help="relative duality gap, (primal - bound) / primal, at which the fit is done (default: 1e-3)",
    )
    effort.add_argument(
        "--decay",
        metavar="SHARE",
        type=share,
        default=0.0,
        help="be done as well where the gap is this share of the gap after the first pass (default: 0, not used)",
    )
    effort.add_argument("--max-iter", metavar="PASSES", type=count, default=10_000, help="default: 10000")
    effort.add_argument("--max-seconds", metavar="SECONDS", type=not_negative, help="default: no limit")
    effort.add_argument(
        "--solver",
        metavar="NAME",
        choices=tuple(dict.fromkeys(["auto", *(name for names in _TRAINED.values() for name in names)])),
        default="auto",
        help="auto is the fastest (default). "
        + ". ".join(f"{kind}: {', '.join(names)}" for kind, names in _TRAINED.items()),
    )
    add_jobs(effort)
    return effort


def add_jobs(parser: Any) -> None:
    """Add how many threads there may be."""
    parser.add_argument(
        "--jobs",
        "-j",
        metavar="N",
        type=jobs,
        help="threads: -1 for all processors, -2 for all but one (default: 1, and what BLAS has of its own)",
    )


def add_test_rows(parser: Any) -> None:
    """Add where test rows come from."""
    data = parser.add_argument_group("the data")
    add_data_dir(data)
    data.add_argument("--test", metavar="FILE", help="measure accuracy on these rows (a file, or a name)")
    data.add_argument(
        "--holdout",
        metavar="SHARE",
        type=share,
        default=0.0,
        help="keep back this share of the rows, by class, and measure accuracy on them; for data without a test part "
        "(default: 0, all rows are trained on)",
    )
    data.add_argument(
        "--seed", type=count, default=DEFAULT_SEED, help="of the held-out rows and the solver's order (default: 0)"
    )


def add_table(parser: Any, *, is_learnt: bool) -> None:
    """Add how a table is read; where a model is made of it, also what becomes of its columns."""
    table = parser.add_argument_group("tables (CSV, TSV, Parquet, Feather)")
    table.add_argument(
        "--label",
        metavar="COLUMN",
        help="the column of labels, by its name or its number from 0; -1 is the last "
        + ("(default: label, target, class or y, else the last)" if is_learnt else "(default: the model's)"),
    )
    table.add_argument(
        "--no-header", action="store_true", help="the first line of text is a row: columns are f0, f1, ..."
    )
    if is_learnt:
        table.add_argument(
            "--missing",
            choices=choices.MISSING,
            default="error",
            help="values that are missing: refused, replaced by the column's mean (text: by the shares of its "
            "categories), or their rows dropped (default: error)",
        )
        table.add_argument(
            "--ignore", metavar="COLUMN,COLUMN", type=names, default=(), help="columns that are no features"
        )


def add_data_dir(parser: Any) -> None:
    """Add where named data sets are."""
    parser.add_argument(
        "--data-dir", metavar="DIR", help="look for named data sets here, then in the folder $SOFTMARGIN_DATA"
    )


def add_class_weight(parser: Any) -> None:
    """Add prices by class."""
    parser.add_argument(
        "--class-weight",
        metavar="W",
        type=class_weight,
        help="multiply C by class: balanced, none, or LABEL=WEIGHT,LABEL=WEIGHT",
    )
