"""Block Frank-Wolfe: towards a point with few entries, or of low rank, instead of one corner.

    minimise over W in the ball:   F(W) = sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,     s = X W + b

    W~ = argmin { <G, W~> + L eta / 2 |W~ - W|^2 :  W~ in the ball, at most s entries, or rank s }                   (3)
    W <- W + length (W~ - W)

In the l1 ball W~ keeps the s largest entries of V = W - G / (L eta) and projects them; in the trace ball it keeps the s
largest singular values. Both are exact (spec 1.1, 1.5).

    paper 001       here                shape
    x, x~           W, towards          (d, k)
    eta             eta                 ()     share of L that W~ is found with
    s               size                ()     doubled where it was too small and the gap did not fall
    L, mu           lipschitz, l2       ()     L of F, ridge included

Source: paper 001, eq. (3); Allen-Zhu, Hazan, Hu and Li (2017), Algorithm 1; spec 1.1, 1.4, 1.5. We differ: the length
is searched for, and L eta is the curvature that F had along the last line; ``eta="paper"`` keeps both at mu / (2 L).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd
from scipy.sparse.linalg import svds

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import adjoint_product, product
from softmargin.problems.constrained import BallPoint
from softmargin.sets import L1Ball, LowRank, TraceBall
from softmargin.sets.trace_ball import SMALL
from softmargin.solvers.ball._gap import smoothness
from softmargin.solvers.ball._line_search import answer_of_intercept, gap_at_hand, look, search

__all__ = ["BallBlockFrankWolfe", "BlockState"]

Array = NDArray[Any]
FEW = 0.1  # share of the entries up to which a product by columns is the quicker one
FALL = 0.5  # the gap must fall to this share in a step, or a size that was too small is doubled
FIRST_ENTRIES, FIRST_RANK = 100, 4
LONGEST = 1e-4  # least eta


@dataclass
class BlockState:
    """Where the run stands, and how large a step may be."""

    W: Array  # (d, k)
    scores: Array  # (n, k) X W
    intercept: Array  # (k,)
    Z: Array  # (d, k)
    lipschitz: float
    eta: float
    size: int
    gap: float
    n_steps: int = 0


@dataclass(frozen=True)
class BallBlockFrankWolfe:
    """Settings of block Frank-Wolfe.

    Parameters
    ----------
    size : int, optional
        s, the most entries or the largest rank of a step; by default it grows as the gap asks for it.
    eta : "search" or "paper"
        The best length on every line, or mu / (2 L).
    """

    size: int | None = None
    eta: Literal["search", "paper"] = "search"

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if self.size is not None and self.size < 1:
            raise IncompatibleError(f"size={self.size!r} was asked for; give at least 1, or None.")
        if self.eta not in ("search", "paper"):
            raise IncompatibleError(f"eta={self.eta!r} is unknown; choose search, paper.")

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> BlockState:
        """Compute the scores and the gradient of a first point, or of zero, and the smoothness."""
        is_trace = isinstance(problem.ball, TraceBall)
        if not (is_trace or isinstance(problem.ball, L1Ball)):
            raise IncompatibleError(
                f"BallBlockFrankWolfe needs an L1Ball or a TraceBall; found {type(problem.ball).__name__}. "
                "Use BallFrankWolfe."
            )
        if self.eta == "paper" and problem.l2 == 0.0:
            raise IncompatibleError("eta='paper' needs l2 > 0: it is l2 / (2 L). Use eta='search'.")
        weights, intercept, _ = problem.checked_point(init)
        scores = problem.scores(weights)
        b = problem.best_intercept(scores, intercept)
        Z = adjoint_product(problem.X, problem.slopes(scores, b))
        lipschitz = smoothness(problem, rng) + problem.l2
        state = BlockState(
            weights,
            scores,
            b,
            Z,
            lipschitz=lipschitz or 1.0,
            eta=problem.l2 / (2.0 * lipschitz) if self.eta == "paper" else 1.0,
            size=self.size or (FIRST_RANK if is_trace else FIRST_ENTRIES),
            gap=np.inf,
        )
        state.gap = gap_at_hand(problem, state)
        return state

    def step(self, problem: Any, state: BlockState) -> BlockState:
        """Find the point ahead and go towards it."""
        W = state.W
        V = W - (state.Z + problem.l2 * W) / (state.lipschitz * state.eta)
        if isinstance(problem.ball, TraceBall):
            factors, is_short = _of_low_rank(problem.ball, V, state.size)
            towards, scores = factors.toarray(), factors.times(problem.X)
        else:
            towards, is_short = _with_few_entries(problem.ball, V, state.size)
            scores = _scores(problem, towards)
        D, move = towards - W, scores - state.scores
        length = state.eta
        if self.eta == "search":
            length = self._search(problem, state, D, move)
        W += length * D
        state.scores += length * move
        look(problem, state)
        gap = gap_at_hand(problem, state)
        if self.size is None and is_short and gap > FALL * state.gap:
            state.size *= 2
        state.gap = gap
        return state

    def _search(self, problem: Any, state: BlockState, D: Array, move: Array) -> float:
        """Return the best length; the intercept follows, and eta becomes what this line has shown."""
        shift = answer_of_intercept(problem, state.scores, state.intercept, move)
        here, square = state.scores + state.intercept, float(np.vdot(D, D))
        length = search(
            problem.loss,
            problem.weights[:, None],
            problem.target,
            here,
            move + shift,
            cross=problem.l2 * float(np.vdot(state.W, D)),
            square=problem.l2 * square,
            largest=1.0,
        )
        if length > 0.0:
            end = here + length * (move + shift)
            change = problem.loss.slope(end, problem.target) - problem.loss.slope(here, problem.target)
            bend = float(np.vdot(problem.weights[:, None] * change, move)) / length + problem.l2 * square
            state.eta = min(max(bend / (square * state.lipschitz), LONGEST), 1.0)
        else:
            state.eta = 1.0
        state.intercept = state.intercept + length * shift
        return length

    def point(self, problem: Any, state: BlockState) -> BallPoint:
        """Return the weights and the intercept."""
        return BallPoint(state.W.copy(), state.intercept.copy())

    def estimate(self, problem: Any, state: BlockState) -> float:
        """Return the gap at hand."""
        return state.gap

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> BlockState:
        """Rebuild the state from a checkpoint."""
        return BlockState(**arrays, **plain)


def _with_few_entries(ball: L1Ball, V: Array, size: int) -> tuple[Array, bool]:
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
    if min(V.shape) <= SMALL or 2 * size >= min(V.shape) or not V.any():
        U, s, Vt = svd(V, full_matrices=False)
        U, s, Vt = U[:, :size], s[:size], Vt[:size]
    else:
        U, s, Vt = svds(V, k=size, rng=0)
    s = ball.shrunk(s)
    used = s > 0.0
    return LowRank(U[:, used], s[used], Vt[used].T), bool(used.all() and size < min(V.shape))


def _scores(problem: Any, W: Array) -> Array:
    """Return X W; by columns where few rows of W are not zero."""
    used = np.flatnonzero((W != 0.0).any(axis=1))
    if len(used) > FEW * len(W):
        return product(problem.X, W)
    return np.asarray(problem.columns[:, used] @ W[used])
