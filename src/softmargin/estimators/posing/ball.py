"""Models over a ball: from labels to targets, weights of samples to shares, and what a model remembers of its ball.

p_i = weight of sample i / sum of all weights * weight of its class
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd

from softmargin.estimators.posing.fit import loss_prices
from softmargin.losses.entrywise import ENTRYWISE, Hinge
from softmargin.losses.joint import JOINT
from softmargin.losses.multinomial import one_hot
from softmargin.losses.observed import Observed
from softmargin.matrices.forms import canonical, thinned
from softmargin.matrices.origin import near_zero
from softmargin.problems import Constrained
from softmargin.sets import L1Ball, LowRank, Shaped, TraceBall
from softmargin.sets.balls import checked_radius

__all__ = [
    "BALLS",
    "MARGINS",
    "ball_claim",
    "ball_problem",
    "class_target",
    "factors_of",
    "make_ball",
    "number_target",
    "shares",
]

Array = NDArray[Any]
BALLS: dict[str, Any] = {"l1": L1Ball, "trace": TraceBall}
MARGINS = tuple(name for name, loss in ENTRYWISE.items() if loss.is_margin)
_ROUNDING = 1e-12  # singular values below this share of the largest are rounding
_OF_TWO = {"multinomial": ENTRYWISE["logistic"]}  # what a joint loss is for two classes; the others are the hinge


def class_target(loss: str, codes: Array, n_classes: int) -> tuple[Array, Any]:
    """Return the targets of classes, (n, k) or (n, 1) for two classes, and the loss of that name."""
    if loss in JOINT and n_classes > 2:
        return one_hot(codes, n_classes), JOINT[loss]
    columns = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(codes[:, None] == columns, 1.0, -1.0), ENTRYWISE.get(loss) or _OF_TWO.get(loss, Hinge())


def number_target(y: Array) -> tuple[Array, Any]:
    """Return numbers as targets (n, k), and their loss; NaN are missing ones."""
    target = y.reshape(len(y), -1)
    return target, Observed(ENTRYWISE["squared"]) if np.isnan(target).any() else ENTRYWISE["squared"]


def shares(
    n: int, codes: Array | None = None, classes: Any = None, class_weight: Any = None, sample_weight: Any = None
) -> Array:
    """Return each sample's share of the weight, times the weight of its class; (n,)."""
    codes, classes = (np.zeros(n, dtype=int), np.zeros(1)) if codes is None else (codes, classes)
    prices = loss_prices(codes, classes, 1.0, class_weight, sample_weight)
    return prices / (n if sample_weight is None else np.sum(sample_weight))


def make_ball(norm: str, radius: Any, shape: Any = None) -> Any:
    """Return the ball of that norm; with a shape, of matrices that X holds row by row."""
    ball = BALLS[norm](checked_radius(radius))
    return ball if shape is None else Shaped(ball, tuple(shape))


def ball_problem(
    X: Any,
    target: tuple[Array, Any],
    parts: Array,
    *,
    norm: str,
    radius: Any,
    l2: Any,
    fit_intercept: bool,
    shape: Any = None,
) -> Constrained:
    """Build the problem of targets with their loss, and of the shares of the samples."""
    ball = make_ball(norm, radius, shape)
    X = near_zero(thinned(canonical(X)), fit_intercept)
    return Constrained(X, target[0], loss=target[1], ball=ball, l2=l2, weights=parts, fit_intercept=bool(fit_intercept))


def factors_of(weights: Any) -> LowRank:
    """Return weights (d, k) as orthogonal factors, without singular values that are rounding."""
    if isinstance(weights, LowRank):
        weights = weights.orthogonal()
    elif not weights.any():
        weights = LowRank.zero(weights.shape)
    else:
        left, s, right = svd(weights, full_matrices=False)
        weights = LowRank(left, s, right.T)
    r = int((weights.s > _ROUNDING * weights.s.max(initial=0.0)).sum())
    return LowRank(np.ascontiguousarray(weights.U[:, :r]), weights.s[:r].copy(), np.ascontiguousarray(weights.V[:, :r]))


def ball_claim(norm: str, loss: str, radius: float, l2: float, shape: Any = None) -> dict[str, Any]:
    """Return what a model remembers of its problem: enough for ``certify`` to build it again."""
    claim = {"problem": f"{norm} ball", "loss": loss, "radius": float(radius), "l2": float(l2)}
    return claim if shape is None else {**claim, "shape": [int(side) for side in shape]}
