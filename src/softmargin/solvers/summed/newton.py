"""Newton's method for a ridge and losses that are summed over blocks of rows: one pass a step where W is small.

    minimise over W:   F_w(W) = sum_i p_i f_w(W' x_i) + ridge / 2 |W|^2                   maths: blocks, eq. 1
    one step:          (H + ridge) D = -G ,    W <- W + t D

f_w is the loss with its corners rounded off over the width w (``losses.smoothed``); a smooth loss has w = 0. The gap of
the hinge itself is that of F_w and what the corners cost. Where the first is not most of both, the width falls to w',
and the step follows the path of the minima:   (H + ridge) D = -(G + (w' - w) dG/dw).

Where H has few enough numbers, the pass that judges a step also brings the H of the next one; of a smooth loss that
converges quickly the last H is kept, and a pass brings the gradient alone. Else H is known by its products with
vectors, one pass each, and conjugate gradients have a Gram matrix for every column of a hinge, one for all, or the
diagonal. A step that does not lower F_w enough is shortened: one pass tries several lengths, and the next direction may
take half as many products.

No state has the length of the data, and every pass is a pure function of the weights: rows may lie anywhere, and may be
lost and read again.

Source: Newton with smoothed corners, Lee and Mangasarian (2001) and Chapelle (2007). We differ: the width falls along
the path of minima, and the slopes of the smoothed loss are the dual point of the certificate.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import OneOf
from softmargin.core.protocols import SummedProblem
from softmargin.problems.summed_losses import SummedPoint
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.summed.sampled_start import SampleTuning, from_sample, objective
from softmargin.solvers.summed.steps import factored, is_lower, metric_at, seen_by_penalty, shorter

__all__ = ["SummedNewton", "SummedNewtonState", "SummedNewtonTuning"]

Array = NDArray[Any]


class SummedNewtonTuning(NamedTuple):
    """How exact directions are, how steps are judged, and how the width falls."""

    most_numbers: int = 1 << 23  # of a Hessian, or of a Gram matrix: 64 MB travel from every block; by hand
    least_exact: float = 0.1  # share of the gradient to which conjugate gradients go at first; by hand
    patience: tuple[int, int, int] = (8, 16, 512)  # products of a direction: at least, at first, at most; by hand
    enough: float = 1e-4  # share of the predicted decrease that a step must reach; the usual one
    shortest: int = 12  # lengths 1/2, 1/4, ... of a step that is too long; by hand
    settled: float = 0.6  # share of the gap that is not due to the corners at which the width falls; letter, a9a
    near: float = 1e-2  # of G' H^-1 G before, at which H is kept: about two digits a step; by hand
    fall: float = 0.4  # of the width; 0.2 takes as many passes on letter, more on shuttle and a9a


@dataclass
class SummedNewtonState:
    """The weights, and the losses there; the Hessian is made again where it is missing."""

    weights: Array  # (d + 1, k)
    width: float
    base: Array  # (d + 1, k) the weights whose Hessian or preconditioner is used: those above, or earlier ones
    values: Array  # (4,) as a pass returns them
    gradient: Array  # (d + 1, k) of the losses
    drift: Array  # (d + 1, k) its derivative by the width; empty for a smooth loss
    first_size: float = math.nan
    decrement: float = math.nan  # G' H^-1 G at the weights before
    patience: int = 0  # products with H that a direction may take; 0 at the start
    hessian: Any = field(init=False, repr=False, default=None)  # or the preconditioner of its products


@dataclass(frozen=True)
class SummedNewton(Resumable):
    """Newton's method. One step is one direction.

    Parameters
    ----------
    hessian : {"auto", "products"}
        "auto" forms H where it has few numbers; "products" never does: every direction is one of conjugate gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import SummedNewton, penalties, solve
    >>> from softmargin.losses.joint import JOINT
    >>> from softmargin.problems.block_rows import Block, Form
    >>> from softmargin.problems.blocks import LocalBlocks
    >>> from softmargin.problems.summed import PenalizedSum
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> blocks = LocalBlocks([Block(rows[:2], y[:2], np.ones(2)), Block(rows[2:], y[2:], np.ones(2))])
    >>> problem = PenalizedSum(blocks, Form(JOINT["multinomial"], 3, 1.0, True), penalties.L2(1.0))
    >>> solve(problem, SummedNewton(), rng=0).status.value
    'converged'
    """

    hessian: str = "auto"
    tuning: SummedNewtonTuning = SummedNewtonTuning()
    sample: SampleTuning = SampleTuning()

    allowed: ClassVar = {"hessian": (OneOf("auto", "products"),)}
    needs: ClassVar[tuple[type, ...]] = (SummedProblem,)
    state_type: ClassVar[type] = SummedNewtonState

    def start(self, problem: SummedProblem, init: SummedPoint | None, rng: np.random.Generator) -> SummedNewtonState:
        """Begin at ``init``, at the optimum of a sample of many rows, or at zero."""
        if not problem.ridge > 0.0:
            raise IncompatibleError("SummedNewton needs a ridge; use SummedProxNewton for other penalties.")
        begun: SummedNewtonState | None = from_sample(self, problem, rng) if init is None else None
        if begun is not None:
            return begun
        W, width = problem.checked_point(init)
        return self._at(problem, W, width)

    def _is_small(self, problem: SummedProblem) -> bool:
        """Say whether H is formed: it has few numbers, all columns of a joint loss together, else each its own."""
        if self.hessian == "products":
            return False
        d, k = problem.shape
        return ((d * k) ** 2 if problem.form.loss.is_joint else k * d**2) <= self.tuning.most_numbers

    def _at(
        self, problem: SummedProblem, W: Array, width: float, kept: SummedNewtonState | None = None
    ) -> SummedNewtonState:
        """Return the state at some weights, with their Hessian or that of another state: one pass."""
        if kept is not None or not self._is_small(problem):
            state = SummedNewtonState(W, width, W if kept is None else kept.base, *problem.scored(W, width))
            state.hessian = None if kept is None else kept.hessian
            return state
        *sums, hessian = problem.curvature(W, width)
        state = SummedNewtonState(W, width, W, *sums)
        state.hessian = hessian
        return state

    def step(self, problem: SummedProblem, state: SummedNewtonState) -> SummedNewtonState:
        """Go along one direction; lower the width where the corners are most of the gap."""
        W, G = state.weights, state.gradient + problem.ridge * seen_by_penalty(problem, state.weights)
        if not problem.is_smooth and self._is_settled(problem, state):
            width = state.width * self.tuning.fall
            D, first_size = self._direction(problem, state, G + (width - state.width) * state.drift)
            new = self._at(problem, W + D, width)
            new.first_size, new.patience = first_size, state.patience
            return new
        D, first_size = self._direction(problem, state, G)
        slope = float(np.vdot(G, D))
        if not slope < 0.0:
            return state
        before = objective(problem, state)
        if self._is_small(problem):
            is_kept = problem.is_smooth and -slope <= self.tuning.near * state.decrement
        else:
            is_kept = not problem.is_smooth  # which has a matrix for every column, dearer than many products
        new = self._at(problem, W + D, state.width, state if is_kept else None)
        is_long = not is_lower(objective(problem, new), before, self.tuning.enough * slope)
        if is_long:
            new = self._shortened(problem, state, D, before)
        # Where the model holds only nearby, an exact minimiser of it is not worth its passes.
        least, first, most = self.tuning.patience
        patience = state.patience or first
        new.patience = max(patience // 2, least) if is_long else min(2 * patience, most)
        new.first_size, new.decrement = first_size, -slope
        return new

    def _is_settled(self, problem: SummedProblem, state: SummedNewtonState) -> bool:
        """Say whether the gap of F_w is a small share of the whole gap; the rest is what the corners cost."""
        soft, hard, _, entropies = state.values
        added = problem.value(state.weights)
        gap = (hard + added) * problem.rough_residual(state.weights, state.values, state.gradient, state.width)
        own = gap + (soft - hard) - state.width * entropies  # F_w less the dual value that its corners raise
        return bool(own <= self.tuning.settled * gap)

    def _shortened(
        self, problem: SummedProblem, state: SummedNewtonState, D: Array, before: float
    ) -> SummedNewtonState:
        """Return the state at the best of several shorter steps; the same one, with its own H, where none is lower."""
        W = state.weights
        length = shorter(problem, W, D, state.width, before, self.tuning.shortest)
        if length > 0.0:
            return self._at(problem, W + length * D, state.width)
        return state if np.array_equal(state.base, W) else self._at(problem, W, state.width)

    def _direction(self, problem: SummedProblem, state: SummedNewtonState, G: Array) -> tuple[Array, float]:
        """Return D, and the size of the first gradient."""
        seen = seen_by_penalty(problem, np.ones(problem.shape))
        if self._is_small(problem):
            if state.hessian is None:
                state.hessian = problem.curvature(state.base, state.width).hessian
            return _solved(state.hessian, problem.ridge * seen, -G), state.first_size
        if state.hessian is None:
            state.hessian = metric_at(problem, state.base, state.width, self.tuning.most_numbers)
        metric = state.hessian

        def product(v: Array, out: Array) -> None:
            V = v.reshape(problem.shape)
            HV = problem.hessian_times(state.weights, V, state.width) + problem.ridge * seen * V
            out[:] = HV.ravel()

        size = float(G.ravel() @ metric(G.ravel()))
        first_size = state.first_size if state.first_size > 0.0 else size
        exactness = min(self.tuning.least_exact, (size / first_size) ** 0.25 if first_size > 0.0 else 1.0)
        most = state.patience or self.tuning.patience[1]
        D = conjugate_gradients(product, -G.ravel(), metric, exactness, max_products=most).x
        return D.reshape(problem.shape), first_size

    def point(self, problem: SummedProblem, state: SummedNewtonState) -> SummedPoint:
        """Return the weights and the width."""
        return SummedPoint(state.weights.copy(), state.width)

    def estimate(self, problem: SummedProblem, state: SummedNewtonState) -> float:
        """Estimate the residual from the last pass."""
        return problem.rough_residual(state.weights, state.values, state.gradient, state.width)


def _solved(H: Array, ridge: Array, right: Array) -> Array:
    """Return (H + ridge)^-1 right; H is one matrix for all columns, or one for each."""
    d, k = right.shape
    if H.ndim == 2:
        M = H + np.diag(ridge.ravel())
        return np.asarray(_solve(M, right.ravel())).reshape(d, k)
    return np.stack([_solve(H[c] + np.diag(ridge[:, c]), right[:, c]) for c in range(k)], axis=1)


def _solve(M: Array, right: Array) -> Array:
    return np.asarray(cho_solve((factored(M), True), right, check_finite=False))
