"""Lower bounds on the least value of penalised multinomial regression, proven in spite of rounding.

    D(q) = sum_i C_i H(q_i) - g*(-X' C (q - Y)),  q_i in the simplex, H the entropy               maths: softmax, eq. 4
           with an intercept also   sum_i C_i (q_i - y_i) = 0

The dual point of W is q = Y + s (P - Y): P are the probabilities at the best intercept for W, made to give every class
its own mass exactly, and s <= 1 brings -X' C (q - Y) to where g* is finite. All errors: maths: rounding, section 5.
"""

import math
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from softmargin.core.deadline import OutOfTime, check_time, leaving, time_left
from softmargin.core.rounding import SLACK, TINY, Rounded, column_roundings, column_sums, gamma, norms, total
from softmargin.losses.labels import at_labels
from softmargin.losses.multinomial import balanced, best_intercept, entropy, off_label
from softmargin.matrices.operator import adjoint_product, column_norms, sum_roundings
from softmargin.penalties.rounding import OPERATIONS, outward, rounded_conjugate

__all__ = ["SoftmaxBound"]

Array = NDArray[Any]
_NEAR = 1e-3  # gap of a dual point, as a share of F, up to which no other one is tried; by hand: the usual tol


class SoftmaxBound:
    """The dual value of a problem that has these."""

    X: Any
    y: Array
    C: Array
    penalty: Any
    n_classes: int
    n_columns: int
    fit_intercept: bool

    def _best_bound(
        self, q: Array | None, P: Array, primal: Rounded, proven: Callable[[], Rounded], needed: float
    ) -> Rounded:
        """Return D at the dual point of a solver or at that of the weights, ``proven``: the larger, if it takes both.

        By eq. 6 the gap of q is at least its divergence from P, and more where q is not balanced. An entry of P that
        is zero by underflow leaves less of the divergence, not all of it.
        """
        bound = Rounded(-np.inf)
        divergence = math.inf if q is None else float(self.C @ rel_entr(q, np.maximum(P, TINY)).sum(axis=1))
        is_near = divergence <= _NEAR * primal.value
        try:
            if q is not None and is_near and not time_left() < needed:
                bound = self._dual(q)
            if primal.value - bound.lower > _NEAR * primal.value:
                bound = max(bound, proven(), key=attrgetter("lower"))
            is_better = not is_near and divergence < primal.value - bound.lower  # perhaps
            if q is not None and is_better and not time_left() < needed:
                bound = max(bound, self._dual(q), key=attrgetter("lower"))
        except OutOfTime:
            pass
        return bound

    def _proven(self, scores: Array, P: Array, loss: float, needed: float) -> Rounded:
        """Return D at the best intercept for these scores; P and ``loss`` are at the given one.

        Without the search for the intercept it takes about the seconds ``needed``.
        """
        if time_left() < needed:
            raise OutOfTime
        if self.fit_intercept:
            with leaving(needed):
                _, P = best_intercept(scores, self.y, self.C, P, loss)
            check_time()
        return self._dual(P)

    def _dual(self, q: Array) -> Rounded:
        """Return D at these probabilities, balanced where there is an intercept."""
        off, rest = off_label(q, self.y)
        if self.fit_intercept:
            off = balanced(off, self.y, self.C)
            rest = off.sum(axis=1)
        return self._bound(off, rest)

    def _bound(self, off: Array, rest: Array) -> Rounded:
        """Return D at the dual point that these probabilities suggest: q = Y + s (P - Y), balanced in real arithmetic.

        The entries of P off the label are taken as they are, the label's is 1 less their sum, ``rest``.
        """
        U, k = self._pulls(off, rest), self.n_columns
        check_time()
        lengths = norms(U, axis=0)
        share, moves = self._unbalanced(U, lengths) if self.fit_intercept else (0.0, np.zeros(self.n_classes))
        # Every entry of U has n_classes + 2 roundings.
        sizes = SLACK * (moves + gamma(sum_roundings(self.X, k) + self.n_classes + 2) * lengths)[-k:]
        gradient = adjoint_product(self.X, U[:, -k:])
        scale, conjugate = self._inside(-gradient, self._column_norms[:, None] * sizes, float(rest.max()))
        values, errors = entropy(off, rest) if scale == 1.0 else entropy(scale * off, scale * rest)
        entropies = total(self.C * values, self.C * errors)
        return entropies.widened(share * entropies.value) - conjugate

    def _inside(self, V: Array, error: Array, rest: float) -> tuple[float, Rounded]:
        """Return s and g*(s V): the largest s in [0, 1] that is proven to keep s P >= 0 at labels, and g* finite."""
        k = self.n_classes
        scale = min(1.0, (1.0 - gamma(2 * k + 8)) / rest) if rest > 0.0 else 1.0
        conjugate, hair = rounded_conjugate(self.penalty, scale * V, scale * error), gamma(k + OPERATIONS)
        if not math.isfinite(conjugate.value):
            scale = min(scale, float(self.penalty.reach(outward(V, error, k + 2 * OPERATIONS))))
        while not math.isfinite(conjugate.value) and hair < 1.0:
            conjugate = rounded_conjugate(self.penalty, scale * V, scale * error)
            scale, hair = (scale, hair) if math.isfinite(conjugate.value) else (scale * (1.0 - hair), 2.0 * hair)
        return scale, conjugate

    def _unbalanced(self, U: Array, lengths: Array) -> tuple[float, Array]:
        """Return the share of another point that balances q, and how far it moves X'U, by norms of columns of X.

        q + share (tau - q) with tau >= 0 the same for all rows; 0 <= tau_c <= 2 mass_c / mass. ``lengths`` are |U_c|.
        """
        mass = np.bincount(self.y, weights=self.C, minlength=self.n_classes)
        has_mass = mass > 0.0
        if not has_mass.any():
            return 0.0, np.zeros(self.n_classes)
        roundings = column_roundings(len(U)) + self.n_classes + 4
        off = np.abs(column_sums(U)) + gamma(roundings) * np.abs(U).sum(axis=0)
        share = min(SLACK * float((off[has_mass] / mass[has_mass]).max()), 1.0)
        # sum_i C_i^2 <= max_i C_i times their sum, of all samples and of those of one class.
        spread = 2.0 * mass / math.sqrt(mass.sum()) + np.sqrt(mass)
        return share, share * (lengths + math.sqrt(self.C.max()) * spread)

    def _pulls(self, off: Array, rest: Array) -> Array:
        """Return C (P - Y), given P off the labels; shape (n, n_classes)."""
        U = off * self.C[:, None]
        flat, labels = at_labels(U, self.y)
        flat[labels] = -self.C * rest
        return U

    @cached_property
    def _column_norms(self) -> Array:
        return column_norms(self.X)
