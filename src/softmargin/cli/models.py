"""What `train` can train: for each --model, the problem that its options ask for and the model that a point is."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.cli.choices import (
    BALL_DEFAULTS,
    BALL_LOSSES,
    BALLS,
    KERNEL_DEFAULTS,
    LOSSES,
    PRICE_DEFAULTS,
    REGRESSORS,
    SEARCHED,
    SOFTMAX_DEFAULTS,
    SVM_DEFAULTS,
)
from softmargin.cli.rows import find_label
from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.posing.ball import (
    ball_claim,
    ball_problem,
    class_target,
    factors_of,
    number_target,
    shares,
)
from softmargin.estimators.posing.fit import loss_prices, model_info
from softmargin.estimators.posing.kernels import KernelSettings, KernelTask, kernel_claim, kernel_of, kernel_task
from softmargin.estimators.posing.softmax import pinned_column, priced_penalty, softmax_claim
from softmargin.estimators.posing.svm import SvmData, SvmSettings, linear_problem, streamed_problem
from softmargin.features.scaling import Scaling
from softmargin.matrices.forms import canonical, thinned
from softmargin.matrices.gram import Gram
from softmargin.matrices.origin import near_zero
from softmargin.models import KernelExpansion, LinearModel, LinearOneVsOne, LinearRegressor
from softmargin.penalties import PENALTIES
from softmargin.problems import Constrained, EveryPair, softmax_problem
from softmargin.run import Status
from softmargin.sets import LowRank, TraceBall

Array = NDArray[Any]
# Whose options they are, what others lack, the models that have them, the options with their defaults.
_OWN_OPTIONS: tuple[tuple[str, str, tuple[str, ...], Mapping[str, Any]], ...] = (
    ("kernel models", "has no kernel", ("kernel-svc",), KERNEL_DEFAULTS),
    ("softmax models", "is none", ("softmax",), SOFTMAX_DEFAULTS),
    ("SVMs", "is none", ("linear-svc", "kernel-svc"), SVM_DEFAULTS),
    ("SVMs and softmax models", "is none", ("linear-svc", "kernel-svc", "softmax"), PRICE_DEFAULTS),
    ("models in a ball", "is none", (*BALLS, *REGRESSORS), BALL_DEFAULTS),
)
# The losses that a model may have, the default first; a model without any has one loss.
_MODEL_LOSSES = {"linear-svc": LOSSES, "kernel-svc": LOSSES, **dict.fromkeys(BALLS, BALL_LOSSES)}


def fill_defaults(args: Namespace) -> None:
    """Fill in what depends on other options; refuse those of another model."""
    _check_search(args)
    if args.holdout and args.test is not None:
        raise IncompatibleError("--test gives the test rows, --holdout makes some. Leave out one of the two.")
    if args.penalty is not None and args.l1_ratio is not None:
        raise IncompatibleError("--penalty and --l1-ratio were asked for. Leave out one of the two.")
    for owners, lack, models, defaults in _OWN_OPTIONS:
        for name, default in defaults.items():
            if getattr(args, name, None) is None:
                setattr(args, name, default)
            elif args.model not in models:
                raise IncompatibleError(
                    f"--{name.replace('_', '-')} is an option of {owners}; {args.model} {lack}. "
                    f"Add --model {models[0]}, or leave it out."
                )
    _fill_loss(args)
    if args.model in REGRESSORS and args.class_weight is not None:
        raise IncompatibleError(
            f"--class-weight is an option of classifiers; {args.model} has no classes. Leave it out."
        )
    if args.multiclass is None and args.model in ("linear-svc", "kernel-svc"):
        args.multiclass = "one_vs_rest" if args.loss == "squared_hinge" or args.free_intercept else "weston_watkins"


def _check_search(args: Namespace) -> None:
    """Refuse a value beside values to choose from, and what the model does not have."""
    if args.verb == "path":
        if args.C is not None:
            raise IncompatibleError("-C is what the grid varies: give the values as --grid, or leave it out.")
        if args.grid is not None and args.points is not None:
            raise IncompatibleError("--grid gives the values, --points asks for a grid of our own. Leave one out.")
        return
    names = [name for name, _ in args.search]
    for name in names:
        known = SEARCHED[args.model]
        if name not in known:
            raise IncompatibleError(f"--search {name}: {args.model} can be searched for {' and '.join(known)}.")
        if names.count(name) > 1:
            raise IncompatibleError(f"--search {name} is given twice. Give all values in one.")
        if getattr(args, name) is not None:
            option = "-C" if name == "C" else f"--{name.replace('_', '-')}"
            raise IncompatibleError(f"{option} is what --search {name} chooses. Leave out one of the two.")


def _fill_loss(args: Namespace) -> None:
    known = _MODEL_LOSSES.get(args.model, ())
    if args.loss is None:
        args.loss = known[0] if known else None
    elif args.loss not in known:
        takes = f"takes {', '.join(known)}" if known else "has one loss"
        raise IncompatibleError(f"--loss {args.loss} was asked for; {args.model} {takes}. Leave it out.")


def svm_settings(args: Namespace) -> SvmSettings:
    """Return the settings that linear and kernel SVMs share."""
    return SvmSettings(args.multiclass, args.loss, fit_intercept(args), args.intercept_scaling)


def fit_intercept(args: Namespace) -> bool | str:
    """Return whether there is an intercept, or "free" for one without a penalty, or "penalized"."""
    kinds = {"no": args.no_intercept, "free": args.free_intercept, "penalized": args.penalized_intercept}
    asked = [kind for kind, is_asked in kinds.items() if is_asked]
    if len(asked) > 1:
        names = " and ".join(f"--{kind}-intercept" for kind in asked)
        raise IncompatibleError(f"{names} were asked for. Leave out one of the two.")
    return asked[0] if asked and asked[0] != "no" else not asked


def asked_penalty(args: Namespace) -> Any:
    """Return the penalty object that was asked for, or the elastic net's name."""
    return "elasticnet" if args.penalty is None else PENALTIES[args.penalty[0]](*args.penalty[1])


def softmax_penalty(args: Namespace, classes: Array) -> tuple[float, Any]:
    """Return the price of one unit of loss, and the penalty that was asked for."""
    pinned = None if args.pinned is None else find_label(args.pinned, classes, "--pinned")
    price, penalty = priced_penalty(args.C, args.l1_ratio, asked_penalty(args), pinned=pinned_column(pinned, classes))
    return float(price), penalty


def _norm(args: Namespace) -> str:
    """Return the norm of the ball that a model lies in."""
    return str(args.model.partition("-")[0])


def _in_ball(args: Namespace, X: Any, codes: Array, classes: Array | None, class_weight: Any) -> Any:
    """Build the problem of a classifier, or of a regressor whose numbers ``codes`` are."""
    if classes is None:
        target, parts = number_target(codes.astype(np.float64)), shares(len(codes))
    else:
        target = class_target(args.loss, codes, len(classes))
        parts = shares(len(codes), codes, classes, class_weight)
    settings = {"radius": args.radius, "l2": args.l2, "fit_intercept": not args.no_intercept}
    return ball_problem(X, target, parts, norm=_norm(args), **settings)


def build_problem(
    args: Namespace, X: Any, codes: Array, classes: Any, class_weight: Any, gram: Gram | None = None
) -> tuple[Any, KernelTask | None]:
    """Build the problem from rows that are ready to be trained on; with a kernel, also what makes models of points.

    A regressor has no classes: its ``codes`` are numbers. ``gram`` holds kernel values of the same rows.
    """
    if args.model in (*BALLS, *REGRESSORS):
        return _in_ball(args, X, codes, classes, class_weight), None
    n_classes, prices = len(classes), loss_prices(codes, classes, args.C, class_weight)
    if args.model == "softmax":
        _, penalty = softmax_penalty(args, classes)
        settings = {"n_classes": n_classes, "fit_intercept": not args.no_intercept}
        X = near_zero(thinned(canonical(X)), not (args.no_intercept or getattr(args, "stream", False)))
        return softmax_problem(X, codes, C=prices, penalty=penalty, **settings), None
    data = SvmData(X, codes, n_classes, prices, svm_settings(args))
    if args.model == "linear-svc":
        return (streamed_problem if getattr(args, "stream", False) else linear_problem)(data), None
    how = KernelSettings(
        kernel_of(args.kernel, args.gamma, args.degree, args.coef0, X),
        args.solver,
        None if args.approximation == "none" else args.approximation,
        args.n_components,
        args.cache_size,
        gram=gram,
    )
    task = kernel_task(data, how, lambda: args.seed)
    return task.problem, task


def train_info(
    args: Namespace,
    class_weight: Any,
    status: Status,
    certificate: Certificate,
    data: Mapping[str, Any],
    problem: Any = None,
) -> dict[str, Any]:
    """Return what the model shall remember of its problem and its training; ``build_model`` adds the kernel."""
    if args.model == "softmax":
        own = {"l1_ratio": args.l1_ratio} if args.penalty is None else {}
        claim = {**softmax_claim(args.C, problem.penalty), **own}
    elif args.model in (*BALLS, *REGRESSORS):
        claim = ball_claim(_norm(args), args.loss or "squared", args.radius, args.l2)
    else:
        claim = svm_settings(args).claim(args.C)
    own = {"fit_intercept": fit_intercept(args), "class_weight": class_weight, "tol": args.tol}
    info = model_info(claim, status=status.value, certificate=certificate, **own)
    return {**info, "normalize": args.normalize, "float32": args.float32, "data": data}


def build_model(
    problem: Any, task: KernelTask | None, point: Any, classes: Any, info: Mapping[str, Any], scaling: Scaling
) -> Any:
    """Make a model of a point; scales and shifts of columns are folded in, so that a linear one takes raw columns."""
    if task is not None and isinstance(problem, EveryPair):
        return problem.model(point, classes, {**info, **kernel_claim(problem.gram.kernel)})
    if task is not None:
        expansion = task.expansion(point)
        how = {} if task.landmarks is None else {"approximation": "nystroem"}
        return KernelExpansion(classes, *expansion, {**info, **kernel_claim(expansion.kernel), **how})
    is_factored = isinstance(problem, Constrained) and isinstance(problem.ball, TraceBall)
    if is_factored:
        point = point._replace(weights=factors_of(point.weights))
    coef, intercept = problem.coef_and_intercept(point)
    if is_factored:
        coef = LowRank(point.weights.V, point.weights.s, point.weights.U)
    if scaling.is_affine:
        coef, intercept = scaling.folded(coef, intercept)
    if classes is None:
        return LinearRegressor(coef, intercept, len(intercept) == 1, info)
    return (LinearOneVsOne if isinstance(problem, EveryPair) else LinearModel)(classes, coef, intercept, info)
