"""What `train` can train: for each --model, the problem that its options ask for and the model that a point is."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.cli.choices import KERNEL_DEFAULTS, SOFTMAX_DEFAULTS, SVM_DEFAULTS
from softmargin.core.errors import IncompatibleError
from softmargin.estimators._penalties import described, priced_penalty
from softmargin.estimators._problems import (
    coef_and_intercept,
    gram_of,
    kernel_model,
    linear_problem,
)
from softmargin.estimators._weights import loss_prices
from softmargin.kernels import Linear, Rbf, find_gamma, make_kernel
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion, LinearModel
from softmargin.problems import L2SVM, Composite, KernelMulticlassSVM, MulticlassSVM, OneVsRest, softmax_problem

__all__ = [
    "build_model",
    "build_problem",
    "claim",
    "is_kernel",
    "is_softmax",
    "kernel_settings",
    "settle",
    "small_problem",
]

Array = NDArray[Any]
# Whose options they are, what others lack, the models that have them, the options with their defaults.
_OWN_OPTIONS: tuple[tuple[str, str, tuple[str, ...], Mapping[str, Any]], ...] = (
    ("kernel models", "has no kernel", ("kernel-svc",), KERNEL_DEFAULTS),
    ("softmax models", "is none", ("softmax",), SOFTMAX_DEFAULTS),
    ("SVMs", "is none", ("linear-svc", "kernel-svc"), SVM_DEFAULTS),
)


def is_kernel(args: Namespace) -> bool:
    """Say whether a kernel model is asked for."""
    return bool(args.model == "kernel-svc")


def is_softmax(args: Namespace) -> bool:
    """Say whether a softmax model is asked for."""
    return bool(args.model == "softmax")


def settle(args: Namespace) -> None:
    """Fill in what depends on other options; refuse those of another model."""
    for owners, lack, models, defaults in _OWN_OPTIONS:
        for name, default in defaults.items():
            if getattr(args, name) is None:
                setattr(args, name, default)
            elif args.model not in models:
                raise IncompatibleError(
                    f"--{name.replace('_', '-')} is an option of {owners}; {args.model} {lack}. "
                    f"Add --model {models[0]}, or leave it out."
                )
    if args.multiclass is None and not is_softmax(args):
        args.multiclass = "one_vs_rest" if args.loss == "squared_hinge" else "weston_watkins"


def build_problem(args: Namespace, X: Any, codes: Array, classes: Array, class_weight: Any) -> tuple[Any, Any]:
    """Build the problem from rows that are ready to be trained on, and what makes a model of its approximation."""
    prices = loss_prices(codes, classes, args.C, class_weight)
    if is_softmax(args):
        _, penalty = priced_penalty(args.C, args.l1_ratio)
        problem = softmax_problem(
            X, codes, C=prices, penalty=penalty, n_classes=len(classes), fit_intercept=not args.no_intercept
        )
        return problem, None
    settings: dict[str, Any] = {
        "multiclass": args.multiclass,
        "loss": args.loss,
        "fit_intercept": not args.no_intercept,
        "intercept_scaling": args.intercept_scaling,
    }
    if not is_kernel(args):
        return linear_problem(X, codes, len(classes), prices, **settings), None
    from softmargin.estimators._sampled import pose

    gamma = 1.0 if args.kernel == "linear" else find_gamma(args.gamma, X)
    return pose(
        X,
        codes,
        len(classes),
        prices,
        kernel=make_kernel(args.kernel, gamma=gamma, degree=args.degree, coef0=args.coef0),
        cache_size=args.cache_size,
        approximation=None if args.approximation == "none" else args.approximation,
        solver=args.solver,
        n_components=args.n_components,
        seed=lambda: args.seed,
        **settings,
    )


def claim(args: Namespace) -> dict[str, Any]:
    """Return what the model shall remember of its problem; kernels are told by the model itself."""
    if is_softmax(args):
        _, penalty = priced_penalty(args.C, args.l1_ratio)
        return {"problem": "softmax", "C": args.C, "l1_ratio": args.l1_ratio, "penalty": described(penalty)}
    is_squared = args.loss == "squared_hinge"
    return {
        "problem": "l2_svm" if is_squared else "multiclass_svm",
        # Two classes need no joint loss; what was solved is one class against the other.
        "multiclass": "one_vs_rest" if is_squared else args.multiclass,
        "loss": args.loss,
        "C": args.C,
        "intercept_scaling": args.intercept_scaling,
    }


def kernel_settings(kernel: Any) -> dict[str, Any]:
    """Return the name of a kernel and the settings it has."""
    names = [name for name in ("gamma", "degree", "coef0") if hasattr(kernel, name)]
    return {"kernel": kernel.name, **{name: getattr(kernel, name) for name in names}}


def build_model(
    args: Namespace, problem: Any, point: Any, classes: Array, info: Mapping[str, Any], scales: Array | None
) -> LinearModel | KernelExpansion:
    """Make a model of a point; ``scales`` are those of the columns it was trained on, if they were scaled."""
    # Kept, so that `certify` finds the problem that was solved.
    info = dict(info) if scales is None else {**info, "column_scales": scales}
    if is_kernel(args):
        return kernel_model(problem, point, classes, {**info, **kernel_settings(gram_of(problem).kernel)})
    if is_softmax(args):
        coef, intercept = np.ascontiguousarray(point.weights.T), point.intercept
    else:
        coef, intercept = coef_and_intercept(problem, point)
    # Folded in, so that the model takes raw columns.
    return LinearModel(classes, coef if scales is None else coef / scales, intercept, info)


def small_problem(problem: Any) -> Any:
    """Return a problem of one or two rows that needs the same compiled loops, or None where that cannot be told."""
    part = getattr(problem, "parts", [problem])[0]
    if isinstance(part, Composite | MulticlassSVM):
        X = part.X[:2]
        if not isinstance(X, np.ndarray) and X.indices.dtype != part.X.indices.dtype:
            return None  # SciPy narrowed the indices: these loops would not be the ones needed
        if isinstance(part, Composite):
            settings = {"penalty": part.penalty, "n_classes": part.n_classes, "fit_intercept": part.fit_intercept}
            return softmax_problem(X, np.arange(2), **settings)
        small: Any = MulticlassSVM(
            X, part.y[:2], C=1.0, multiclass=part.multiclass, n_classes=part.n_classes, bias=part.bias
        )
    else:
        # The loops see kernel values alone, so any kernel will do; but Newton's method asks for the linear one.
        kernel = Linear() if part.gram.is_linear else Rbf(1.0)
        gram = Gram(kernel, np.array([[-1.0], [1.0]], dtype=part.gram.dtype))
        small = (
            L2SVM(gram, np.array([-1.0, 1.0]), has_bias=part.has_bias)
            if isinstance(part, L2SVM)
            else KernelMulticlassSVM(gram, np.arange(2), multiclass=part.multiclass, n_classes=part.n_classes)
        )
    return OneVsRest([small]) if hasattr(problem, "parts") else small
