"""Fit probabilities to held-out scores: Platt's sigmoid, isotonic regression, one temperature.

Targets are not 0 and 1 but, as in LIBSVM (Platt 1999; Lin, Lin and Weng 2007), what a uniform prior leaves of them:
with N_+ samples of a class and N_- others, (N_+ + 1) / (N_+ + 2) and 1 / (N_- + 2). So no fit runs off to infinity
where all held-out rows are labelled right, and no probability is 0. For one temperature the other classes share
1 / (n + 2) evenly: the mass of one error among all n rows.

    sigmoid        minimise over a, b   sum_i w_i [log(1 + e^z_i) - t_i z_i] ,    z_i = a s_i + b        per class
    temperature    minimise over a      sum_i w_i [log sum_c e^(a s_ic) - a <t_i, s_i>] ,  a >= 0         all classes
    isotonic       least squares to t among the nondecreasing functions of s (scikit-learn's)             per class

The first two are convex and smooth, in two variables and in one: Newton's method with halved steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold

from softmargin.core.errors import DataError
from softmargin.core.threads import shared_interruption, spread
from softmargin.losses.multinomial import softmax
from softmargin.run import Result, Status

__all__ = ["TUNING", "CalibrationTuning", "HeldOut", "fitted_calibration", "held_out_scores"]

Array = NDArray[Any]


class CalibrationTuning(NamedTuple):
    """How held-out scores are made, and when a fit to them is done."""

    folds: int = 5  # as in LIBSVM and scikit-learn
    coarse_tol: float = 1e-2  # of the fits to folds, where it is above tol: docs/results/folds.md
    most_steps: int = 100  # of Newton's method; it takes about ten
    decrement: float = 1e-12  # half of Newton's decrement, relative to the value, at which it ends
    halvings: int = 40  # of a step
    armijo: float = 1e-4  # share of the fall that the gradient promises: Armijo's condition, with the usual constant


TUNING = CalibrationTuning()


class HeldOut(NamedTuple):
    """Scores of all rows, each by a model that has not seen it."""

    scores: Array  # (n, k), or (n, 1) for two classes
    results: list[Result]  # how the fits ended


def held_out_scores(codes: Array, scores_by: Callable[[Array, Array], tuple[Array, Result]]) -> HeldOut:
    """Make folds, stratified, and collect ``scores_by(train, test)`` of each."""
    counts = np.bincount(codes)
    least = int(counts[counts > 0].min())
    if least < 2:
        raise DataError(
            "probabilities are fitted to rows that a model has not seen, for which every class needs 2 samples; one "
            "has 1. Leave out probability, or drop that class."
        )
    splitter = StratifiedKFold(min(TUNING.folds, least))
    folds = list(splitter.split(np.zeros(len(codes)), codes))
    with shared_interruption() as interrupted:
        found = spread(lambda fold: scores_by(*fold), folds)
    if interrupted.is_set() or any(result.status is Status.INTERRUPTED for _, result in found):
        raise KeyboardInterrupt
    scores = np.empty((len(codes), found[0][0].shape[1]))
    for (_, test), (own, _) in zip(folds, found, strict=True):
        scores[test] = own
    return HeldOut(scores, [result for _, result in found])


def fitted_calibration(method: str, scores: Array, codes: Array, weights: Array | None) -> dict[str, Any]:
    """Fit a calibration to held-out scores, (n, k) or (n, 1) for two classes; see ``models.probabilities``."""
    weights = np.ones(len(codes)) if weights is None else weights
    is_binary = scores.shape[1] == 1
    if method == "temperature":
        columns = np.hstack([np.zeros_like(scores), scores]) if is_binary else scores
        return {"method": method, "slope": _slope(columns, codes, weights)}
    classes = [1] if is_binary else range(scores.shape[1])
    targets = [_smoothed(codes == c, weights) for c in classes]
    if method == "sigmoid":
        lines = [_line(own, target, weights) for own, target in zip(scores.T, targets, strict=True)]
        return {"method": method, "slopes": [a for a, _ in lines], "offsets": [b for _, b in lines]}
    steps = [_steps(own, target, weights) for own, target in zip(scores.T, targets, strict=True)]
    return {"method": method, "scores": [at for at, _ in steps], "probabilities": [to for _, to in steps]}


def _smoothed(is_own: Array, weights: Array) -> Array:
    own, others = float(weights[is_own].sum()), float(weights[~is_own].sum())
    return np.where(is_own, (own + 1.0) / (own + 2.0), 1.0 / (others + 2.0))


def _line(scores: Array, target: Array, weights: Array) -> tuple[float, float]:
    """Return slope and offset of a sigmoid."""
    size = _size(scores)
    rows = np.column_stack([scores / size, np.ones(len(scores))])

    def parts(x: Array) -> tuple[float, Array, Array]:
        z = rows @ x
        p = expit(z)
        value = float(weights @ (np.logaddexp(0.0, z) - target * z))
        return value, rows.T @ (weights * (p - target)), rows.T @ (rows * (weights * p * (1.0 - p))[:, None])

    prior = float(weights @ target / weights.sum())
    slope, offset = _newton(parts, np.array([0.0, np.log(prior / (1.0 - prior))]))
    return float(slope / size), float(offset)


def _slope(scores: Array, codes: Array, weights: Array) -> float:
    """Return the inverse temperature."""
    size, (n, k) = _size(scores), scores.shape
    scores = scores / size
    total = float(weights.sum())
    target = np.full((n, k), 1.0 / ((total + 2.0) * (k - 1)))
    target[np.arange(n), codes] = (total + 1.0) / (total + 2.0)
    pull = (target * scores).sum(axis=1)

    def parts(x: Array) -> tuple[float, Array, Array]:
        z = x[0] * scores
        p = softmax(z)
        mean = (p * scores).sum(axis=1)
        top = z.max(axis=1)
        value = float(weights @ (np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - x[0] * pull))
        spread = (p * scores**2).sum(axis=1) - mean**2
        return value, np.array([weights @ (mean - pull)]), np.array([[weights @ spread]])

    return max(float(_newton(parts, np.zeros(1))[0]), 0.0) / size


def _steps(scores: Array, target: Array, weights: Array) -> tuple[list[float], list[float]]:
    """Return the points of a nondecreasing function, linear between them."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(scores, target, sample_weight=weights)
    return fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist()


def _size(scores: Array) -> float:
    return float(np.abs(scores).mean()) or 1.0


def _newton(parts: Callable[[Array], tuple[float, Array, Array]], x: Array) -> Array:
    """Minimise a convex function, given by value, gradient and Hessian."""
    value, gradient, hessian = parts(x)
    for _ in range(TUNING.most_steps):
        # Scores that are all equal leave the Hessian singular.
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        fall = -float(gradient @ step)
        if not fall > 2.0 * TUNING.decrement * max(abs(value), 1.0):
            break
        for _ in range(TUNING.halvings):
            trial = parts(x + step)
            if trial[0] <= value - TUNING.armijo * fall:
                break
            step, fall = step / 2.0, fall / 2.0
        else:
            break
        x = x + step
        value, gradient, hessian = trial
    return x
