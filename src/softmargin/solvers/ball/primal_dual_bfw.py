"""Primal-dual block Frank-Wolfe over the l1 ball, for a ridge and no intercept: maths: ball, eq. 16.

    as printed, corrected                                                                            maths: errata 001.1
        V = W - (Z + l2 W) / (l2 eta), its s largest entries projected on the ball;   W = (1 - eta) W + eta V
        scores = (1 - eta) scores + eta X V                                                  columns of V's support
        U~ = the dual step of length r = delta / n from U;  the k rows that move most:  U = U~,  Z += X' (p dU)
    automatic (the default)                                                                          maths: ball, eq. 18
        eta = 1: W is the point of the ball nearest to -Z / l2, its own support is s
        r halves where the dual value would rise less than the step predicts, and grows after five accepted steps
        k balances the cost of the rows and the columns of a step

X W and X' (p U) are updated by what changed: columns where W changed, rows where U changed. Every 50 iterations both
are computed afresh, against rounding. The paper's x, y, w and z are W, U without the 1/n, scores, and Z with the 1/n.

Source: Lei, Zhuo, Caramanis, Dhillon, Dimakis (2019), Algorithm 1, eqs. (8)-(12). We differ by maths: errata 001.1,
001.2 and 001.5: (9) with A x~, (10) with 1/n, (12) with rows; rows of several targets are ranked by their norm.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import check_time, is_time_up
from softmargin.core.parameters import NONE, POSITIVE, Number, OneOf, Whole
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import row_squares
from softmargin.matrices.rows import as_rows
from softmargin.problems.constrained import BallPoint
from softmargin.sets import L1Ball
from softmargin.solvers.ball import _objective as objective
from softmargin.solvers.ball._iterate import BallSolver
from softmargin.solvers.ball._paper_steps import ETA, check_steps, paper_delta
from softmargin.solvers.ball._products import add_rows

__all__ = ["DualStepTuning", "PrimalDualBFW", "PrimalDualBFWTuning", "PrimalDualState", "keep_largest_rows"]

_LONGEST = 1e12  # a dual step of this length already goes all the way
_LEAST_RISE = 1e-14  # of the dual value, relative: below it, rounding decides whether a step is accepted
_TINY = float(np.finfo(float).tiny)


class DualStepTuning(NamedTuple):
    """How the length r of dual steps adapts; maths: ball, eq. 18."""

    shorter: float = 0.5  # factor of r after a step that is refused
    longer: float = 1.5  # factor of r after ...
    patience: int = 5  # ... so many accepted steps in a row


class PrimalDualBFWTuning(NamedTuple):
    """Constants of primal-dual block Frank-Wolfe over the l1 ball."""

    dual_step: DualStepTuning = DualStepTuning()
    fewest_rows: int = 200  # at least one row in so many moves; maths: ball, section 9
    # Iterations after which scores and Z are computed afresh; maths: ball, section 9: every 50 to 100
    refresh: int = 50
    max_iterations: int = 50  # in one step; by hand


@dataclass
class PrimalDualState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    W: Array  # (d, k)
    scores: Array  # (n, k)
    U: Array  # (n, k)
    Z: Array  # (d, k)
    r: float
    safe: float  # an r that every step accepts
    n_rows: int
    theta: float = 0.0
    n_allowed: int = 0
    n_done: int = 0

    positions: ClassVar[dict[str, str]] = {"n_rows": "U"}

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.new_Z, self.new_W = np.empty_like(self.Z), np.empty_like(self.W)
        self.D = np.empty_like(self.U)


@dataclass(frozen=True)
class PrimalDualBFW(BallSolver):
    """Settings of primal-dual block Frank-Wolfe. One step is as many iterations as cost about one pass.

    Without settings it is automatic; with any setting it is the paper's Algorithm 1, in which a missing setting means
    no restriction: all weights, all rows, eta = 1, and the delta that is safe for any data.

    Parameters
    ----------
    s : int, optional
        How many weights a primal step may hold; with fewer than the solution has, the run stalls (erratum 6).
    k : int, optional
        How many rows of the dual variables move in an iteration.
    delta : float, optional
        Length of the dual step, times n.
    eta : float, optional
        Share of the way to the primal step's end, in (0, 1].
    steps : "search" or "paper"
        "paper" takes eta and delta of Theorem 4.1, which for a ridge are those of Corollary 4.1.1.
    """

    s: int | None = None
    k: int | None = None
    delta: float | None = None
    eta: float | None = None
    steps: Literal["search", "paper"] = "search"
    tuning: PrimalDualBFWTuning = PrimalDualBFWTuning()

    allowed: ClassVar = {
        "s": (NONE, Whole(1)),
        "k": (NONE, Whole(1)),
        "delta": (NONE, POSITIVE),
        "eta": (NONE, Number(above=0.0, most=1.0)),
        "steps": (OneOf("search", "paper"),),
    }
    state_type: ClassVar = PrimalDualState

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_steps(self.steps, "PrimalDualBFW", delta=self.delta, eta=self.eta)

    @property
    def is_automatic(self) -> bool:
        """Whether nothing is set."""
        is_free = self.s is None and self.k is None and self.delta is None and self.eta is None
        return is_free and self.steps == "search"

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> PrimalDualState:
        """Allocate, from the slopes at a first point or from zero."""
        objective.check_dual(problem, "PrimalDualBFW")
        W = np.array(problem.checked_point(init).weights)
        scores = problem.scores(W)
        n = len(scores)
        U = np.zeros_like(scores) if init is None else problem.dual_point(scores, np.zeros(W.shape[1]))
        squares = problem.weights * row_squares(problem.X)
        safe = problem.l2 / max(float(squares.sum()), _TINY)
        if self.is_automatic:
            r = problem.l2 / max(float(squares.max()), _TINY)
        elif self.steps == "paper":
            largest = float(row_squares(problem.X).max())
            r = paper_delta(problem, min(self.k or n, n), largest, factor=4.0) / n
        elif self.delta is not None:
            r = self.delta / n
        else:
            r = problem.l2 / max(objective.square_of_norm(problem, rng), _TINY)
        r, safe = min(r, _LONGEST), min(safe, _LONGEST)
        return PrimalDualState(W, scores, U, np.zeros_like(W), r, safe, min(self.k or n, n))

    def step(self, problem: ConstrainedProblem, state: PrimalDualState) -> PrimalDualState:
        """Make iterations until they have read about as many numbers as X holds."""
        touched = 0
        for _ in range(self.tuning.max_iterations):
            if state.n_done % self.tuning.refresh == 0:
                objective.fill_adjoint(problem.X, problem.weights[:, None] * state.U, state.Z)
                if self.is_automatic:
                    state.theta = _weights_of(problem, state.Z, state.theta, state.W)
                objective.fill_scores(problem.X, state.W, state.scores)
            touched += self._ascend(problem, state) if self.is_automatic else self._iterate(problem, state)
            state.n_done += 1
            if touched >= problem.X.size or is_time_up():
                break
        return state

    def _ascend(self, problem: ConstrainedProblem, state: PrimalDualState) -> int:
        """Make one iteration (maths: ball, eq. 18); return how many numbers of X it read."""
        p, k, tuning = problem.weights[:, None], problem.shape[1], self.tuning
        value, touched = _smooth_part(problem, state.Z, state.W), 0
        while True:
            check_time()
            _fill_moves(problem, state)
            D = p * state.D
            predicted = float(np.vdot(D, state.scores)) - float(np.vdot(D, state.D)) / (2.0 * state.r)
            np.copyto(state.new_Z, state.Z)
            touched += add_rows(as_rows(problem.X), D.reshape(-1), k, state.new_Z.reshape(-1))
            theta = _weights_of(problem, state.new_Z, state.theta, state.new_W)
            rise = _smooth_part(problem, state.new_Z, state.new_W) - value
            if rise >= predicted - _LEAST_RISE * abs(value) or state.r <= state.safe:
                break
            state.r = max(tuning.dual_step.shorter * state.r, state.safe)
            state.n_allowed = 0
        state.n_allowed += 1
        if state.n_allowed >= tuning.dual_step.patience:
            state.r, state.n_allowed = min(tuning.dual_step.longer * state.r, _LONGEST), 0
        state.U += state.D
        state.theta = theta
        state.Z, state.new_Z = state.new_Z, state.Z
        np.subtract(state.new_W, state.W, out=state.W)
        by_columns = int(add_rows(as_rows(problem.columns().T), state.W.reshape(-1), k, state.scores.reshape(-1)))
        state.W, state.new_W = state.new_W, state.W
        n = len(state.U)
        wanted = -(-by_columns * n // max(problem.X.size * k, 1))
        state.n_rows = min(max(wanted, -(-n // tuning.fewest_rows)), n)
        return (int(touched) + by_columns) // k

    def _iterate(self, problem: ConstrainedProblem, state: PrimalDualState) -> int:
        """Make one iteration of Algorithm 1; return how many numbers of X it read."""
        p, (d, k) = problem.weights[:, None], problem.shape
        eta, V = ETA if self.steps == "paper" else self.eta or 1.0, state.new_W
        np.multiply(state.Z, -1.0 / (problem.l2 * eta), out=V)
        V += (1.0 - 1.0 / eta) * state.W
        if self.s is not None and self.s < d * k:
            flat = V.reshape(-1)
            flat[np.argpartition(np.abs(flat), d * k - self.s)[: d * k - self.s]] = 0.0
        state.theta = objective.project_into(problem.ball, V, state.theta, V)
        V *= eta
        state.W *= 1.0 - eta
        state.W += V
        state.scores *= 1.0 - eta
        touched = add_rows(as_rows(problem.columns().T), V.reshape(-1), k, state.scores.reshape(-1))
        _fill_moves(problem, state)
        touched += add_rows(as_rows(problem.X), (p * state.D).reshape(-1), k, state.Z.reshape(-1))
        state.U += state.D
        return int(touched) // k

    def point(self, problem: ConstrainedProblem, state: PrimalDualState) -> BallPoint:
        """Return the weights."""
        return BallPoint(problem.inside(state.W), np.zeros(problem.shape[1]))

    def estimate(self, problem: ConstrainedProblem, state: PrimalDualState) -> float:
        """Return the relative gap between the weights and the dual variables."""
        primal = problem.losses(state.scores, np.zeros(state.U.shape[1]))
        primal += 0.5 * problem.l2 * float(np.vdot(state.W, state.W))
        return relative_gap(primal, problem.bound(state.U, state.Z))


def keep_largest_rows(D: Array, count: int) -> None:
    """Set all but the ``count`` rows of the largest norm to zero, in place."""
    rest = len(D) - count
    if rest > 0:
        D[np.argpartition(np.einsum("ic,ic->i", D, D), rest)[:rest]] = 0.0


def _fill_moves(problem: ConstrainedProblem, state: PrimalDualState) -> None:
    """Write the dual steps of the rows that move most, zero elsewhere."""
    np.subtract(problem.loss.dual_step(state.U, state.scores, problem.target, state.r), state.U, out=state.D)
    keep_largest_rows(state.D, state.n_rows)


def _weights_of(problem: ConstrainedProblem, Z: Array, guess: float, out: Array) -> float:
    """Write the point of the ball nearest to -Z / l2; return its threshold, times l2."""
    ball = objective.check_dual(problem, "PrimalDualBFW")
    theta = L1Ball(problem.l2 * ball.radius).level(Z, guess)
    ball.shrink_into(Z, theta, -1.0 / problem.l2, out)
    return theta


def _smooth_part(problem: ConstrainedProblem, Z: Array, W: Array) -> float:
    """Return l2 / 2 |W|^2 + <Z, W>: the dual value without the conjugates, at the minimiser W."""
    return 0.5 * problem.l2 * float(np.vdot(W, W)) + float(np.vdot(Z, W))
