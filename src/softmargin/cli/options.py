"""What can be asked on the command line. Imports nothing heavy: `--help` is instant."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from softmargin import __version__
from softmargin.cli import choices
from softmargin.cli.choices import DEFAULT_SEED, DEFAULT_TEST_SIZE
from softmargin.cli.exit_codes import IN_WORDS, USAGE
from softmargin.cli.values import (
    class_weight,
    count,
    degree,
    gamma,
    not_negative,
    number,
    penalty,
    positive,
    ratio,
    share,
)
from softmargin.core.errors import one_line
from softmargin.solvers.names import SOLVERS

_DATA_HELP = (
    "a data set's name (see `softmargin data`) or a file: LIBSVM text (plain, .xz, .gz, .bz2), .npz with X and y, "
    ".npy with NAME.y.npy beside it"
)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"softmargin: error: {one_line(message)}. See: {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; `args.verb` names the module that does the work."""
    parser = _Parser(
        prog="softmargin",
        description="Margin classifiers trained to a certificate: every fit says how far from the optimum it is.",
        epilog=IN_WORDS,
    )
    parser.add_argument("--version", action="version", version=f"softmargin {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (add_options, summary, description) in _VERBS.items():
        add_options(verbs.add_parser(name, help=summary, description=description, epilog=IN_WORDS))
    return parser


def _train(parser: Any) -> None:
    parser.add_argument("data", metavar="DATA", help=_DATA_HELP)
    parser.add_argument("-o", "--output", metavar="MODEL", help="save the model here")

    problem = parser.add_argument_group("the problem")
    problem.add_argument(
        "--model", choices=choices.MODELS, default="linear-svc", help="what to train (default: linear-svc)"
    )
    problem.add_argument(
        "-C", "-c", dest="C", metavar="C", type=positive, default=1.0, help="price of one unit of loss (default: 1)"
    )
    problem.add_argument(
        "--loss",
        choices=choices.LOSSES,
        help="SVMs: how a violated margin is charged; squared_hinge is for two classes or one_vs_rest (default: hinge)",
    )
    problem.add_argument(
        "--multiclass",
        choices=choices.MULTICLASS,
        help="SVMs: the loss of a row, the sum of its margin violations, or the largest; or a binary problem per class "
        "(default: weston_watkins for hinge, one_vs_rest for squared_hinge)",
    )
    problem.add_argument("--no-intercept", action="store_true", help="scores without a constant term")
    problem.add_argument(
        "--intercept-scaling",
        metavar="VALUE",
        type=positive,
        help="SVMs: value of the constant feature that carries the intercept, LIBLINEAR's -B; with squared_hinge the "
        "intercept is free and needs none (default: 1)",
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
    _class_weight_option(problem)
    problem.add_argument(
        "--normalize",
        choices=("none", "rows", "maxabs"),
        default="none",
        help="scale rows to length 1, or columns to a largest magnitude of 1; the saved model still takes raw data "
        "(default: none)",
    )
    problem.add_argument("--float32", action="store_true", help="hold X in single precision: half the memory")
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

    problem.add_argument(
        "--stream",
        action="store_true",
        help="kernel-svc: read a LIBSVM file in chunks, twice, in memory that does not grow with its length; at "
        "most --n-components vectors are kept, and nothing is trained to --tol (multiclass: one_vs_rest by default)",
    )

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
        choices=tuple(dict.fromkeys(["auto", *(name for names in SOLVERS.values() for name in names)])),
        default="auto",
        help="auto is the fastest (default). "
        + ". ".join(f"{kind}: {', '.join(names)}" for kind, names in SOLVERS.items()),
    )
    effort.add_argument("--checkpoint", metavar="FILE", help="write the state of the run here from time to time")
    effort.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=not_negative,
        default=60.0,
        help="default: 60; less often where writing would take a tenth of the time; 0: after every pass",
    )
    effort.add_argument("--resume", metavar="FILE", help="go on from a checkpoint; same data and options, please")

    data = parser.add_argument_group("the data")
    _data_dir_option(data)
    data.add_argument("--test", metavar="FILE", help="measure accuracy on these rows (a file, or a name)")
    data.add_argument(
        "--test-size",
        metavar="SHARE",
        type=share,
        default=DEFAULT_TEST_SIZE,
        help="share of the rows to hold out, by class, where there is no test part and no --test; 0 trains on all rows "
        "and reports training accuracy only (default: 0.25)",
    )
    data.add_argument(
        "--seed", type=count, default=DEFAULT_SEED, help="of the held-out rows and the solver's order (default: 0)"
    )

    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        choices=("softmargin", "liblinear"),
        default="softmargin",
        help="of MODEL; a liblinear file holds the weights of a linear-svc only (default: softmargin)",
    )
    output.add_argument(
        "--trace", metavar="FILE", help="write the certificates of the run: .jsonl one per line, else one JSON object"
    )
    _output_options(output)


def _predict(parser: Any) -> None:
    parser.add_argument("data", metavar="DATA", help=_DATA_HELP)
    parser.add_argument("model_file", metavar="MODEL", help="a softmargin or LIBLINEAR model")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the labels here (default: stdout)")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument(
        "--scores", action="store_true", help="write a header and tab-separated scores beside the labels"
    )
    beside.add_argument(
        "--probabilities",
        action="store_true",
        help="write a header and the tab-separated probabilities of all classes beside the labels (softmax models)",
    )
    _part_options(parser, "default: the test part where the data set has one, else all")
    _output_options(parser)


def _certify(parser: Any) -> None:
    parser.add_argument("model_file", metavar="MODEL", help="a softmargin or LIBLINEAR model")
    parser.add_argument("data", metavar="DATA", help=f"the training data: {_DATA_HELP}")
    parser.add_argument(
        "-C", "-c", dest="C", metavar="C", type=positive, help="default: the model's; LIBLINEAR files hold none"
    )
    parser.add_argument("--multiclass", choices=choices.MULTICLASS, help="default: the model's")
    parser.add_argument("--loss", choices=choices.LOSSES, help="default: the model's")
    _class_weight_option(parser)
    parser.add_argument(
        "--bound-tol",
        metavar="TOL",
        type=not_negative,
        default=1e-5,
        help="relative gap of the point that proves the bound of a linear model (default: 1e-5)",
    )
    parser.add_argument("--max-seconds", metavar="SECONDS", type=not_negative, help="default: no limit")
    _part_options(parser, "default: the rows the model was trained on where it says so, else the training part or all")
    _output_options(parser)


def _data(parser: Any) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"describe this one: {_DATA_HELP}")
    _data_dir_option(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _bench(parser: Any) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        choices=choices.BENCHES,
        help="quick: a few minutes on embedded data, beside scikit-learn; "
        f"{', '.join(choices.BENCHES[1:])}: scripts of the repository's benchmarks folder, for hours",
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="bench", help="folder of JSON lines, PNG and HTML (default: bench)"
    )
    parser.add_argument("--gaps", metavar="GAP", nargs="+", type=positive, help="quick: relative gaps (1e-2 1e-3 1e-4)")
    parser.add_argument("--repeats", metavar="N", type=count, default=3, help="quick: runs to take the median of (3)")
    parser.add_argument(
        "--page", metavar="FILE.md", help="suites: replace the tables that this Markdown page marks, and its pictures"
    )
    parser.add_argument("--benchmarks", metavar="DIR", help="the scripts ($SOFTMARGIN_BENCHMARKS, ./benchmarks)")
    parser.add_argument(
        "--more",
        metavar="WORD",
        action="append",
        default=[],
        help="a word for the scripts that know it: --more=--cap --more=10",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="no notes on stderr")


def _data_dir_option(parser: Any) -> None:
    parser.add_argument(
        "--data-dir", metavar="DIR", help="look for named data sets here, then in the folder $SOFTMARGIN_DATA"
    )


def _class_weight_option(parser: Any) -> None:
    parser.add_argument(
        "--class-weight",
        metavar="W",
        type=class_weight,
        help="multiply C by class: balanced, none, or LABEL=WEIGHT,LABEL=WEIGHT",
    )


def _part_options(parser: Any, default: str) -> None:
    parser.add_argument("--part", choices=("train", "test", "all"), help=f"which rows of DATA ({default})")
    parser.add_argument(
        "--test-size",
        metavar="SHARE",
        type=share,
        help="where DATA has no test part: the share `train` held out (default: what the model says)",
    )
    parser.add_argument("--seed", type=count, help="of the held-out rows (default: what the model says)")
    _data_dir_option(parser)


def _output_options(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON; implies no bar")
    talk = parser.add_mutually_exclusive_group()
    talk.add_argument("-q", "--quiet", action="store_true", help="keep stderr for errors: no progress bar, no notes")
    talk.add_argument("--progress", action="store_true", help="show the progress bar even where stderr is no terminal")


_VERBS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "train": (
        _train,
        "train a classifier to a proven tolerance",
        "Train a linear or kernel SVM, or a softmax model (multinomial logistic regression), until a duality gap "
        "proves that its objective is within TOL of the optimum. "
        "Accuracy is measured on the data set's test part, on --test, or on rows held out by --test-size.",
    ),
    "predict": (
        _predict,
        "label rows with a saved model",
        "Write one label per line for the rows of DATA; where DATA has labels, the accuracy goes to stderr. LIBSVM "
        "files narrower or wider than the training file are padded or cut to the model's columns.",
    ),
    "certify": (
        _certify,
        "prove how far from optimal a model is",
        "Say how far a model is from the optimum of its training problem, whoever trained it: its objective on DATA, "
        "and a lower bound on everybody's. A linear model's bound is proven by our own solver; a kernel model carries "
        "its own.",
    ),
    "data": (
        _data,
        "list data sets, or describe one",
        "List the data sets known by name; with NAME, its rows, features, classes, density and type.",
    ),
    "bench": (
        _bench,
        "race against peers at equal certified gap",
        "Measure seconds to a proven gap beside other libraries; print the ratios, and write JSON lines, pictures and "
        "one self-contained HTML page with the machine, the versions and the command in it.",
    ),
}
