"""The Newton system of the interior point in the weights, and what follows from its solution.

    H dW = right ,     H = identity + sum_i x_i x_i' (x) E M_i E'                            maths: linear SVM, eq. 25

H has a Cholesky factor (``_scaled_factor``). Where the factor is most of a step, squares and
factor are of float32, which takes half as long, and the factor is the metric of conjugate gradients with products of
float64: a sum over all samples each. Late in a run H is so near to singular that these need many products. From then on
everything is of float64, and solutions are direct, unless a factor of float64 needs a ridge that would show.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.linear_svm._interior_loop import (
    Pairs,
    joint_moves,
    joint_pull,
    joint_stiffness,
    separate_moves,
    separate_pull,
    separate_stiffness,
)
from softmargin.solvers.linear_svm._scaled_factor import factored, stiffened

__all__ = ["NewtonSystem"]

Array = NDArray[Any]


class NewtonSystem:
    """The system at a point: ``state`` has the variables, ``here`` what they imply."""

    def __init__(self, state: Any, here: Any, is_joint: bool, tuning: Any) -> None:
        self.state, self.here, self.now, self.is_joint, self.tuning = state, here, state.pairs(), is_joint, tuning
        self.excess = (here.margins - (state.t - state.s)).reshape(-1)
        self.stiffness = np.empty(state.lower.size)
        self.slope = np.empty(len(state.lower)) if is_joint else None
        if is_joint:
            joint_stiffness(self.now, self.stiffness, self.slope)
        else:
            separate_stiffness(self.now, self.stiffness)
        self.pull: Array | None = None  # of the last solution
        self.drawn: Any = 0.0  # by it
        self._factor()

    def _factor(self) -> None:
        """Factor the Newton matrix."""
        state, stiffness = self.state, self.stiffness.reshape(self.state.lower.shape)
        self.factor = factored(state.groups, stiffness, self.slope, state, self.tuning.factor)

    def solve(self, low: Array, high: Array) -> tuple[Array, Pairs]:
        """Return the moves for given changes of the products."""
        state, groups, now = self.state, self.state.groups, self.now
        pull, move = np.empty_like(low), Pairs(*map(np.empty_like, now))
        if self.is_joint:
            rise = np.empty_like(high)
            joint_pull(now, self.stiffness, self.slope, low, high, self.excess, pull, rise)
        else:
            separate_pull(now, self.stiffness, low, high, self.excess, pull)
        V = self._solution(self._drawn_by(pull) + self.here.implied - state.V)
        dh = groups.margins(V).reshape(-1)
        if self.is_joint:
            joint_moves(self.stiffness, self.slope, self.excess, pull, rise, dh, move)
        else:
            separate_moves(now, self.stiffness, low, high, self.excess, pull, dh, move)
        return V, move

    def missed(self, V: Array, move: Pairs) -> Array:
        """Return X'alpha - W after these whole moves: what rounding leaves of it where H is near to singular."""
        state, groups = self.state, self.state.groups
        return np.asarray(groups.adjoint(move.lower.reshape(state.lower.shape)) + self.here.implied - state.V - V)

    def refined(self, V: Array, move: Pairs, missed: Array) -> tuple[Array, Pairs]:
        """Return these moves and those that bring what they miss of W = X'alpha, where products stay as they are."""
        now, none = self.now, np.zeros_like(self.stiffness)
        more, further = self._solution(missed), Pairs(*map(np.empty_like, now))
        dh = self.state.groups.margins(more).reshape(-1)
        if self.is_joint:
            joint_moves(self.stiffness, self.slope, none, none, np.zeros_like(now.upper), dh, further)
        else:
            separate_moves(now, self.stiffness, none, none, none, none, dh, further)
        return V + more, Pairs(*(one + other for one, other in zip(move, further, strict=True)))

    def _drawn_by(self, pull: Array) -> Array:
        """Return sum_i x_i (E q_i)'. A correction changes few pairs: of sparse rows only these add to the last sum."""
        groups, change, last = self.state.groups, pull, 0.0
        if self.pull is not None and not isinstance(groups.X, np.ndarray):
            moved = pull - self.pull
            if 2 * np.count_nonzero(moved) < moved.size:
                change, last = moved, self.drawn
        self.pull, self.drawn = pull, last + groups.adjoint(change.reshape(self.state.lower.shape))
        return np.asarray(self.drawn)

    def _solution(self, right: Array) -> Array:
        """Return H^-1 right, (D, columns): directly, or by products with H and the factor of float32 or of a ridge."""
        state, tuning = self.state, self.tuning
        if not state.is_single:
            if state.ridge <= tuning.rough:
                return self.factor.solve(state.groups, right)
            return self._by_products(right, tuning.sharp, tuning.most_sharp)[0]
        found, count = self._by_products(right, tuning.exactness, tuning.most_products)
        if count == tuning.most_products:
            state.is_single = False
            self._factor()
            return self._solution(right)
        return found

    def _by_products(self, right: Array, exactness: float, most: int) -> tuple[Array, int]:
        """Solve by conjugate gradients with the factor as their metric; return how many products were made, too."""
        shape, count = right.shape, 0

        def product(v: Array, out: Array) -> None:
            nonlocal count
            count += 1
            out[:] = self._product(v.reshape(shape)).reshape(-1)

        def metric(v: Array) -> Array:
            return self.factor.solve(self.state.groups, v.reshape(shape)).reshape(-1)

        found = conjugate_gradients(product, right.reshape(-1), metric, exactness, max_products=most)
        return found.x.reshape(shape), count

    def _product(self, V: Array) -> Array:
        """Return H V."""
        groups = self.state.groups
        stiffness = self.stiffness.reshape(self.state.lower.shape)
        return np.asarray(V - groups.adjoint(stiffened(stiffness, self.slope, groups.margins(V))))
