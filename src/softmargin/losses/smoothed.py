"""Value, slope and curvature of every loss of linear scores, hinges with their corners rounded off.

    f_w(s) = max over u in the domain of f* of  <u, s> - f*(u) + w H(u)           w: the width; 0 for a smooth loss
    slope  = the u that attains it: dual feasible for f itself, and f <= f_w <= f + w max H

    loss              H(u)                                       u,  h_c = 1 + s_c - s_y  (c != y),  h_y = 0
    hinge             of two outcomes, -u and 1 + u (times t)    -t expit(h / w),  h = 1 - t s
    Weston-Watkins    the sum over c != y of those of u_c        expit(h_c / w)
    Crammer-Singer    of k outcomes, q = u + e_y                 q = softmax(h / w)

The curvature of a row is known by one number b_c >= 0 per score:

    entrywise                       B = diag(b)
    multinomial, Crammer-Singer     B = diag(b) - b b' / sum(b) ,                        b = p,  q / w
    Weston-Watkins                  B = sum over c != y of b_c (e_c - e_y)(e_c - e_y)' , b = u (1 - u) / w,  b_y = 0
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, expit

from softmargin.core.pieces import Array
from softmargin.losses.entrywise import Hinge
from softmargin.losses.joint import JointHinge, labels_of, with_labels
from softmargin.losses.multiclass_hinge import margins
from softmargin.losses.multinomial import losses_and_softmax, off_label

__all__ = ["Bent", "bent", "curvature_diagonal", "curvature_times", "has_star", "is_smooth"]


class Bent(NamedTuple):
    """A loss of some rows up to second order."""

    values: Array  # (n,) f_w
    slopes: Array  # (n, k) u
    bends: Array  # (n, k) the b of the curvature
    entropies: Array | float = 0.0  # (n,) H(u) of a hinge
    drifts: Array | None = None  # (n, k) the derivative of u by w, of a hinge


def is_smooth(loss: Any) -> bool:
    """Say whether a loss needs no width."""
    return bool(loss.curvature < np.inf)


def has_star(loss: Any) -> bool:
    """Say whether the curvature joins every score with that of the label: Weston-Watkins."""
    return isinstance(loss, JointHinge) and not loss.sums_to_one


def bent(loss: Any, width: float, scores: Array, target: Array) -> Bent:
    """Return the loss of rows of scores, with corners rounded off over a width; a smooth one as it is."""
    if isinstance(loss, Hinge):
        return _of_hinge(width, scores, target)
    if has_star(loss):
        return _of_sum(width, scores, target)
    if isinstance(loss, JointHinge):
        return _of_largest(width, scores, target)
    if loss.is_joint:
        y = labels_of(target)
        losses, P = losses_and_softmax(scores, y)
        return Bent(losses, with_labels(*off_label(P, y), target), P)
    return Bent(loss.value(scores, target).sum(axis=1), loss.slope(scores, target), loss.bend(scores, target))


def _of_hinge(width: float, scores: Array, target: Array) -> Bent:
    h = (1.0 - target * scores) / width
    q = expit(h)
    b = q * expit(-h) / width
    values = width * np.logaddexp(0.0, h).sum(axis=1)
    return Bent(values, -target * q, b, (entr(q) + entr(1.0 - q)).sum(axis=1), target * b * h)


def _of_sum(width: float, scores: Array, target: Array) -> Bent:
    y = labels_of(target)
    h = margins(scores, y) / width
    off = 1.0 - target
    q = expit(h) * off
    b = q * expit(-h) / width
    values = width * (np.logaddexp(0.0, h) * off).sum(axis=1)
    slopes, drifts = (with_labels(V, V.sum(axis=1), target) for V in (q, -b * h))
    return Bent(values, slopes, b, (entr(q) + entr(1.0 - q)).sum(axis=1), drifts)


def _of_largest(width: float, scores: Array, target: Array) -> Bent:
    y = labels_of(target)
    h = margins(scores, y) / width
    losses, q = losses_and_softmax(h, y)
    mean = (q * h).sum(axis=1, keepdims=True)
    slopes = with_labels(*off_label(q, y), target)
    return Bent(width * losses, slopes, q / width, entr(q).sum(axis=1), -q * (h - mean) / width)


def curvature_times(loss: Any, bends: Array, moves: Array, target: Array) -> Array:
    """Return B times a move of the scores, row by row; (n, k)."""
    if has_star(loss):
        off = bends * (moves - (moves * target).sum(axis=1, keepdims=True))
        return with_labels(off, off.sum(axis=1), target)
    weighted = bends * moves
    if loss.is_joint:
        weighted -= bends * (weighted.sum(axis=1) / bends.sum(axis=1))[:, None]
    return np.asarray(weighted)


def curvature_diagonal(loss: Any, bends: Array, target: Array) -> Array:
    """Return the diagonal of B, row by row; (n, k)."""
    if has_star(loss):
        return np.asarray(bends + bends.sum(axis=1, keepdims=True) * target)
    return np.asarray(bends * (1.0 - bends / bends.sum(axis=1, keepdims=True))) if loss.is_joint else bends
