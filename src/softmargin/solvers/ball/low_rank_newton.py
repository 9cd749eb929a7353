"""Newton's method over the trace-norm ball, where all singular values are positive; else accelerated gradient steps.

    F(W) = min over b of sum_ic p_i f(s_ic + b_c, t_ic) + l2 / 2 |W|^2 ,    S = X W ,    |W|_* <= radius

Around W = U diag(s) V' without a zero among s the trace norm is smooth, with gradient U V'. On the boundary of the ball
a step solves

    (H + theta |W|_*'') D = -(F' + theta U V') ,    <U V', D> = 0 ,    theta = -<F', W> / |W|_*

inside it the same without theta on the right and without the second equation. H has a block H_c = X' diag(h_c) X
per class, h_ic = p_i f'', from which the mean by h_c is subtracted where there is an intercept. Conjugate gradients
take a handful of products, as their preconditioner has H_c + theta A_cc for every class, A = V diag(1 / s) V': beyond
the span of U, |W|_*'' is the product with A, whose condition is that of W. Then

    W <- a (W + t D) ,    a = min(1, radius / |W + t D|_*) ,      t in (0, 1] by a search on F

On the boundary, points of lower rank and W with singular values far below the largest get steps of
``LowRankGradient``, which find the rank; so do all where the search on F leaves little of the steps, as of hinges on
separable data, whose samples gain curvature one by one. Inside, theta |W|_*'' only shortens steps, and vanishes with
F'. Where X has fewer rows than columns, W has as many rows as X (common.rotation).

Source: ours; the second derivative of the trace norm is that of a spectral function (Lewis and Sendov 2001). Maths:
ball, eq. 33.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.linalg import eigvalsh, svd
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf

from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.problems.constrained import BallPoint
from softmargin.sets import LowRank
from softmargin.solvers.ball._class_hessian import class_hessian
from softmargin.solvers.ball._intercept import best_intercept
from softmargin.solvers.ball._objective import adjoint_of, check_entrywise, conjugates, losses, scores_of
from softmargin.solvers.ball.low_rank_gradient import LowRankGradient, LowRankState
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.common.rotation import Rotation, find_rotation

__all__ = ["LowRankNewton", "LowRankNewtonState", "LowRankNewtonTuning", "step_work"]

_ROUNDING = 1e-13  # share of the largest entry of a matrix by which its diagonal is lifted before it is factored
_TOUCHING = 1.0 - 1e-9  # a point that uses more of the ball is on its boundary


class LowRankNewtonTuning(NamedTuple):
    """Constants of Newton's method over the trace ball."""

    # The least singular value in shares of the largest: 0.004 to 0.24 at the optima of full rank of isolet, segment,
    # vehicle, letter and mnist. Far below, theta A outweighs H and conjugate gradients take hundreds of products.
    least: float = 1e-3
    exactness: float = 0.1  # share to which conjugate gradients bring a residual; by hand
    most_products: int = 60  # of conjugate gradients, which take 1 to 20; a guard
    shorter: float = 0.6  # factor from one t to the next; by hand
    shortest: float = 1e-6  # t at which a search gives up; a guard
    # So many steps in a row with t below this are a stall, and gradient steps go on for a while, each time for longer;
    # by hand: on separable blobs every t is below 0.05, on mnist no two in a row are.
    short: float = 0.1
    most_short: int = 4
    rest: int = 100
    longer: int = 2


@dataclass
class LowRankNewtonState(LowRankState):
    """The state of the gradient steps, and who makes the next ones; the coordinates of the weights, as scratch."""

    n_short: int = 0  # Newton steps in a row with a short t
    n_rest: int = 0  # gradient steps that follow before the next Newton step
    n_stalls: int = 0
    rotation: Rotation | None = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class LowRankNewton(LowRankGradient):
    """Settings of Newton's method over the trace ball; ``restart`` is that of the gradient steps."""

    newton: LowRankNewtonTuning = LowRankNewtonTuning()

    state_type: ClassVar[type[LowRankState]] = LowRankNewtonState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> LowRankState:
        """Allocate, from a first point or from zero."""
        check_entrywise(problem, "LowRankNewton", "LowRankGradient")
        return super().start(problem, init, rng)

    def step(self, problem: ConstrainedProblem, state: LowRankState) -> LowRankState:
        """Make a Newton step where the trace norm is smooth, and F falls along it; else a gradient step."""
        assert isinstance(state, LowRankNewtonState)
        s, has_moved = state.s, False
        if state.n_rest > 0:
            state.n_rest -= 1
        elif len(s):
            is_smooth = len(s) == min(problem.shape) and float(s.min()) >= self.newton.least * float(s.max())
            is_inside = float(s.sum()) < _TOUCHING * self.ball(problem).radius
            has_moved = (is_smooth or is_inside) and self._descend(problem, state)
        return state if has_moved else super().step(problem, state)

    def _descend(self, problem: ConstrainedProblem, state: LowRankNewtonState) -> bool:
        """Move to the least F along the Newton step; return whether there is any below that of W."""
        rotation = state.rotation = state.rotation or find_rotation(problem.X)
        W, radius = LowRank(rotation.inward(state.U), state.s, state.V), self.ball(problem).radius
        model = _Model.at(problem, radius, rotation.A, W, state, self.newton.least)
        for D in model.steps(self.newton):
            line = _Line(problem, model, D, scores_of(rotation.A, D))
            t, best = line.search(self.newton)
            if best.primal < model.primal:
                break
        state.n_short = state.n_short + 1 if t < self.newton.short else 0
        if state.n_short == self.newton.most_short:
            state.n_rest = self.newton.rest * self.newton.longer**state.n_stalls
            state.n_short, state.n_stalls = 0, state.n_stalls + 1
        if not best.primal < model.primal:
            return False
        U, s, Vt = svd(best.scale * (model.W + t * D), full_matrices=False)
        r = int((s > 0.0).sum())
        # Sizes by squares have half of the digits.
        inside = min(1.0, model.radius / float(s.sum()))
        state.U, state.s, state.V = rotation.outward(U[:, :r].copy()), inside * s[:r], Vt[:r].T.copy()
        state.last_U, state.last_s, state.last_V = state.U, state.s, state.V
        state.basis, state.length = state.V.copy(), t * float(np.linalg.norm(D))
        state.scores = (inside * best.scale) * (model.S + t * line.move)
        state.last_scores, state.intercept, state.momentum = state.scores.copy(), best.intercept, 1.0
        Z = adjoint_of(rotation.A, problem.slopes(state.scores, best.intercept))
        bound = self.ball(problem).least(Z, problem.l2) - conjugates(problem, state.scores, best.intercept)
        state.primal, state.gap = best.primal, max(best.primal - bound, 0.0)
        state.gap_then = state.gap
        return True


class _Model(NamedTuple):
    """F and the trace norm around W = U diag(s) V'."""

    A: Any  # (n, r) X in the coordinates of W
    U: Array  # (r, q)
    s: Array  # (q,)
    V: Array  # (k, q)
    W: Array  # (r, k)
    S: Array  # (n, k) scores
    intercept: Array  # (k,)
    G: Array  # (r, k) F'
    h: Array  # (n, k) second derivatives, times the weights of the samples
    theta: float
    radius: float
    room: float  # radius - |W|_*
    l2: float
    centre: Array | None  # (k,) sums of h, where there is an intercept
    primal: float

    @classmethod
    def at(
        cls, problem: ConstrainedProblem, radius: float, A: Any, W: LowRank, state: LowRankState, least: float
    ) -> "_Model":
        """Evaluate all of it at W; singular values below a share of the largest count as that."""
        S, l2, dense, size = state.scores, problem.l2, W.toarray(), float(W.s.sum())
        b = best_intercept(problem, S, state.intercept)
        G = adjoint_of(A, problem.slopes(S, b)) + l2 * dense
        h = problem.weights[:, None] * problem.loss.bend(S + b, problem.target)
        room = radius - size if size < _TOUCHING * radius else 0.0
        sums = h.sum(axis=0) if problem.fit_intercept else None
        primal = losses(problem, S, b) + 0.5 * l2 * float(np.vdot(dense, dense))
        theta = max(-float(np.vdot(G, dense)) / size, 0.0)
        s = np.maximum(W.s, least * W.s.max())
        return cls(A, W.U, s, W.V, dense, S, b, G, h, theta, radius, room, l2, sums, primal)

    def steps(self, tuning: LowRankNewtonTuning) -> list[Array]:
        """Return D, (r, k), about; before it, where it leaves the ball, one that is bent back to the boundary."""
        metric, N, shape = _ClassFactors.of(self), self.U @ self.V.T, self.W.shape
        across = metric.solve(N)
        steep = float(np.vdot(N, across))
        is_tangent = self.room == 0.0 and self.theta > 0.0

        def tangent(G: Array) -> Array:
            D = metric.solve(G.reshape(shape))
            if is_tangent:
                D -= (float(np.vdot(N, D)) / steep) * across
            return D.ravel()

        def product(D: Array, out: Array) -> None:
            out[:] = self.times(D.reshape(shape)).ravel()

        right = self.G + self.theta * N if is_tangent else self.G
        D = conjugate_gradients(
            product, -right.ravel(), tangent, tuning.exactness, max_products=tuning.most_products
        ).x.reshape(shape)
        beyond = float(np.vdot(N, D)) - self.room
        if is_tangent or beyond <= 0.0:
            return [D]
        # The way to the boundary by the linear model of the norm, as far as the preconditioner knows.
        return [D - (beyond / steep) * across, D]

    def times(self, D: Array) -> Array:
        """Return (H + theta |W|_*'') D."""
        move = scores_of(self.A, D)
        if self.centre is not None:
            move -= np.einsum("ic,ic->c", self.h, move) / np.where(self.centre > 0.0, self.centre, 1.0)
        move *= self.h
        out = adjoint_of(self.A, move) + self.l2 * D
        if self.theta > 0.0:
            U, s, V = self.U, self.s, self.V
            DV, UD = D @ V, U.T @ D
            B = U.T @ DV
            turn = (B - B.T) / (s[:, None] + s)
            out += self.theta * (((DV - U @ B) / s + U @ turn) @ V.T + U @ ((UD - B @ V.T) / s[:, None]))
        return out


class _ClassFactors(NamedTuple):
    """The Cholesky factors of H_c + theta A_cc, one per class."""

    factors: list[Array]

    @classmethod
    def of(cls, model: _Model) -> "_ClassFactors":
        """Form and factor them; of every class the rows with curvature."""
        lifts = model.l2 + model.theta * np.einsum("cq,cq->c", model.V / model.s, model.V)
        hessians = (class_hessian(model.A, h, is_centred=model.centre is not None) for h in model.h.T)
        return cls([_factored(H, lift) for H, lift in zip(hessians, lifts, strict=True)])

    def solve(self, G: Array) -> Array:
        """Solve with all of them."""
        solved = [cho_solve((factor, True), G[:, c], check_finite=False) for c, factor in enumerate(self.factors)]
        return np.stack(solved, axis=1)


def _factored(H: Array, lift: float) -> Array:
    """Return the Cholesky factor of H + lift, lifted further until it is positive definite."""
    diagonal = np.einsum("jj->j", H)  # a view
    most = float(diagonal.max(initial=0.0))
    extra = _ROUNDING * most or 1.0
    diagonal += lift
    while True:
        diagonal += extra
        factor, failure = dpotrf(H, lower=True, clean=False)
        if not failure:
            return np.asarray(factor)
        extra *= 10.0


class _OnLine(NamedTuple):
    """What is found at a t."""

    primal: float
    scale: float
    intercept: Array


class _Line:
    """F of a (W + t D), by scores and by products of W and D."""

    def __init__(self, problem: ConstrainedProblem, model: _Model, D: Array, move: Array) -> None:
        self.problem, self.model, self.move = problem, model, move
        W = model.W
        self.squares = (W.T @ W, W.T @ D, D.T @ D) if W.shape[0] >= W.shape[1] else (W @ W.T, W @ D.T, D @ D.T)

    def search(self, tuning: LowRankNewtonTuning) -> tuple[float, _OnLine]:
        """Return the t up to 1 from which on shorter ones raise F, and what is found there."""
        t, best, then = 1.0, self.at(1.0), self.at(tuning.shorter)
        while then.primal < best.primal and t > tuning.shortest:
            t *= tuning.shorter
            best, then = then, self.at(tuning.shorter * t)
        return t, best

    def at(self, t: float) -> _OnLine:
        """Return F, a and the intercept at t."""
        problem, (WW, WD, DD) = self.problem, self.squares
        M = WW + t * (WD + WD.T) + t * t * DD
        size = float(np.sqrt(np.maximum(eigvalsh(M), 0.0)).sum())
        scale = min(1.0, self.model.radius / size)
        scores = scale * (self.model.S + t * self.move)
        b = best_intercept(problem, scores, self.model.intercept)
        return _OnLine(losses(problem, scores, b) + 0.5 * problem.l2 * scale**2 * float(np.trace(M)), scale, b)


def step_work(n_curved: float, d: int, k: int) -> float:
    """Count the multiplications of a step, given the rows with curvature of a class: those of H_c and their factors."""
    return k * (n_curved * float(d) ** 2 + float(d) ** 3 / 3.0)
