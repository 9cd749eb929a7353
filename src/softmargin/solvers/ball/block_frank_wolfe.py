"""Block Frank-Wolfe: towards a point with few entries, or of low rank, instead of one corner.

    W~ = argmin { <G, W~> + L eta / 2 |W~ - W|^2 :  W~ in the ball, at most s entries, or rank s }
    W <- W + length (W~ - W)

In the l1 ball W~ keeps the s largest entries of V = W - G / (L eta) and projects them; in the trace ball it keeps the s
largest singular values. Both are exact (maths: ball, eq. 12). The paper's x~ is ``towards``, its s ``size``: it doubles
where it was too small and the gap did not fall; L, of F with the ridge, is ``lipschitz``.

Source: paper 001, eq. (3); Allen-Zhu, Hazan, Hu and Li (2017), Algorithm 1; maths: ball, eqs. 12 and 23. We differ: the
length comes from a line search, and L eta is the curvature of F along the last line; ``eta="paper"`` fixes both at
mu / (2 L).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import NONE, OneOf, Whole
from softmargin.core.pieces import ConvexSet
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import product
from softmargin.problems.constrained import BallPoint
from softmargin.sets import L1Ball, LowRank, TraceBall
from softmargin.solvers.ball._iterate import BallIterate, BallIterateTuning, BallSolver, line_along
from softmargin.solvers.ball._objective import checked_ball, smoothness

__all__ = ["BallBlockFrankWolfe", "BallBlockFrankWolfeTuning", "BallBlockState"]


class BallBlockFrankWolfeTuning(NamedTuple):
    """Constants of block Frank-Wolfe over a ball."""

    first_entries: int = 100  # s at first, in an l1 ball; by hand
    first_rank: int = 4  # s at first, in a trace ball; by hand
    enough: float = 0.5  # s doubles if it was too small and the gap stays above this share of the last; by hand
    least_eta: float = 1e-4  # of the adaptive eta; by hand
    few: float = 0.1  # X W is computed by columns up to this share of non-zero rows of W; by hand
    iterate: BallIterateTuning = BallIterateTuning()


@dataclass(kw_only=True)
class BallBlockState(BallIterate):
    """Where the run stands, and how large a step may be."""

    lipschitz: float
    eta: float
    size: int


@dataclass(frozen=True)
class BallBlockFrankWolfe(BallSolver):
    """Settings of block Frank-Wolfe.

    Parameters
    ----------
    size : int, optional
        s, the most entries or the largest rank of a step; by default it grows while the gap falls too little.
    eta : "search" or "paper"
        The best length on every line, or mu / (2 L).
    """

    size: int | None = None
    eta: Literal["search", "paper"] = "search"
    tuning: BallBlockFrankWolfeTuning = BallBlockFrankWolfeTuning()

    allowed: ClassVar = {"size": (NONE, Whole(1)), "eta": (OneOf("search", "paper"),)}
    state_type: ClassVar = BallBlockState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallBlockState:
        """Compute the scores and the gradient of a first point, or of zero, and the smoothness."""
        checked_ball(problem, "BallBlockFrankWolfe", "BallFrankWolfe", L1Ball, TraceBall)
        if self.eta == "paper" and problem.l2 == 0.0:
            raise IncompatibleError("eta='paper' needs l2 > 0: it is l2 / (2 L). Use eta='search'.")
        lipschitz = smoothness(problem, rng) + problem.l2
        is_trace = isinstance(problem.ball, TraceBall)
        return BallBlockState.at(
            problem,
            init,
            lipschitz=lipschitz or 1.0,
            eta=problem.l2 / (2.0 * lipschitz) if self.eta == "paper" else 1.0,
            size=self.size or (self.tuning.first_rank if is_trace else self.tuning.first_entries),
        )

    def step(self, problem: ConstrainedProblem, state: BallBlockState) -> BallBlockState:
        """Find W~ and go towards it."""
        W, ball = state.W, problem.ball
        V = W - (state.Z + problem.l2 * W) / (state.lipschitz * state.eta)
        if isinstance(ball, TraceBall):
            factors, is_short = _of_low_rank(ball, V, state.size)
            towards, scores = factors.toarray(), factors.times(problem.X)
        else:
            towards, is_short = _with_few_entries(ball, V, state.size)
            scores = self._scores(problem, towards)
        D, move = towards - W, scores - state.scores
        length = self._search(problem, state, D, move) if self.eta == "search" else state.eta
        W += length * D
        state.scores += length * move
        before = state.gap
        state.update(problem, self.tuning.iterate.refresh)
        if self.size is None and is_short and state.gap > self.tuning.enough * before:
            state.size *= 2
        return state

    def _search(self, problem: ConstrainedProblem, state: BallBlockState, D: Array, move: Array) -> float:
        """Return the best length; move the intercept with it, and set eta by the curvature along this line."""
        square = float(np.vdot(D, D))
        line, shift = line_along(problem, state, move, cross=float(np.vdot(state.W, D)), square=square)
        length = line.search(1.0, self.tuning.iterate)
        state.eta = 1.0
        if length > 0.0:
            end = line.start + length * line.move
            change = problem.loss.slope(end, problem.target) - problem.loss.slope(line.start, problem.target)
            bend = float(np.vdot(line.weights * change, move)) / length + line.square
            most = square * state.lipschitz  # zero where |D|^2 underflows
            state.eta = min(max(bend / most, self.tuning.least_eta), 1.0) if most > 0.0 else 1.0
        state.intercept = state.intercept + length * shift
        return length

    def _scores(self, problem: ConstrainedProblem, W: Array) -> Array:
        """Return X W; by columns where few rows of W are non-zero."""
        used = np.flatnonzero((W != 0.0).any(axis=1))
        if len(used) > self.tuning.few * len(W):
            return product(problem.X, W)
        return np.asarray(problem.columns()[:, used] @ W[used])


def _with_few_entries(ball: ConvexSet, V: Array, size: int) -> tuple[Array, bool]:
    """Return the point of the ball nearest to V with at most ``size`` entries, and whether more would be nearer."""
    if size >= V.size:
        return ball.project(V), False
    flat = V.reshape(-1)
    kept = np.argpartition(np.abs(flat), V.size - size)[V.size - size :]
    towards = np.zeros(V.size)
    towards[kept] = ball.project(flat[kept])
    return towards.reshape(V.shape), bool((towards[kept] != 0.0).all())


def _of_low_rank(ball: TraceBall, V: Array, size: int) -> tuple[LowRank, bool]:
    """Return the point of the ball nearest to V of rank at most ``size``, and whether a higher rank would be nearer."""
    U, s, Vt = ball.leading(V, size)
    s = ball.shrunk(s)
    used = s > 0.0
    return LowRank(U[:, used], s[used], Vt[used].T), bool(used.all() and size < min(V.shape))
