"""Lower bounds on the least value of penalised multinomial regression, proven in spite of rounding.

    D(q) = sum_i C_i H(q_i) - g*(-X' C (q - Y)),  q_i in the simplex, H the entropy               maths: softmax, eq. 4
           with an intercept also   sum_i C_i (q_i - y_i) = 0

The dual point of W is q = Y + s (P - Y): P are the probabilities at the best intercept for W, made to give every class
its own mass exactly, and s <= 1 brings -X' C (q - Y) to where g* is finite. All errors: maths: rounding, section 5.
"""

import math
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.aim import wanted_residual
from softmargin.core.deadline import OutOfTime, check_time, leaving, time_left
from softmargin.core.rounding import SLACK, Rounded, column_roundings, column_sums, gamma, norms
from softmargin.matrices.operator import adjoint_product, column_norms, sum_roundings
from softmargin.penalties.rounding import OPERATIONS, outward, rounded_conjugate
from softmargin.problems.softmax_rows import ManyClasses, TwoClasses

__all__ = ["SoftmaxBound"]

Array = NDArray[Any]
# Gap of a dual point, as a share of F, up to which no other one is tried, unless the run at work aims for a larger one;
# by hand: the usual tol.
_NEAR = 1e-3


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
        self, q: Array | None, scores: Array, P: Array, primal: Rounded, loss: float, needed: float
    ) -> Rounded:
        """Return D at the dual point of a solver, q, or at that of the weights: the larger, if it takes both.

        By eq. 6 the gap of q is at least its divergence from P, and more where q is not balanced.
        """
        bound, near = Rounded(-np.inf), max(_NEAR, wanted_residual()) * primal.value
        divergence = math.inf if q is None else self._rows.divergence(q, scores, P)
        is_near = divergence <= near
        try:
            if q is not None and is_near and not time_left() < needed:
                bound = self._dual(q)
            if primal.value - bound.lower > near:
                bound = max(bound, self._proven(scores, P, loss, needed), key=attrgetter("lower"))
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
                P = self._rows.at_best_intercept(scores, P, loss)
            check_time()
        return self._dual(P)

    def _dual(self, q: Array) -> Rounded:
        """Return D at the dual point that these probabilities suggest: q = Y + s (P - Y), balanced in real arithmetic.

        The entries of P off the label are taken as they are, the label's is 1 less their sum, ``rest``.
        """
        rows, k = self._rows, self.n_columns
        off, rest = rows.off_label(q)
        if self.fit_intercept:
            off, rest = rows.balanced(off, rest)
        U = rows.pulls(off, rest)
        check_time()
        lengths = norms(U, axis=0)
        share, moves = self._unbalanced(U, lengths) if self.fit_intercept else (0.0, np.zeros(k))
        # Every entry of U has n_classes + 2 roundings.
        sizes = SLACK * (moves + gamma(sum_roundings(self.X, k) + self.n_classes + 2) * lengths)
        gradient = adjoint_product(self.X, U)
        scale, conjugate = self._inside(-gradient, self._column_norms[:, None] * sizes, float(rest.max()))
        entropies = rows.entropies(off, rest) if scale == 1.0 else rows.entropies(scale * off, scale * rest)
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
        mass, k = self._mass, self.n_columns
        if not mass.any():
            return 0.0, np.zeros(k)
        roundings = column_roundings(len(U)) + self.n_classes + 4
        off = np.abs(column_sums(U)) + gamma(roundings) * np.abs(U).sum(axis=0)  # of two classes, that of both
        share = min(SLACK * float((off / np.where(mass > 0.0, mass, np.inf)).max()), 1.0)
        # sum_i C_i^2 <= max_i C_i times their sum, of all samples and of those of one class.
        spread = (2.0 * mass / math.sqrt(mass.sum()) + np.sqrt(mass))[-k:]
        return share, share * (lengths + math.sqrt(self.C.max()) * spread)

    @cached_property
    def _mass(self) -> Array:
        """The sum of the prices of every class; (n_classes,)."""
        return np.bincount(self.y, weights=self.C, minlength=self.n_classes)

    @cached_property
    def _rows(self) -> ManyClasses | TwoClasses:
        """What the samples are asked for."""
        return (TwoClasses if self.n_columns == 1 else ManyClasses)(self.y, self.C, self._mass)

    @cached_property
    def _column_norms(self) -> Array:
        return column_norms(self.X)
