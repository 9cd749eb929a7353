"""What every fit does without scikit-learn: checks of data, the price of every sample's loss, the run.

A penalty that is not convex has many stationary points: the run starts at a solution of its convex relative (maths:
softmax, section 4).
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from softmargin.core.errors import DataError
from softmargin.core.parameters import (
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    Given,
    OneOf,
    as_numbers,
    checked,
    shown,
)
from softmargin.core.threads import shared_interruption
from softmargin.estimators.posing.auto import TUNING, find_solver
from softmargin.estimators.posing.softmax import convex_relative
from softmargin.problems import Composite
from softmargin.run import Result, Stop, solve

__all__ = [
    "CLASS_WEIGHT",
    "LARGEST_SQUARES",
    "class_weights",
    "codes_of",
    "demand_modest",
    "fit_problem",
    "loss_prices",
    "model_info",
    "sample_weights",
    "sum_of_squares",
]

Array = NDArray[Any]


# Beyond these, products and squares of data, prices and weights overflow.
LARGEST_SQUARES: dict[Any, float] = {np.float64: 1e200, np.float32: 1e36}
LARGEST_PRICES = 1e100
CLASS_WEIGHT = (NONE, OneOf("balanced"), Given("a mapping from label to weight", lambda v: isinstance(v, Mapping)))


def loss_prices(
    codes: Array, classes: Array, C: float, class_weight: Any = None, sample_weight: Array | None = None
) -> Array:
    """Return C_i = C * class_weight[y_i] * sample_weight_i; shape (n,). A weight of 2 is the sample given twice.

    ``class_weight`` is None, "balanced" (n / (k * count)), or a mapping from label to weight.
    """
    C = checked("C", C, POSITIVE)
    if sample_weight is None and class_weight is None and len(codes) * C <= LARGEST_PRICES:
        return np.full(len(codes), C)
    weights = np.ones(len(codes)) if sample_weight is None else sample_weights(sample_weight)
    if weights.shape not in ((), (len(codes),)):
        raise DataError(f"sample_weight has shape {weights.shape} for {len(codes)} samples; give one per sample.")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("sample_weight must be finite and not negative; found a NaN, infinite or negative weight.")
    if not weights.any():
        raise DataError("sample_weight is zero for every sample; at least one must be positive.")
    with np.errstate(over="ignore", invalid="ignore"):
        prices: Array = C * weights * class_weights(classes, codes, weights, class_weight)[codes]
        total = float(prices.sum())
    if not total <= LARGEST_PRICES:
        raise DataError(
            f"C times the weights of samples and classes sums to {total:.3g}; above {LARGEST_PRICES:g} their squares "
            "leave the range of float64. Lower C or the weights."
        )
    return prices


def sum_of_squares(values: Any) -> float:
    """Return the sum of the squares, by BLAS; NaN or infinity where there is one, or where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vdot(values, values))


def demand_modest(X: Any, name: str = "X") -> None:
    """Refuse numbers so large that sums of their squares leave the range of their type, or come near it."""
    values = X.data if issparse(X) else X
    square, most = sum_of_squares(values), LARGEST_SQUARES[values.dtype.type]
    if square > most:
        largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        raise DataError(
            f"{name} holds values up to {largest:.3g}, and its squares sum to {square:.3g}: sums above {most:g} leave "
            f"the range of {values.dtype}. Scale {'the features' if name == 'X' else name} to values near 1."
        )


def sample_weights(sample_weight: Any) -> Array:
    """Return weights as a float64 array; refuse what are no numbers."""
    weights = as_numbers(sample_weight)
    if weights is None:
        raise DataError(f"sample_weight must be one number >= 0 per sample; found {shown(sample_weight)}.")
    return weights


def class_weights(classes: Array, codes: Array, sample_weight: Array, class_weight: Any) -> Array:
    """Return the weight of every class, "balanced" by the weights of samples with these codes; (k,)."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(checked("class_weight", class_weight, *CLASS_WEIGHT), str):
        mass = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        return np.where(mass > 0, mass.sum() / (len(classes) * np.where(mass > 0, mass, 1.0)), 0.0)
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise DataError(f"class_weight names {shown(unknown)}, which are not among the labels {labels[:10]}.")
    given = {label: class_weight.get(label, 1.0) for label in labels}
    return np.array([checked(f"class_weight[{label!r}]", weight, NOT_NEGATIVE) for label, weight in given.items()])


def codes_of(classes: Array, y: Any) -> Array:
    """Return the class code of every label; refuse labels the model does not know."""
    y = np.asarray(y)
    if len(classes) == 2:  # a search takes longer
        is_second = y == classes[1]
        if np.all(is_second | (y == classes[0])):
            return is_second.astype(np.int32)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    strange = classes[codes] != y
    if np.any(strange):
        label = y[strange][:1].tolist()[0]
        raise DataError(
            f"y holds the label {label!r}, which the model does not know: it is none of its classes. Pass the data it "
            "was trained on."
        )
    return codes


def model_info(
    claim: Mapping[str, Any], *, fit_intercept: bool | str, class_weight: Any, tol: float, status: str, certificate: Any
) -> dict[str, Any]:
    """Return what every model remembers: its problem (``claim``), and how far it was solved."""
    return {
        **claim,
        "fit_intercept": fit_intercept if isinstance(fit_intercept, str) else bool(fit_intercept),
        "class_weight": class_weight,
        "tol": float(tol),
        "status": status,
        "certificate": certificate._asdict(),
    }


def fit_problem(
    problem: Any,
    *,
    solver: Any = "auto",
    stop: Stop,
    seed: Any = None,
    init: Any = None,
    watchers: Sequence[Any] = (),
    resume: Any = None,
) -> Result:
    """Solve a problem by the solver of that name (or a solver object); one-vs-rest problems class by class."""
    chosen = find_solver(solver, problem)
    with shared_interruption():
        if init is None and resume is None and isinstance(problem, Composite) and not problem.penalty.is_convex:
            began = time.perf_counter()
            init = _convex_start(problem, stop, seed)
            if math.isfinite(stop.max_seconds):
                stop = stop._replace(max_seconds=max(stop.max_seconds - (time.perf_counter() - began), 0.0))
        return solve(problem, chosen, stop=stop, rng=seed, init=init, watchers=watchers, resume=resume)


def _convex_start(problem: Composite, stop: Stop, seed: Any) -> Any:
    """Solve the problem with the convex relative of its penalty, loosely; None where the penalty has none."""
    penalty = convex_relative(problem.penalty)
    if penalty is None:
        return None
    relative = problem.with_penalty(penalty)
    loose = stop.checked()._replace(tol=max(stop.tol, TUNING.loose_tol))
    return solve(relative, find_solver("auto", relative), stop=loose, rng=seed).point
