"""From labels and settings to a problem, and from its points to a model; never imports scikit-learn.

    loss             multiclass                         problem                                     intercept
    hinge            weston_watkins, crammer_singer     one joint SVM                               penalised
    hinge            one_vs_rest                        a joint SVM of two classes a class, C / 2   penalised
    squared_hinge    one_vs_rest; any of two classes    an L2SVM a class, 2 C                       free
    (``_sampled`` has the problems of solvers that look at samples, and of approximations)

A binary hinge SVM is twice the joint SVM of two classes with half its C (spec 2.10). ``C`` means here what it means in
scikit-learn, C sum_i xi_i^2; the L2SVM charges C / 2 sum_i xi_i^2. A penalised intercept is the weight of a constant
feature. Duals and weights of two classes collapse to one column, second class minus first, as in scikit-learn.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.protocols import FreeBiasProblem, SampledProblem
from softmargin.kernels import Linear
from softmargin.losses import LOSSES
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import canonical, rmatmul
from softmargin.models import KernelExpansion
from softmargin.problems import L2SVM, ExpansionPoint, KernelMulticlassSVM, L2Point, MulticlassSVM, OneVsRest

__all__ = [
    "HINGES",
    "MULTICLASS",
    "as_point",
    "check_kind",
    "coef_and_intercept",
    "constant_feature",
    "dual_columns",
    "gram_of",
    "joint_weights",
    "kernel_model",
    "kernel_problem",
    "linear_problem",
    "one_by_one",
    "warm_point",
]

Array = NDArray[Any]

HINGES = ("hinge", "squared_hinge")
MULTICLASS = (*LOSSES, "one_vs_rest")


def linear_problem(
    X: Any,
    codes: Array,
    n_classes: int,
    prices: Array,
    *,
    multiclass: str,
    loss: str = "hinge",
    fit_intercept: bool,
    intercept_scaling: float,
) -> Any:
    """Build the problem of a linear SVM.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    codes : int array of shape (n,)
        Class codes 0 .. k-1.
    n_classes : int
    prices : array of shape (n,), or (n, k) to charge a sample differently in every class of one-vs-rest
    multiclass : {"weston_watkins", "crammer_singer", "one_vs_rest"}
    loss : {"hinge", "squared_hinge"}
    fit_intercept : bool
    intercept_scaling : float
        Value of the constant feature (hinge).
    """
    check_kind(multiclass, loss, n_classes)
    X = canonical(X)
    if loss == "squared_hinge":
        return _free_bias_parts(Gram(Linear(), X), codes, n_classes, prices, has_bias=fit_intercept)
    bias = constant_feature(fit_intercept, intercept_scaling)
    if multiclass != "one_vs_rest":
        return MulticlassSVM(X, codes, C=prices, multiclass=multiclass, n_classes=n_classes, bias=bias)
    parts = [
        MulticlassSVM(X, mine, C=C / 2.0, n_classes=2, bias=bias) for mine, C in one_by_one(codes, n_classes, prices)
    ]
    return OneVsRest(parts, scale=2.0)


def kernel_problem(
    X: Any,
    codes: Array,
    n_classes: int,
    prices: Array,
    *,
    kernel: Any,
    multiclass: str,
    loss: str = "hinge",
    fit_intercept: bool,
    intercept_scaling: float,
    cache_size: float = 1000.0,
) -> Any:
    """Build the problem of a kernel SVM: as ``linear_problem``, with a kernel object and megabytes for its values."""
    check_kind(multiclass, loss, n_classes)
    if loss == "squared_hinge":
        gram = Gram(kernel, X, cache_size=cache_size)
        return _free_bias_parts(gram, codes, n_classes, prices, has_bias=fit_intercept)
    gram = Gram(kernel, X, bias=constant_feature(fit_intercept, intercept_scaling), cache_size=cache_size)
    if multiclass != "one_vs_rest":
        return KernelMulticlassSVM(gram, codes, C=prices, multiclass=multiclass, n_classes=n_classes)
    parts = [
        KernelMulticlassSVM(gram, mine, C=C / 2.0, n_classes=2) for mine, C in one_by_one(codes, n_classes, prices)
    ]
    return OneVsRest(parts, scale=2.0)


def check_kind(multiclass: str, loss: str, n_classes: int) -> None:
    """Refuse unknown names, and losses that cannot be joined."""
    if multiclass not in MULTICLASS:
        raise IncompatibleError(f"multiclass={multiclass!r} is unknown; choose one of {', '.join(MULTICLASS)}.")
    if loss not in HINGES:
        raise IncompatibleError(f"loss={loss!r} is unknown; choose one of {', '.join(HINGES)}.")
    if loss == "squared_hinge" and multiclass != "one_vs_rest" and n_classes > 2:
        raise IncompatibleError(
            f"loss='squared_hinge' is a loss of two classes, but multiclass={multiclass!r} was asked to join "
            f"{n_classes} in one; use multiclass='one_vs_rest', or loss='hinge'."
        )


def constant_feature(fit_intercept: bool, intercept_scaling: float) -> float:
    """Return the value of the constant feature whose weight gives the intercept; 0 for none."""
    if not fit_intercept:
        return 0.0
    if not (math.isfinite(intercept_scaling) and intercept_scaling > 0):
        raise DataError(f"intercept_scaling must be a finite number > 0; found {intercept_scaling!r}.")
    return float(intercept_scaling)


def one_by_one(codes: Array, n_classes: int, prices: Array) -> list[tuple[Array, Array]]:
    """Return (codes 0 and 1, prices) of each binary problem: one where there are two classes."""
    positives = [codes == 1] if n_classes == 2 else [codes == c for c in range(n_classes)]
    columns = prices.T if prices.ndim == 2 else [prices] * len(positives)
    return [(mine.astype(np.int32), C) for mine, C in zip(positives, columns, strict=True)]


def _free_bias_parts(gram: Gram, codes: Array, n_classes: int, prices: Array, *, has_bias: bool) -> OneVsRest:
    return OneVsRest(
        [
            L2SVM(gram, 2.0 * mine - 1.0, C=2.0 * C, has_bias=has_bias)
            for mine, C in one_by_one(codes, n_classes, prices)
        ]
    )


def _has_free_bias(part: Any) -> bool:
    return isinstance(part, FreeBiasProblem)


def dual_columns(problem: Any, point: Any) -> Array:
    """Return the dual variables with their signs, so that W = sum_i x_i dual_i'; (n, k), or (n, 1) for two classes."""
    if not hasattr(problem, "parts"):
        return _signed(problem, point)
    return np.hstack([_signed(part, mine) for part, mine in zip(problem.parts, point, strict=True)])


def _signed(part: Any, point: Any) -> Array:
    """Return the dual variables of one problem with their signs; (n, k), or (n, 1) for two classes."""
    if isinstance(part, SampledProblem):
        column = np.zeros((part.n, 1))
        column[point.samples, 0] = point.alpha
        return column
    return (part.y * point.alpha)[:, None] if _has_free_bias(part) else _collapsed(point.alpha)


def _collapsed(columns: Array) -> Array:
    return columns[:, 1:] - columns[:, :1] if columns.shape[1] == 2 else columns


def _alphas(problem: Any, dual: Array) -> list[Array]:
    """Undo ``dual_columns``: the dual variables of the problem, or of each of its parts."""
    # Rows of a joint SVM sum to zero, so that one column of two says all.
    pair = np.array([-0.5, 0.5])
    if isinstance(problem, SampledProblem):
        return [dual[:, 0]]
    if not hasattr(problem, "parts"):
        return [dual * pair if dual.shape[1] == 1 else dual]
    if isinstance(problem.parts[0], SampledProblem):
        return list(dual.T)
    return [
        part.y * column if _has_free_bias(part) else column[:, None] * pair
        for part, column in zip(problem.parts, dual.T, strict=True)
    ]


def warm_point(problem: Any, dual: Array) -> Any:
    """Make a feasible point of dual columns that may come from other prices."""
    parts = getattr(problem, "parts", [problem])
    points = [
        _expansion(alpha) if isinstance(part, SampledProblem) else part.point(part.feasible(alpha))
        for part, alpha in zip(parts, _alphas(problem, dual), strict=True)
    ]
    return points if hasattr(problem, "parts") else points[0]


def _expansion(alpha: Array) -> ExpansionPoint:
    samples = np.flatnonzero(alpha)
    return ExpansionPoint(samples, alpha[samples], np.zeros(len(samples)))


def as_point(problem: Any, dual: Array, intercept: Array) -> Any:
    """Make a point of dual columns as they are; ``intercept`` counts where the bias is free."""
    parts = getattr(problem, "parts", [problem])
    points = [
        L2Point(alpha, float(bias)) if _has_free_bias(part) else part.point(alpha)
        for part, alpha, bias in zip(parts, _alphas(problem, dual), intercept, strict=False)
    ]
    return points if hasattr(problem, "parts") else points[0]


def _free_biases(problem: Any, point: Any) -> Array:
    """Return the biases that nobody penalises, one a column of the dual; zero where there are none."""
    if not hasattr(problem, "parts"):
        return np.zeros(1)
    return np.array([getattr(mine, "bias", 0.0) for mine in point])


def coef_and_intercept(problem: Any, point: Any) -> tuple[Array, Array]:
    """Return the weights of a linear problem in scikit-learn's shapes: (k, d) and (k,), or one row for two classes."""
    if not hasattr(problem, "parts"):
        return _rows_of(point.weights, problem.bias)
    rows = [_weights_of(part, mine) for part, mine in zip(problem.parts, point, strict=True)]
    return np.vstack([coef for coef, _ in rows]), np.concatenate([intercept for _, intercept in rows])


def _weights_of(part: Any, point: Any) -> tuple[Array, Array]:
    if not _has_free_bias(part):
        return _rows_of(point.weights, part.bias)
    weights = point.weights
    if weights is None:
        weights = rmatmul(part.gram.X, (part.y * point.alpha)[:, None], 0.0)[:-1, 0]
    return weights[None, :], np.array([point.bias])


def _rows_of(weights: Array, bias: float) -> tuple[Array, Array]:
    """Turn joint weights (d + 1, k) into rows; two classes become one, w_1 - w_0."""
    columns = _collapsed(weights)
    return np.ascontiguousarray(columns[:-1].T), bias * columns[-1]


def joint_weights(coef: Array, intercept: Array, bias: float) -> Array:
    """Return (d + 1, k) weights of rows; of all pairs with the difference w, -w/2 and w/2 cost least."""
    coef, intercept = np.atleast_2d(np.asarray(coef, dtype=np.float64)), np.atleast_1d(intercept)
    if len(coef) == 1:
        coef, intercept = np.vstack([-coef, coef]) / 2.0, np.concatenate([-intercept, intercept]) / 2.0
    last = intercept / bias if bias else np.zeros(len(coef))
    return np.vstack([coef.T, last])


def gram_of(problem: Any) -> Gram:
    """Return the kernel matrix of a problem, or the one its parts share."""
    gram: Gram = getattr(problem, "parts", [problem])[0].gram
    return gram


def kernel_model(problem: Any, point: Any, classes: Array, info: Mapping[str, Any]) -> KernelExpansion:
    """Turn a point of a kernel problem into a model: the samples with a nonzero dual variable, and the intercepts."""
    gram = gram_of(problem)
    dual = dual_columns(problem, point)
    support = np.flatnonzero(dual.any(axis=1))
    return KernelExpansion(
        classes,
        gram.kernel,
        None if gram.is_given else gram.X[support],
        support,
        gram.n,
        dual[support],
        # A constant feature has the weight bias * sum of the duals, spec 2.1.
        gram.bias**2 * dual.sum(axis=0) + _free_biases(problem, point),
        info,
    )
