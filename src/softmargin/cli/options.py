"""What can be asked on the command line. Imports nothing heavy: `--help` is instant."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from softmargin import __version__
from softmargin.cli import choices
from softmargin.cli.exit_codes import IN_WORDS, USAGE
from softmargin.cli.fit_options import (
    DATA_HELP,
    add_class_weight,
    add_data_dir,
    add_effort,
    add_grid,
    add_jobs,
    add_kernel,
    add_problem,
    add_table,
    add_test_rows,
)
from softmargin.cli.like import LIBRARIES
from softmargin.cli.values import count, not_negative, positive, search, share, two_or_more
from softmargin.core.errors import one_line


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


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse; where a verb does not know an option, the help that is named is that of the verb."""
    args, strange = build_parser().parse_known_args(words)
    if strange:
        _Parser(prog=f"softmargin {args.verb}").error(f"unrecognized arguments: {' '.join(strange)}")
    return args


def valued_options(verb: str) -> list[str]:
    """Return the options of a verb that have a value; none of a word that is no verb."""
    parser = _Parser()
    if verb in _VERBS:
        _VERBS[verb][0](parser)
    return [name for action in parser._actions if action.nargs != 0 for name in action.option_strings]


def _train(parser: Any) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("-o", "--output", metavar="MODEL", help="save the model here")
    parser.add_argument(
        "--like",
        choices=tuple(LIBRARIES),
        help="options with one dash are those of LIBLINEAR's train or LIBSVM's svm-train, which also set the defaults: "
        "--like liblinear -s 4 -c 1 DATA MODEL",
    )
    problem = add_problem(parser, choices.MODELS)
    add_kernel(parser)
    problem.add_argument(
        "--probabilities",
        choices=choices.PROBABILITIES,
        help="SVMs: fit probabilities to the scores of held-out rows, in five more fits; sigmoid (Platt's) or isotonic "
        "for every class, or one temperature for all (default: none)",
    )
    problem.add_argument(
        "--stream",
        action="store_true",
        help="read a LIBSVM file in chunks, in memory that does not grow with its length; nothing is trained to --tol. "
        "linear-svc (hinge) and softmax (ridge): in three passes, with the duality gap on all training rows. "
        "kernel-svc: in two, with at most --n-components vectors (multiclass: one_vs_rest by default; --solver scs for "
        "conjugate subgradients, with so many for each class)",
    )
    problem.add_argument(
        "--dask",
        metavar="WHERE",
        help="train where Dask's workers are, on files that DATA, a pattern with *, matches (LIBSVM text, .npy, "
        ".parquet): the address of a scheduler, local for a process on each core, or threads; every model, kernel-svc "
        "by landmarks, to --tol on all rows",
    )

    folds = parser.add_argument_group("cross-validation, on all processors unless --jobs says otherwise")
    folds.add_argument(
        "--cv",
        metavar="FOLDS",
        type=two_or_more,
        help="tell the accuracy on rows left out in turn, beside a model of all training rows (columns are scaled by "
        f"all of them, once); with --search, the folds that choose (default: {choices.FOLDS})",
    )
    folds.add_argument(
        "--search",
        metavar="NAME=VALUES",
        type=search,
        action="append",
        default=[],
        help="choose the best C, gamma (kernel-svc), l1_ratio (softmax) or radius (balls) by folds, and train with it: "
        "C=1e-3:1e3:log is a value for each factor of 10 (log:20 for 20 of them), l1_ratio=0:1:linear has ten "
        "steps, gamma=scale,0.1,1 these values, C alone a grid of our own; give it again for a second setting",
    )
    effort = add_effort(parser)
    effort.add_argument("--checkpoint", metavar="FILE", help="write the state of the run here from time to time")
    effort.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=not_negative,
        default=60.0,
        help="default: 60; less often where writing would take a tenth of the time; 0: after every pass",
    )
    effort.add_argument("--resume", metavar="FILE", help="go on from a checkpoint; same data and options, please")

    add_test_rows(parser)
    add_table(parser, is_learnt=True)
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


def _path(parser: Any) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    add_problem(parser, choices.PATH_MODELS)
    add_kernel(parser)
    add_grid(parser, "the grid")
    add_effort(parser)
    add_test_rows(parser)
    add_table(parser, is_learnt=True)
    _output_options(parser.add_argument_group("output"))


def _predict(parser: Any) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("model_file", metavar="MODEL", help="a softmargin, LIBLINEAR or LIBSVM model")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the labels here (default: stdout)")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument(
        "--scores", action="store_true", help="write a header and tab-separated scores beside the labels"
    )
    beside.add_argument(
        "--probabilities",
        action="store_true",
        help="write a header and the tab-separated probabilities of all classes beside the labels (softmax models, and "
        "SVMs trained with --probabilities)",
    )
    add_jobs(parser)
    _part_options(parser, "default: the test part where the data set has one, else all")
    _output_options(parser)


def _certify(parser: Any) -> None:
    parser.add_argument("model_file", metavar="MODEL", help="a softmargin, LIBLINEAR or LIBSVM model")
    parser.add_argument("data", metavar="DATA", help=f"the training data: {DATA_HELP}")
    parser.add_argument(
        "-C",
        "-c",
        dest="C",
        metavar="C",
        type=positive,
        help="default: the model's; files of LIBLINEAR and LIBSVM hold none",
    )
    parser.add_argument("--multiclass", choices=choices.MULTICLASS, help="default: the model's")
    parser.add_argument("--loss", choices=choices.LOSSES, help="default: the model's")
    add_class_weight(parser)
    parser.add_argument(
        "--bound-tol",
        metavar="TOL",
        type=not_negative,
        default=1e-5,
        help="relative gap of the point that proves the bound of a linear model (default: 1e-5)",
    )
    parser.add_argument("--max-seconds", metavar="SECONDS", type=not_negative, help="default: no limit")
    add_jobs(parser)
    _part_options(parser, "default: the rows the model was trained on where it says so, else the training part or all")
    _output_options(parser)


def _export(parser: Any) -> None:
    parser.add_argument("model_file", metavar="MODEL", help="a softmargin, LIBLINEAR or LIBSVM model")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="write it here")
    parser.add_argument(
        "--format",
        choices=choices.EXPORTS,
        help="onnx: a graph for any runtime; json: text for a predictor of your own; liblinear, libsvm: model files of "
        "these (default: by the suffix of FILE)",
    )
    parser.add_argument(
        "--float32", action="store_true", help="onnx: compute in float32, for runtimes that have no float64"
    )
    _file_options(parser)


def _report(parser: Any) -> None:
    parser.add_argument(
        "things",
        metavar="FILE",
        nargs="+",
        help="models, files of `train --trace` (each after its model), and at most one DATA to measure the models on",
    )
    parser.add_argument("-o", "--output", metavar="PAGE", required=True, help="write the page here (.html)")
    _part_options(parser, "default: the test part where there is one, else all")
    _file_options(parser)


def _data(parser: Any) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"describe this one: {DATA_HELP}")
    add_data_dir(parser)
    add_table(parser, is_learnt=True)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes on stderr")


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
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes on stderr")


def _part_options(parser: Any, default: str) -> None:
    parser.add_argument("--part", choices=("train", "test", "all"), help=f"which rows of DATA ({default})")
    parser.add_argument(
        "--holdout",
        metavar="SHARE",
        type=share,
        help="where DATA has no test part: the share that `train` kept back (default: what the model says)",
    )
    parser.add_argument("--seed", type=count, help="of the held-out rows (default: what the model says)")
    add_data_dir(parser)
    add_table(parser, is_learnt=False)


def _file_options(parser: Any) -> None:
    """Add how verbs talk whose result is a file."""
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, unless it fails")


def _output_options(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON; implies no bar")
    talk = parser.add_mutually_exclusive_group()
    talk.add_argument("-q", "--quiet", action="store_true", help="keep stderr for errors: no progress bar, no notes")
    talk.add_argument("--progress", action="store_true", help="show the progress bar even where stderr is no terminal")


_VERBS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "train": (
        _train,
        "train a classifier to a proven tolerance",
        "Train a linear or kernel SVM, a softmax model (multinomial logistic regression), or a sparse or low-rank "
        "classifier or regressor in a ball, until a duality gap "
        "proves that its objective is within TOL of the optimum. "
        "All rows of DATA are trained on. Accuracy is measured on the data set's test part where it has one, on "
        "--test, on rows kept back by --holdout, or by --cv.",
    ),
    "path": (
        _path,
        "train along a grid of C or of radii",
        "Train a softmax model for every C of a grid, or a model in a ball for every radius, each from the solution of "
        "the last, and print what is proven of each with its size and its accuracy (regressors: R^2).",
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
    "export": (
        _export,
        "write a model for another program",
        "Write a model as an ONNX graph, as JSON, or as a model file of LIBLINEAR or LIBSVM. What --normalize has "
        "learnt is in the weights, or part of the graph and of the JSON.",
    ),
    "report": (
        _report,
        "one page about a fit, or several side by side",
        "Write one HTML page that needs no network: settings, data, certificate, gap against time and passes, accuracy "
        "of every class, confusion, margins, calibration, largest weights or support vectors. Pictures: matplotlib.",
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
