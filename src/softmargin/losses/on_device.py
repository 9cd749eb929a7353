"""Losses by the array API standard, for arrays on a device.

The formulas are those of ``multiclass_hinge`` and ``smoothed``, in whole arrays: labels are a mask (n, k), as arrays of
some libraries can be neither indexed by lists nor written to.
"""

from typing import Any

import numpy as np

from softmargin.losses.entrywise import Hinge, Logistic
from softmargin.losses.joint import JointHinge
from softmargin.losses.smoothed import Bent, has_star

__all__ = ["bent", "curvature_diagonal", "curvature_times", "hinge_values", "log_probabilities", "row_gaps"]


def row_gaps(xp: Any, multiclass: str, alpha: Any, scores: Any, labels: Any, C: Any) -> Any:
    """Return <alpha_i, s_i> - alpha_iy + C_i l_i(s_i) of every row, (m, 1); labels (m, k) and C (m, 1) are float64."""
    # maths: linear SVM, eq. 9.
    losses = _joint_hinges(xp, multiclass == "crammer_singer", scores, labels)
    return xp.sum(alpha * (scores - labels), axis=1, keepdims=True) + C * losses


def _margins(xp: Any, scores: Any, labels: Any) -> Any:
    """Return 1 + s_c - s_y, and 0 at the label."""
    return scores - xp.sum(scores * labels, axis=1, keepdims=True) + 1.0 - labels


def _joint_hinges(xp: Any, has_largest: bool, scores: Any, labels: Any) -> Any:
    """Return the largest margin violation of every row, or their sum; (m, 1)."""
    h = _margins(xp, scores, labels)
    return xp.max(h, axis=1, keepdims=True) if has_largest else xp.sum(_positive(xp, h), axis=1, keepdims=True)


def _positive(xp: Any, h: Any) -> Any:
    return xp.maximum(h, xp.zeros_like(h))


def _expit(xp: Any, h: Any) -> Any:
    small = xp.exp(-xp.abs(h))
    return xp.where(h < 0.0, small, xp.ones_like(h)) / (1.0 + small)


def _softplus(xp: Any, h: Any) -> Any:
    """Return log(1 + exp(h))."""
    return _positive(xp, h) + xp.log1p(xp.exp(-xp.abs(h)))


def _entropy(xp: Any, q: Any) -> Any:
    """Return -q log q; 0 at 0."""
    return -q * xp.log(xp.where(q > 0.0, q, xp.ones_like(q)))


def _with_labels(xp: Any, off: Any, target: Any) -> Any:
    """Return rows with minus the sum of the others at the label, where they are zero."""
    return off - xp.sum(off, axis=1, keepdims=True) * target


def _losses_and_softmax(xp: Any, scores: Any, target: Any) -> tuple[Any, Any]:
    """Return the multinomial losses and the probabilities; (n,) and (n, k)."""
    below = scores - xp.max(scores, axis=1, keepdims=True)
    P = xp.exp(below)
    own = xp.sum(P * target, axis=1)
    rest = xp.sum(P * (1.0 - target), axis=1)
    # Where the label leads, own = 1 and the loss may be far below one: log(1 + rest) keeps its digits.
    losses = xp.log1p(rest + (own - 1.0)) - xp.sum(below * target, axis=1)
    return losses, P / (rest + own)[:, None]


def hinge_values(xp: Any, loss: Any, scores: Any, target: Any) -> Any:
    """Return a hinge, joint or entrywise, of every row, corners included; (n,)."""
    if isinstance(loss, JointHinge):
        return _joint_hinges(xp, loss.sums_to_one, scores, target)[:, 0]
    return xp.sum(_positive(xp, 1.0 - target * scores), axis=1)


def bent(xp: Any, loss: Any, width: float, scores: Any, target: Any) -> Bent:
    """Return the loss of rows of scores, with corners rounded off over a width; a smooth one as it is."""
    if isinstance(loss, Hinge):
        h = (1.0 - target * scores) / width
        q, other = _expit(xp, h), _expit(xp, -h)
        b = q * other / width
        entropies = xp.sum(_entropy(xp, q) + _entropy(xp, other), axis=1)
        return Bent(width * xp.sum(_softplus(xp, h), axis=1), -target * q, b, entropies, target * b * h)
    if isinstance(loss, JointHinge):
        h = _margins(xp, scores, target) / width
        return _of_sum(xp, width, h, target) if has_star(loss) else _of_largest(xp, width, h, target)
    if loss.is_joint:
        losses, P = _losses_and_softmax(xp, scores, target)
        return Bent(losses, _with_labels(xp, P * (1.0 - target), target), P)
    values, slopes, bends = (
        _logistic(xp, scores, target) if isinstance(loss, Logistic) else _clipped(xp, loss, scores, target)
    )
    return Bent(xp.sum(values, axis=1), slopes, bends)


def _of_sum(xp: Any, width: float, h: Any, target: Any) -> Bent:
    off = 1.0 - target
    q, other = _expit(xp, h) * off, _expit(xp, -h)
    b = q * other / width
    entropies = xp.sum((_entropy(xp, q) + _entropy(xp, other)) * off, axis=1)
    values = width * xp.sum(_softplus(xp, h) * off, axis=1)
    return Bent(values, _with_labels(xp, q, target), b, entropies, _with_labels(xp, -b * h, target))


def _of_largest(xp: Any, width: float, h: Any, target: Any) -> Bent:
    losses, q = _losses_and_softmax(xp, h, target)
    mean = xp.sum(q * h, axis=1, keepdims=True)
    entropies = xp.sum(_entropy(xp, q), axis=1)
    slopes = _with_labels(xp, q * (1.0 - target), target)
    return Bent(width * losses, slopes, q / width, entropies, -q * (h - mean) / width)


def _logistic(xp: Any, scores: Any, target: Any) -> tuple[Any, Any, Any]:
    w = target * scores
    q, p = _expit(xp, -w), _expit(xp, w)
    return _softplus(xp, -w), -target * q, p * q


def _clipped(xp: Any, loss: Any, scores: Any, target: Any) -> tuple[Any, Any, Any]:
    """Return value, slope and bend of a loss that is quadratic between two straight lines: of s - t, or t s - 1."""
    low, high = loss.compiled.low, loss.compiled.high
    w = target * scores - 1.0 if loss.is_margin else scores - target
    inner = w if low == -np.inf else xp.maximum(w, low * xp.ones_like(w))
    inner = inner if high == np.inf else xp.minimum(inner, high * xp.ones_like(w))
    bends = xp.astype((w > low) & (w < high), w.dtype)
    return inner * (w - 0.5 * inner), (target * inner if loss.is_margin else inner), bends


def curvature_times(xp: Any, loss: Any, bends: Any, moves: Any, target: Any) -> Any:
    """Return B times a move of the scores, row by row; (n, k)."""
    if has_star(loss):
        off = bends * (moves - xp.sum(moves * target, axis=1, keepdims=True))
        return _with_labels(xp, off, target)
    weighted = bends * moves
    if not loss.is_joint:
        return weighted
    return weighted - bends * (xp.sum(weighted, axis=1, keepdims=True) / xp.sum(bends, axis=1, keepdims=True))


def curvature_diagonal(xp: Any, loss: Any, bends: Any, target: Any) -> Any:
    """Return the diagonal of B, row by row; (n, k)."""
    sums = xp.sum(bends, axis=1, keepdims=True)
    if has_star(loss):
        return bends + sums * target
    return bends * (1.0 - bends / sums) if loss.is_joint else bends


def log_probabilities(xp: Any, scores: Any) -> Any:
    """Return the logarithms of the softmax of scores (n, k), or (n,) for two classes; (n, k)."""
    if len(scores.shape) == 1:
        return -xp.concat([_softplus(xp, scores)[:, None], _softplus(xp, -scores)[:, None]], axis=1)
    below = scores - xp.max(scores, axis=1, keepdims=True)
    return below - xp.log(xp.sum(xp.exp(below), axis=1, keepdims=True))
