"""The one fit path, shared by estimators and command line; it never imports scikit-learn, which takes a second."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.models import LinearModel
from softmargin.problems import DualPoint, MulticlassSVM
from softmargin.run import Result, Stop, solve
from softmargin.solvers import DualBlockDescent

__all__ = ["SOLVERS", "find_solver", "fit_linear_svm", "joint_weights", "linear_model", "linear_problem", "loss_prices"]

Array = NDArray[Any]

SOLVERS: dict[str, Any] = {
    "auto": DualBlockDescent(),
    "block_descent": DualBlockDescent(),
    "walrus": DualBlockDescent(block="sort", working_set=False),
    "shark": DualBlockDescent(block="greedy", working_set=False),
}


def loss_prices(
    codes: Array, classes: Array, C: float, class_weight: Any = None, sample_weight: Array | None = None
) -> Array:
    """Return C_i = C * class_weight[y_i] * sample_weight_i; shape (n,).

    ``class_weight`` is None, "balanced" (n / (k * count)), or a mapping from label to weight.
    """
    if not (isinstance(C, int | float | np.number) and math.isfinite(C) and C > 0):
        raise DataError(f"C must be a finite number > 0; found {C!r}. Small C regularises more.")
    weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("sample_weight must be finite and not negative; found a NaN, infinite or negative weight.")
    if not weights.any():
        raise DataError("sample_weight is zero for every sample; at least one must be positive.")
    return C * weights * _class_weights(classes, codes, weights, class_weight)[codes]


def _class_weights(classes: Array, codes: Array, sample_weight: Array, class_weight: Any) -> Array:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise DataError(f"class_weight={class_weight!r} is unknown; use None, 'balanced' or a mapping.")
        mass = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        return np.where(mass > 0, mass.sum() / (len(classes) * np.where(mass > 0, mass, 1.0)), 0.0)
    if not isinstance(class_weight, Mapping):
        raise DataError(
            f"class_weight must be None, 'balanced' or a mapping from label to weight; found {class_weight!r}."
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise DataError(f"class_weight names {unknown}, which are not among the labels {labels[:10]}.")
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def linear_problem(
    X: Any,
    codes: Array,
    n_classes: int,
    prices: Array,
    *,
    multiclass: str,
    fit_intercept: bool,
    intercept_scaling: float,
) -> MulticlassSVM:
    """Build the problem; the intercept is the weight of a constant feature ``intercept_scaling``."""
    if fit_intercept and not (math.isfinite(intercept_scaling) and intercept_scaling > 0):
        raise DataError(f"intercept_scaling must be a finite number > 0; found {intercept_scaling!r}.")
    bias = float(intercept_scaling) if fit_intercept else 0.0
    return MulticlassSVM(X, codes, C=prices, multiclass=multiclass, n_classes=n_classes, bias=bias)


def fit_linear_svm(
    problem: MulticlassSVM,
    *,
    solver: Any = "auto",
    stop: Stop,
    seed: Any = None,
    init: DualPoint | None = None,
    watchers: Sequence[Any] = (),
    resume: Any = None,
) -> Result:
    """Solve it by the solver of that name (or a solver object)."""
    return solve(problem, find_solver(solver), stop=stop, rng=seed, init=init, watchers=watchers, resume=resume)


def find_solver(solver: Any) -> Any:
    """Return the solver of that name, or the solver object itself."""
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise IncompatibleError(f"solver={solver!r} is unknown; choose one of {', '.join(SOLVERS)}.")
    return SOLVERS[solver]


def linear_model(weights: Array, bias: float, classes: Array, info: Mapping[str, Any]) -> LinearModel:
    """Turn joint weights (d + 1, k) into scikit-learn's shapes; two classes become one row w_1 - w_0."""
    coef, intercept = weights[:-1].T, bias * weights[-1]
    if len(classes) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    return LinearModel(classes, np.ascontiguousarray(coef), np.ascontiguousarray(intercept), info)


def joint_weights(coef: Array, intercept: Array, bias: float) -> Array:
    """Undo ``linear_model``: (d + 1, k) weights. Of all pairs with that difference, -w/2 and w/2 cost least."""
    coef, intercept = np.atleast_2d(np.asarray(coef, dtype=np.float64)), np.atleast_1d(intercept)
    if len(coef) == 1:
        coef, intercept = np.vstack([-coef, coef]) / 2.0, np.concatenate([-intercept, intercept]) / 2.0
    last = intercept / bias if bias else np.zeros(len(coef))
    return np.vstack([coef.T, last])
