"""What certificates of multinomial regression ask of the samples: losses, probabilities, and a dual point by its rows.

    losses(scores, apart)      sum_i C_i l_i, and the probabilities; no two scores of a row are further from their exact
                               difference than apart_i
    at_best_intercept(...)     the probabilities where the intercept is best for these scores
    divergence(q, ...)         sum_i C_i KL(q_i | P_i) of a dual point of a solver
    off_label(P)               off, rest: the entries of q off the labels, and their sums over rows
    balanced(off, rest)        the same near them with every class's own mass, sum_i C_i (q_i - y_i) = 0, up to rounding
    pulls(off, rest)           U = C (q - Y), by the columns of the weights
    entropies(off, rest)       sum_i C_i H(q_i)

``TwoClasses`` has one number a sample, r: what the class that is not its label has of the probability.

    r = 1 / (1 + exp(-m)) ,   l = log(1 + exp(m)) ,   m = score of the other class less that of the label

Errors: maths: rounding, section 5.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, rel_entr

from softmargin.core.deadline import is_time_up
from softmargin.core.rounding import TINY as LEAST
from softmargin.core.rounding import Rounded, summed, total
from softmargin.losses import multinomial
from softmargin.losses.labels import at_labels
from softmargin.losses.multinomial import (
    LAST_FALL,
    LAST_STEP,
    MAX_HALVINGS,
    MAX_STEPS,
    ROUNDING,
    SAFE_STEP,
    loss_errors,
    losses_and_softmax,
)

__all__ = ["ManyClasses", "TwoClasses"]

Array = NDArray[Any]


class ManyClasses:
    """Any number of classes: P and off are (n, k), rest is (n,)."""

    def __init__(self, y: Array, C: Array, mass: Array) -> None:
        self.y, self.C, self.mass = y, C, mass

    def losses(self, scores: Array, apart: Array) -> tuple[Rounded, Array]:
        """Return the sum of the losses, and P; scores are (n, k)."""
        losses, P = losses_and_softmax(scores, self.y)
        return total(self.C * losses, self.C * loss_errors(losses, apart, len(self.mass))), P

    def at_best_intercept(self, scores: Array, P: Array, loss: float) -> Array:
        """Return P at the best intercept, given that at the intercept of the scores."""
        return multinomial.best_intercept(scores, self.y, self.C, P, loss)[1]

    def divergence(self, q: Array, scores: Array, P: Array) -> float:
        """Return sum_i C_i KL(q_i | P_i). An entry of P that is zero by underflow leaves less of it, not all."""
        return float(self.C @ rel_entr(q, np.maximum(P, LEAST)).sum(axis=1))

    def off_label(self, P: Array) -> tuple[Array, Array]:
        """Return the entries of P off the labels, and their sums."""
        return multinomial.off_label(P, self.y)

    def balanced(self, off: Array, rest: Array) -> tuple[Array, Array]:
        """Return a dual point that gives every class its own mass."""
        off = multinomial.balanced(off, self.y, self.C)
        return off, off.sum(axis=1)

    def pulls(self, off: Array, rest: Array) -> Array:
        """Return C (q - Y); (n, k)."""
        U = off * self.C[:, None]
        flat, labels = at_labels(U, self.y)
        flat[labels] = -self.C * rest
        return U

    def entropies(self, off: Array, rest: Array) -> Rounded:
        """Return the sum of the entropies; the entries may have two roundings each."""
        values, errors = multinomial.entropy(off, rest)
        return total(self.C * values, self.C * errors)


class TwoClasses:
    """Two classes with one column of scores, those of the second: P, off and rest are r, (n,)."""

    def __init__(self, y: Array, C: Array, mass: Array) -> None:
        self.C, self.mass = C, mass
        self.away = np.where(y == 0, 1.0, -1.0)  # the sign of a score that is against the label
        self.signed = self.away * C

    def losses(self, scores: Array, apart: Array) -> tuple[Rounded, Array]:
        """Return the sum of the losses, and r; scores are (n, 1)."""
        losses, r = _losses_and_shares(self.away * scores[:, 0])
        return summed(float(self.C @ losses), float(self.C @ loss_errors(losses, apart, 2)), len(r)), r

    def at_best_intercept(self, scores: Array, r: Array, loss: float) -> Array:
        """Return r at the best intercept, by Newton's method, as ``losses.multinomial.best_intercept`` does it."""
        margins = self.away * scores[:, 0]
        for _ in range(MAX_STEPS if self.mass.all() else 0):
            slope, bend = float(self.signed @ r), float(self.C @ (r * (1.0 - r)))
            if is_time_up() or not bend > ROUNDING * float(self.mass.sum()):
                break
            step = -slope / bend
            length, loss = self._shortened(margins, step, loss) if abs(step) > SAFE_STEP else (1.0, loss)
            margins = margins + length * step * self.away
            r = _losses_and_shares(margins)[1]
            if length == 0.0 or abs(step) <= LAST_STEP or -slope * step <= LAST_FALL * loss:
                break
        return r

    def _shortened(self, margins: Array, step: float, loss: float) -> tuple[float, float]:
        """Return the longest of 1, 1/2, ... of the step that does not raise the losses, or 0; and the losses there."""
        for length in (0.5**halvings for halvings in range(MAX_HALVINGS)):
            new = float(self.C @ _losses_and_shares(margins + length * step * self.away)[0])
            if new <= loss:
                return length, new
        return 0.0, loss

    def divergence(self, q: Array, scores: Array, P: Array) -> float:
        """Return sum_i C_i KL(q_i | P_i): r log r + (1 - r) log(1 - r) + l - r m, r of q."""
        r, margins = self.off_label(q)[0], self.away * scores[:, 0]
        losses = _losses_and_shares(margins)[0]
        return float(self.C @ (losses - r * margins - entr(r) - entr(1.0 - r)))

    def off_label(self, P: Array) -> tuple[Array, Array]:
        """Return r twice; P may have both columns."""
        r = P if P.ndim == 1 else np.where(self.away > 0.0, P[:, 1], P[:, 0])
        return r, r

    def balanced(self, off: Array, rest: Array) -> tuple[Array, Array]:
        """Return a dual point with less for the label whose samples pull more; nothing where one has no mass."""
        is_first = self.away > 0.0
        pulls = [float(self.C @ np.where(own, off, 0.0)) for own in (is_first, ~is_first)]
        r = off * np.where(is_first, *(min(pulls) / pull if pull > 0.0 else 0.0 for pull in pulls))
        return r, r

    def pulls(self, off: Array, rest: Array) -> Array:
        """Return C (q - Y) of the second class; (n, 1)."""
        return (self.signed * off)[:, None]

    def entropies(self, off: Array, rest: Array) -> Rounded:
        """Return the sum of the entropies; the entries may have two roundings each."""
        values, errors = multinomial.entropy(off[:, None], rest)
        return summed(float(self.C @ values), float(self.C @ errors), len(rest))


def _losses_and_shares(margins: Array) -> tuple[Array, Array]:
    """Return log(1 + exp(m)) and r; small ones keep their digits."""
    small = np.exp(-np.abs(margins))
    losses = np.log1p(small)
    losses += np.maximum(margins, 0.0)
    return losses, np.where(margins > 0.0, 1.0, small) / (1.0 + small)
