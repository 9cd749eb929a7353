"""Primal-dual block Frank-Wolfe over the trace-norm ball, with weights kept as factors of low rank.

    Y~ = argmax of <S, Y> - f*(Y) - |Y - Y_t|^2 / (2 r) ,  S = X W;   Y_{t+1} = Y~ in the rows that move most, else Y_t
    W~ = nearest point of the ball, of rank s at most, to W_t - (Z + l2 W_t) / (l2 eta) ,   Z = X' (p Y_{t+1})
    W_{t+1} = (1 - eta) W_t + eta W~ ,   S = (1 - eta) S + eta X W~

By default eta = 1: W is the minimiser for Y, the nearest point to -Z / l2. Then q(Y) = min over W of L + f* is known
(maths: ball, eq. 16), and a test controls r, common to all samples: a step is accepted where

    q(Y_{t+1}) >= q(Y_t) + <p S, dY> - sum_i p_i |dY_i|^2 / (2 r) ,   so that the dual value rises;   else r is halved

and r grows after several accepted steps in a row. Z is never formed: products with it are products with X and Y, which
cost what the paper's updates cost with the number of rows it recommends. So by default all rows move.

The paper's X, W = A X and mu = L are here U diag(s) V', scores and l2; its s, k and delta are rank, rows and n r.

Source: paper 001, Algorithm 2 with maths: errata 001.1 to 001.5 (A X~ in (13), 1/n in (14) and (16), rows of (15) by
|Y~_i - Y_i|); the test of r is maths: ball, eq. 18. We differ: the dual step comes before the primal one, which is the
same sequence, as W_1 = 0; the triples are exact (sets.truncated) where ``rank`` does not forbid it.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import NONE, POSITIVE, Number, OneOf, Whole
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import adjoint_product, row_squares
from softmargin.problems.constrained import BallPoint
from softmargin.sets import LowRank
from softmargin.sets.truncated import TruncationTuning, first_basis
from softmargin.solvers.ball import _low_rank as factors
from softmargin.solvers.ball._low_rank import FactorSolver, FactorState
from softmargin.solvers.ball._objective import check_dual_step, square_of_norm
from softmargin.solvers.ball._paper_steps import ETA, check_steps, paper_delta
from softmargin.solvers.ball.primal_dual_bfw import DualStepTuning, keep_largest_rows

__all__ = ["LowRankPDBFW", "LowRankPDBFWTuning", "PDBFWState"]

_ROUNDING = 1e-14  # singular values below this share of the largest are zero


class LowRankPDBFWTuning(NamedTuple):
    """Constants of primal-dual block Frank-Wolfe over the trace ball."""

    dual_step: DualStepTuning = DualStepTuning()
    accuracy: float = 1e-3  # error of the singular triples, as a share of the last change of W; by hand
    triples: TruncationTuning = TruncationTuning()


@dataclass
class PDBFWState(FactorState):
    """Both variables, and the length of dual steps."""

    Y: Array  # (n, k)
    r: float  # length of dual steps, where delta is not set
    q: float  # min over W of l2 / 2 |W|^2 + <Z, W>, where eta = 1
    taken: int = 0  # accepted steps in a row

    def __post_init__(self) -> None:
        """Allocate the scratch, for scores."""
        self.room = np.empty_like(self.scores)


@dataclass(frozen=True)
class LowRankPDBFW(FactorSolver):
    """Settings of primal-dual block Frank-Wolfe. One step is one iteration.

    Parameters
    ----------
    rank : int, optional
        The paper's s: no W~ has a higher rank. By default as high as the nearest point needs.
    rows : int, optional
        The paper's k: how many rows of Y move in a step. By default all.
    delta : float, optional
        The paper's dual step, r = delta / n. By default a test finds r.
    eta : float
        The paper's primal step, in (0, 1]; below 1 it needs ``delta``.
    steps : "search" or "paper"
        "paper" takes eta and delta of Theorem 4.3.
    """

    rank: int | None = None
    rows: int | None = None
    delta: float | None = None
    eta: float = 1.0
    steps: Literal["search", "paper"] = "search"
    tuning: LowRankPDBFWTuning = LowRankPDBFWTuning()

    allowed: ClassVar = {
        "rank": (NONE, Whole(1)),
        "rows": (NONE, Whole(1)),
        "delta": (NONE, POSITIVE),
        "eta": (Number(above=0.0, most=1.0),),
        "steps": (OneOf("search", "paper"),),
    }
    state_type: ClassVar = PDBFWState

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_steps(self.steps, "LowRankPDBFW", delta=self.delta, eta=None if self.eta == 1.0 else self.eta)
        if self.eta < 1.0 and self.delta is None:
            raise IncompatibleError(
                f"eta={self.eta} needs a delta: only with eta=1 a test finds the dual step. Set delta, or eta=1."
            )

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> PDBFWState:
        """Allocate, from a first point, with its own Y or the slopes at it, or from zero."""
        if not problem.l2 > 0.0 or problem.fit_intercept:
            raise IncompatibleError(
                f"LowRankPDBFW needs l2 > 0 and no intercept; found l2={problem.l2} and "
                f"fit_intercept={problem.fit_intercept}. Use LowRankGradient."
            )
        check_dual_step(problem, "LowRankPDBFW", "LowRankGradient")
        ball = self.ball(problem)
        W, _ = factors.first_factors(problem, ball, init)
        scores = problem.scores(W)
        Y = np.zeros(scores.shape)
        if init is not None:
            Y = problem.loss.slope(scores, problem.target) if init.dual is None else np.array(init.dual)
        largest = float((problem.weights * row_squares(problem.X)).max())
        r = problem.l2 / largest if largest > 0.0 else 1.0
        if self.is_fixed:
            r = (self._paper_delta(problem, rng) if self.delta is None else self.delta) / len(scores)
        # The first step of a warm start is always accepted: it finds the W and q that belong to Y.
        q = 0.0 if init is None else -math.inf
        return PDBFWState(*W, scores, first_basis(W, self.tuning.triples), ball.radius, Y, r, q)

    @property
    def is_fixed(self) -> bool:
        """Whether the length of dual steps is set, not searched for."""
        return self.delta is not None or self.steps == "paper"

    def _paper_delta(self, problem: ConstrainedProblem, rng: np.random.Generator) -> float:
        n = len(problem.target)
        k = min(self.rows or n, n)
        whole = n * square_of_norm(problem, rng)  # of X itself where all weights are 1 / n
        R = min(k * float(row_squares(problem.X).max()), whole)
        return paper_delta(problem, k, R, factor=8.0)

    def step(self, problem: ConstrainedProblem, state: PDBFWState) -> PDBFWState:
        """Move rows of Y, then W."""
        p, l2, tuning = problem.weights[:, None], problem.l2, self.tuning
        eta = ETA if self.steps == "paper" else self.eta
        ball, before, spare = self.ball(problem), state.weights, tuning.triples.spare
        old = LowRank.zero(problem.shape) if eta == 1.0 else before._replace(s=(1.0 - 1.0 / eta) * before.s)
        most, scores = None if self.rank is None else self.rank + spare, state.room
        while True:
            dY = self._dual_move(problem, state)
            Y = state.Y + dY
            matrix = factors.StepMatrix(problem.X, old, p * Y, 1.0 / (l2 * eta))
            top, new = self.nearest(ball, matrix, state, most, scores, self.rank)
            q = 0.5 * l2 * float(new.s @ new.s) - l2 * float(top.s[: new.rank] @ new.s)
            if self.is_fixed or _is_accepted(state, q, scores, p * dY, dY):
                break
            state.r *= tuning.dual_step.shorter
            state.taken = 0
        state.basis = top.V[:, : new.rank + spare].copy()
        if eta < 1.0:
            scores += (1.0 / eta - 1.0) * state.scores
            scores *= eta
            new = _positive(factors.stack((1.0 - eta, before), (eta, new)).orthogonal())
        state.taken += 1
        if state.taken == tuning.dual_step.patience and not self.is_fixed:
            state.r, state.taken = tuning.dual_step.longer * state.r, 0
        state.length = factors.distance(new, before)
        state.U, state.s, state.V = new
        state.scores, state.room, state.Y, state.q = scores, state.scores, Y, q
        return state

    def _dual_move(self, problem: ConstrainedProblem, state: PDBFWState) -> Array:
        """Return Y~ - Y in the rows that move most, zero elsewhere."""
        r: Any = state.r
        if self.is_fixed:
            # A sample without weight may move freely, but a step of length zero divides by zero.
            r = len(state.Y) * state.r * np.where(problem.weights > 0.0, problem.weights, 1.0)[:, None]
        dY: Array = problem.loss.dual_step(state.Y, state.scores, problem.target, r) - state.Y
        if self.rows is not None:
            keep_largest_rows(dY, self.rows)
        return dY

    def point(self, problem: ConstrainedProblem, state: PDBFWState) -> BallPoint:
        """Return the weights by their factors, and the dual variables."""
        return BallPoint(state.weights, np.zeros(problem.shape[1]), state.Y.copy())

    def estimate(self, problem: ConstrainedProblem, state: PDBFWState) -> float:
        """Estimate the gap between W and the slopes at W, or Y, whichever is smaller, as the certificate does."""
        none = np.zeros(problem.shape[1])
        R = problem.slopes(state.scores, none)
        least = self.ball(problem).least_by(
            factors.singular_values(adjoint_product(problem.X, R @ state.basis)), problem.l2
        )
        ridge = 0.5 * problem.l2 * float(state.s @ state.s)
        primal = problem.losses(state.scores, none) + ridge
        gap = float(np.vdot(R, state.scores)) + ridge - least
        if self.eta == 1.0 and self.steps == "search":
            conjugate = float(problem.weights @ problem.loss.conjugate(state.Y, problem.target).sum(axis=1))
            gap = min(gap, primal - state.q + conjugate)
        return max(gap, 0.0) / primal if primal > 0.0 else 0.0


def _is_accepted(state: PDBFWState, q: float, scores: Array, weighted: Array, dY: Array) -> bool:
    """Say whether q is at least what a step of length r predicts, so that the dual value rises."""
    linear = float(np.vdot(weighted, state.scores))
    room = float(np.vdot(weighted, dY)) / (2.0 * state.r)
    if q >= state.q + linear - room:
        return True
    # q is concave, with the scores as gradient: this implies the above, and does not suffer from the rounding of q.
    return linear - float(np.vdot(weighted, scores)) <= room


def _positive(W: LowRank) -> LowRank:
    """Drop the triples whose singular values are rounding."""
    r = int((W.s > _ROUNDING * W.s.max(initial=0.0)).sum())
    return LowRank(W.U[:, :r].copy(), W.s[:r].copy(), W.V[:, :r].copy())
