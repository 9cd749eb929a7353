"""Odd values of every parameter: each call works, or raises an error of ours that names the parameter.

The short form takes every parameter with a few values, drawn by SOFTMARGIN_ATTACK_SEED; with SOFTMARGIN_ATTACK set, all
pairs are tried (some five thousand calls).
"""

import dataclasses
import inspect
import os
import traceback
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import softmargin as sm
from softmargin import penalties, solvers
from softmargin.cli.options import build_parser
from softmargin.core.errors import SoftmarginError
from softmargin.estimators.posing.fit import fit_problem
from softmargin.features import RandomBinning
from softmargin.losses.entrywise import ENTRYWISE

IS_WHOLE = "SOFTMARGIN_ATTACK" in os.environ
SEED = int(os.environ.get("SOFTMARGIN_ATTACK_SEED", "0"))
PER_PARAMETER = 2

RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 3))
Y = np.argmax(X + 0.5 * RNG.standard_normal((40, 3)), axis=1)
PAIR = (Y > 0).astype(int)


class Bare:
    """An object that is nothing in particular."""


class Unprintable:
    """An object without a repr."""

    def __repr__(self):
        raise RuntimeError("no repr")


VALUES = {
    "None": None,
    "text": "x",
    "empty text": "",
    "almost auto": "auto ",
    "bytes": b"x",
    "-1": -1,
    "0": 0,
    "1": 1,
    "3.5": 3.5,
    "1e-300": 1e-300,
    "1e300": 1e300,
    "nan": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "10**400": 10**400,
    "10**5000": 10**5000,
    "True": True,
    "np.True_": np.True_,
    "float32 nan": np.float32("nan"),
    "float32": np.float32(0.5),
    "int64": np.int64(3),
    "0-d": np.array(0.5),
    "0-d text": np.array("x"),
    "complex": 1j,
    "Decimal": Decimal("0.5"),
    "Fraction": Fraction(1, 2),
    "[]": [],
    "()": (),
    "{}": {},
    "array": np.array([1, 2]),
    "ragged": [[1.0], [2.0, 3.0]],
    "{0: None}": {0: None},
    "{0: nan}": {0: np.nan},
    "{0: -1}": {0: -1.0},
    "{7: 1}": {7: 1.0},
    "{[]: 1}": {(): 1.0},
    "object": Bare(),
    "unprintable": Unprintable(),
    "function": lambda *args, **params: None,
    "class": Bare,
    "type": type,
    "Generator": np.random.default_rng(0),
    "solver class": solvers.Smo,
    "penalty": penalties.L1(np.nan),
}
BUDGET = {"max_iter": 20, "max_seconds": 0.2, "random_state": 0}


def fits(kind, y, **settings):
    """Return a call that fits an estimator with one parameter changed."""
    names = list(inspect.signature(kind).parameters)
    own = {name: value for name, value in {**BUDGET, **settings}.items() if name in names}

    def call(name, value):
        kind(**{**own, name: value}).fit(X, y)

    return call, names


def weighs(estimator, y):
    """Return a call that fits with odd sample weights."""
    return lambda name, value: estimator.fit(X, y, sample_weight=value), ["sample_weight"]


def streams(name, value):
    """Learn from a chunk."""
    settings = {"multiclass": "one_vs_rest", **BUDGET}
    more = {"classes": np.arange(3)}
    (more if name in ("classes", "sample_weight") else settings)[name] = value
    sm.KernelSVC(**settings).partial_fit(X, Y, **more)


def path(name, value):
    sm.softmax_path(X, Y, **{"Cs": 2, **BUDGET, name: value})


def path_of_radii(name, value):
    sm.radius_path(**{"estimator": sm.L1BallClassifier(**BUDGET), "X": X, "y": Y, "radii": 2, name: value})


def certifies(name, value):
    model = sm.LinearModel(np.arange(3), np.zeros((3, 3)), np.zeros(3), {})
    asked = {"model": model, "C": 1.0, "multiclass": "crammer_singer", "loss": "hinge", name: value}
    sm.certify(X=X, y=Y, **asked)


def runs(name, value):
    stop, how = {"max_iter": 3}, {"rng": 0}
    (stop if name in sm.Stop._fields else how)[name] = value
    problem = sm.MulticlassSVM(X, Y)
    sm.solve(problem, **{"solver": sm.DualBlockDescent(), **how}, stop=sm.Stop(**stop))


def penalised(kind):
    def call(name, value):
        sm.SoftmaxRegression(penalty=kind(**{name: value}), **BUDGET).fit(X, Y)

    return call, list(inspect.signature(kind).parameters)


def kernel(name, value):
    sm.make_kernel(**{"kernel": "polynomial", name: value})


def ball(kind):
    def call(name, value):
        target = np.where(PAIR, 1.0, -1.0)[:, None]
        problem = sm.Constrained(X, target, loss=ENTRYWISE["logistic"], ball=kind(value))
        fit_problem(problem, stop=sm.Stop(max_iter=3), seed=0)

    return call, ["radius"]


def solver_fits(name, settings, estimator, y):
    """Return a call that builds a solver with one field changed, and fits with it."""
    kind = getattr(solvers, name)
    fields = [field.name for field in dataclasses.fields(kind) if field.init]

    def call(field, value):
        own = {"solver": solvers.DualBlockDescent()} if name == "EachClass" else {}
        estimator(solver=kind(**{**own, field: value}), **BUDGET, **settings).fit(X, y)

    return call, fields


OVR = {"multiclass": "one_vs_rest"}
LINEAR = {"fit_intercept": False, "l2": 0.1}
SOLVERS = {
    "DualBlockDescent": ({}, sm.LinearSVC, Y),
    "PrimalNewton": ({**OVR, "loss": "squared_hinge"}, sm.LinearSVC, Y),
    "SquaredHingeDescent": ({**OVR, "loss": "squared_hinge"}, sm.LinearSVC, Y),
    "Smo": ({**OVR, "loss": "squared_hinge"}, sm.KernelSVC, Y),
    "DualProxGradient": ({**OVR, "loss": "squared_hinge"}, sm.KernelSVC, Y),
    "EachClass": (OVR, sm.LinearSVC, Y),
    "KernelBlockDescent": ({}, sm.KernelSVC, Y),
    "KernelPairDescent": ({}, sm.KernelSVC, PAIR),
    "FreePairDescent": ({"fit_intercept": "free"}, sm.KernelSVC, PAIR),
    "ProjectedGradient": ({}, sm.KernelSVC, Y),
    "Splitting": ({}, sm.KernelSVC, Y),
    "FrankWolfe": ({}, sm.KernelSVC, Y),
    "FreeFrankWolfe": ({"fit_intercept": "free"}, sm.KernelSVC, PAIR),
    "BlockFrankWolfe": ({}, sm.KernelSVC, Y),
    "ConjugateSubgradient": ({}, sm.KernelSVC, PAIR),
    "Wolfe": ({}, sm.KernelSVC, PAIR),
    "Pegasos": ({}, sm.KernelSVC, PAIR),
    "AcceleratedGradient": ({}, sm.SoftmaxRegression, Y),
    "BlockProxGradient": ({}, sm.SoftmaxRegression, Y),
    "Lbfgs": ({}, sm.SoftmaxRegression, Y),
    "L1InteriorPoint": ({"l1_ratio": 1.0}, sm.SoftmaxRegression, Y),
    "MMDescent": ({}, sm.SoftmaxRegression, Y),
    "NewtonCG": ({}, sm.SoftmaxRegression, Y),
    "PrimalDualNewton": ({}, sm.SoftmaxRegression, Y),
    "ProxNewton": ({}, sm.SoftmaxRegression, Y),
    "SoftmaxDualDescent": ({}, sm.SoftmaxRegression, Y),
    "SoftmaxNewton": ({}, sm.SoftmaxRegression, Y),
    "Svrg": ({}, sm.SoftmaxRegression, Y),
    "TrustNewton": ({}, sm.SoftmaxRegression, Y),
    "BallBlockFrankWolfe": ({}, sm.L1BallClassifier, Y),
    "BallDualDescent": (LINEAR, sm.L1BallClassifier, Y),
    "BallFrankWolfe": ({}, sm.L1BallClassifier, Y),
    "BallGradient": ({}, sm.L1BallClassifier, Y),
    "BallNewton": ({}, sm.TraceBallClassifier, PAIR),
    "BallPairwise": ({}, sm.L1BallClassifier, Y),
    "BallPrimalDual": ({}, sm.L1BallClassifier, Y),
    "BallStochasticFrankWolfe": ({}, sm.L1BallClassifier, Y),
    "BallSvrg": ({}, sm.L1BallClassifier, Y),
    "BallWorkingSet": ({}, sm.L1BallClassifier, Y),
    "L1BallNewton": ({}, sm.L1BallClassifier, Y),
    "LowRankGradient": ({}, sm.TraceBallClassifier, Y),
    "LowRankNewton": ({}, sm.TraceBallClassifier, Y),
    "TraceBallInteriorPoint": ({}, sm.TraceBallClassifier, Y),
    "LowRankPDBFW": (LINEAR, sm.TraceBallClassifier, Y),
    "PrimalDualBFW": (LINEAR, sm.L1BallClassifier, Y),
    "Scgs": ({}, sm.L1BallClassifier, Y),
    "Storc": ({}, sm.L1BallClassifier, Y),
}

CALLS = {
    "LinearSVC": fits(sm.LinearSVC, Y),
    "LinearSVC of two": fits(sm.LinearSVC, PAIR, loss="squared_hinge"),
    "KernelSVC": fits(sm.KernelSVC, Y, kernel="polynomial"),
    "KernelSVC, landmarks": fits(sm.KernelSVC, Y, approximation="nystroem", n_components=5),
    "SoftmaxRegression": fits(sm.SoftmaxRegression, Y),
    "SoftmaxRegressionCV": fits(sm.SoftmaxRegressionCV, Y, Cs=2, cv=2),
    "KernelSVCCV": fits(sm.KernelSVCCV, Y, Cs=2, cv=2),
    "L1BallClassifier": fits(sm.L1BallClassifier, Y),
    "L1BallRegressorCV": fits(sm.L1BallRegressorCV, X[:, 0], radii=2, cv=2),
    "L1BallRegressor": fits(sm.L1BallRegressor, X[:, 0]),
    "TraceBallClassifier": fits(sm.TraceBallClassifier, Y),
    "TraceBallRegressor": fits(sm.TraceBallRegressor, X),
    "RandomBinning": fits(RandomBinning, Y, n_grids=3),
    "LinearSVC.fit": weighs(sm.LinearSVC(**BUDGET), Y),
    "KernelSVC.fit": weighs(sm.KernelSVC(**BUDGET), Y),
    "SoftmaxRegression.fit": weighs(sm.SoftmaxRegression(**BUDGET), Y),
    "SoftmaxRegressionCV.fit": weighs(sm.SoftmaxRegressionCV(2, cv=2, **BUDGET), Y),
    "L1BallRegressor.fit": weighs(sm.L1BallRegressor(**BUDGET), X[:, 0]),
    "TraceBallClassifier.fit": weighs(sm.TraceBallClassifier(**BUDGET), Y),
    "partial_fit": (streams, ["classes", "sample_weight", "C", "gamma", "tol", "n_components", "class_weight"]),
    "softmax_path": (path, [name for name in inspect.signature(sm.softmax_path).parameters if name not in "Xy"]),
    "radius_path": (path_of_radii, ["estimator", "radii", "eps", "sample_weight"]),
    "certify": (certifies, [name for name in inspect.signature(sm.certify).parameters if name not in ("X", "y")]),
    "solve": (runs, [*sm.Stop._fields, "solver", "rng", "watchers", "resume"]),
    "make_kernel": (kernel, ["kernel", "gamma", "degree", "coef0"]),
    "L1Ball": ball(sm.L1Ball),
    "TraceBall": ball(sm.TraceBall),
    **{name: penalised(kind) for name, kind in penalties.PENALTIES.items()},
    **{name: solver_fits(name, *how) for name, how in SOLVERS.items()},
}
PAIRS = [(call, name) for call, (_, names) in CALLS.items() for name in names]


def names(parameter, message):
    """Say whether a message names a parameter; numbers of penalties and huge prices have words of their own."""
    return any(words in message for words in (parameter, "penalty=", "C times the weights"))


def complaint(call, name, value):
    """Return what is wrong with the outcome of a call; None where nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (sm.NotCertifiedWarning, sm.IndefiniteKernelWarning, sm.InactiveBallWarning):
            warnings.simplefilter("ignore", kind)
        # A huge price or penalty is a number all the same: a solver may overflow, and its status tells.
        warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
        try:
            CALLS[call][0](name, value)
        except SoftmarginError as error:
            return None if names(name, str(error)) else f"the error does not name {name}: {error}"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if isinstance(error, (TypeError, ValueError)) and "/sklearn/" in last.filename:
                return None
            return f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(last.filename)}:{last.lineno})"
    return None


@pytest.mark.parametrize(("call", "name"), PAIRS)
def test_odd_values_work_or_are_refused_by_name(call, name):
    rng = np.random.default_rng([SEED, PAIRS.index((call, name))])
    chosen = list(VALUES) if IS_WHOLE else rng.choice(list(VALUES), PER_PARAMETER, replace=False).tolist()
    found = {label: complaint(call, name, VALUES[label]) for label in chosen}
    assert not {label: problem for label, problem in found.items() if problem is not None}


WORDS = ("x", "", " ", "nan", "-inf", "1e400", "1" * 5000, "0x10", "true", "None", "1,2", "a=", "a=nan", "\x1b[31m")
VERBS = {"train": ["DATA"], "predict": ["DATA", "MODEL"], "certify": ["MODEL", "DATA"], "bench": ["quick"]}


@pytest.mark.parametrize("verb", VERBS)
def test_odd_words_of_the_command_line_are_wrong_usage(verb, capsys):
    parser = build_parser()
    actions = parser._subparsers._group_actions[0].choices[verb]._actions
    options = [
        action.option_strings[-1] for action in actions if action.option_strings and (action.type or action.choices)
    ]
    for option in set(options) - {"--ignore"}:  # which takes names of columns, and these may be any text
        for word in WORDS:
            if (option, word) == ("--grid", "1,2"):
                continue  # a list of values is what it takes
            given = [f"{option}={word}"] if option.startswith("--") else [option + word]
            with pytest.raises(SystemExit) as ended:
                parser.parse_args([verb, *VERBS[verb], *(given if word or option.startswith("--") else [option, word])])
            said = capsys.readouterr().err
            assert ended.value.code == 2
            assert option in said
            assert "\x1b" not in said
