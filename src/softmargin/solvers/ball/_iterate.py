"""What Frank-Wolfe and stochastic methods over a ball share: a point with its gradient and gap, and the line search.

    phi(t) = sum_ic p_i f(s_ic + t m_ic, t_ic) + l2 / 2 |W + t D|^2 ,     m = X D + shift

The search is Newton's method on phi', inside a bracket; on losses that are piecewise quadratic it ends exactly after a
few trials. The intercept moves along the line by ``shift``, its Newton step for the move of the scores; under a loss of
rows it stays where it is until the step is made.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from softmargin.core.certificate import relative_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.pieces import Atom
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import adjoint_product, product
from softmargin.problems.constrained import BallPoint
from softmargin.sets import TraceBall
from softmargin.sets.trace_ball import SMALL
from softmargin.solvers.ball._intercept import best_intercept
from softmargin.solvers.common.resumable import Resumable


class BallIterateTuning(NamedTuple):
    """Constants that methods with a ``BallIterate`` share."""

    # Steps after which the scores are computed afresh, against rounding; maths: ball, section 9: every 50 to 100
    refresh: int = 50
    flat: float = 1e-4  # a line search ends where phi' has fallen to this share; by hand
    max_trials: int = 30  # of a line search; by hand


_TUNING = BallIterateTuning()


@dataclass(kw_only=True)
class BallIterate:
    """A point of the ball with its scores, the best intercept for them, and the gradient of the losses there."""

    W: Array  # (d, k)
    scores: Array  # (n, k) X W
    intercept: Array  # (k,)
    Z: Array  # (d, k) X' slopes
    n_steps: int = 0
    gap: float = math.inf  # relative, of the last update

    @classmethod
    def at(cls, problem: ConstrainedProblem, init: BallPoint | None, **more: Any) -> Self:
        """Start from a first point, or from the one nearest to zero."""
        check_smooth(problem)
        W, intercept, _ = problem.checked_point(init)
        W, scores = np.ascontiguousarray(W), np.ascontiguousarray(problem.scores(W))
        b = best_intercept(problem, scores, intercept)
        Z = adjoint_product(problem.X, problem.slopes(scores, b))
        state = cls(W=W, scores=scores, intercept=b, Z=Z, **more)
        state.gap = state.relative_gap(problem)
        return state

    def update(self, problem: ConstrainedProblem, refresh: int = _TUNING.refresh) -> None:
        """Bring intercept, Z and gap up to date with the scores; every ``refresh`` steps compute those afresh."""
        self.n_steps += 1
        if self.n_steps % refresh == 0:
            self.scores = product(problem.X, self.W)
        self.intercept = best_intercept(problem, self.scores, self.intercept)
        self.Z = adjoint_product(problem.X, problem.slopes(self.scores, self.intercept))
        self.gap = self.relative_gap(problem)

    def approach(self, problem: ConstrainedProblem, V: Array) -> float:
        """Go to the least F on the way from W to V, a point of the ball; return the share of the way."""
        D = V - self.W
        move = product(problem.X, D)
        cross, square = float(np.vdot(self.W, D)), float(np.vdot(D, D))
        line, shift = line_along(problem, self, move, cross=cross, square=square)
        length = line.search(1.0)
        self.W = self.W + length * D
        self.scores = self.scores + length * move
        self.intercept = self.intercept + length * shift
        self.update(problem)
        return length

    def primal(self, problem: ConstrainedProblem) -> float:
        """Return the objective."""
        return problem.losses(self.scores, self.intercept) + 0.5 * problem.l2 * float(np.vdot(self.W, self.W))

    def relative_gap(self, problem: ConstrainedProblem, corner: Atom | None = None) -> float:
        """Return the relative gap; the Frank-Wolfe gap where all singular values cost too much, or with a corner."""
        W, ball = self.W, problem.ball
        if not isinstance(ball, TraceBall) or (corner is None and min(W.shape) <= SMALL):
            return problem.relative_gap(W, self.scores, self.intercept, self.Z)
        G = self.Z + problem.l2 * W
        corner = ball.lmo(G) if corner is None else corner
        primal = self.primal(problem)
        return relative_gap(primal, primal - float(np.vdot(G, W)) + corner.inner(G))


def check_smooth(problem: ConstrainedProblem) -> None:
    """Refuse a loss without a gradient."""
    if not problem.loss.curvature < math.inf:
        raise IncompatibleError(f"this solver needs a smooth loss; {problem.loss!r} is not. Use BallPrimalDual.")


class BallSolver(Resumable):
    """What all solvers over a ball share: the problems they solve, and what they know of a state."""

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def point(self, problem: ConstrainedProblem, state: Any) -> BallPoint:
        """Return the weights and the intercept."""
        return BallPoint(problem.inside(state.W), state.intercept.copy())

    def estimate(self, problem: ConstrainedProblem, state: Any) -> float:
        """Return the last gap computed."""
        return float(state.gap)


class Line(NamedTuple):
    """phi on a line; the arrays broadcast to one shape, that of the scores that move."""

    loss: Any  # of losses.entrywise or losses.joint
    weights: Array
    target: Array
    start: Array  # scores at t = 0, with the intercept
    move: Array
    cross: float  # l2 <W, D>
    square: float  # l2 |D|^2

    def slope(self, t: float) -> float:
        """Return phi'(t)."""
        slopes = self.weights * self.loss.slope(self.start + t * self.move, self.target)
        return float(np.vdot(slopes, self.move)) + self.cross + t * self.square

    def bend(self, t: float) -> float:
        """Return phi''(t)."""
        here = self.start + t * self.move
        if self.loss.is_joint:
            return float((self.weights * self.loss.bend_along(here, self.target, self.move)).sum()) + self.square
        bends = self.weights * self.loss.bend(here, self.target)
        return float(np.vdot(bends, self.move * self.move)) + self.square

    def search(self, largest: float, tuning: BallIterateTuning = _TUNING) -> float:
        """Return about the t in [0, largest] with the least phi(t); 0 where phi does not fall."""
        low, high, is_open = 0.0, largest, True  # open: phi' at ``high`` is not known to be positive
        t, slope = 0.0, self.slope(0.0)
        flat = -tuning.flat * slope
        if slope >= 0.0:
            return 0.0
        for _ in range(tuning.max_trials):
            bend = self.bend(t)
            new = t - slope / bend if bend > 0.0 else (high if slope < 0.0 else low)
            if is_open:
                new = min(new, high)
            if not (low < new < high or (is_open and new == high)):
                new = 0.5 * (low + high)
            t = new
            slope = self.slope(t)
            if abs(slope) <= flat or (slope <= 0.0 and t == largest):
                return t
            if slope < 0.0:
                low = t
            else:
                high, is_open = t, False
        return low


def line_along(
    problem: ConstrainedProblem, iterate: BallIterate, move: Array, *, cross: float, square: float
) -> tuple[Line, Array]:
    """Return the line on which the scores move by ``move``, and how the intercept moves with them; (k,).

    ``cross`` and ``square`` are <W, D> and |D|^2.
    """
    here, p, shift = iterate.scores + iterate.intercept, problem.weights[:, None], np.zeros(len(iterate.intercept))
    if problem.fit_intercept and not problem.loss.is_joint:
        bend = p * problem.loss.bend(here, problem.target)
        total = bend.sum(axis=0)
        shift = np.where(total > 0.0, -(bend * move).sum(axis=0) / np.where(total > 0.0, total, 1.0), 0.0)
    return Line(problem.loss, p, problem.target, here, move + shift, problem.l2 * cross, problem.l2 * square), shift
