"""Interior point for multinomial regression with an l1 penalty: raw features, where models by passes do not converge.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + strength |W|_1                     maths: softmax, eq. 1
    optimal:              X' C (q - Y) + strength t = 0 ,   log q_i = s_i - log sum exp s_i ,
                          W = U - V ,   U (1 - t) = V (1 + t) = 0 ,   -1 <= t <= 1                maths: softmax, eq. 44

As in primal_dual_newton, whose steps of q are taken over, probabilities q and slopes t have lives of their own beside
W. With a barrier of some width in place of the zeros, one Newton step on all equations leaves one system in W,

    (H(q) + strength theta) D = -(X' C (q + J(q) (s - log q) - Y) + strength (t - theta centre))    eq. 46

The run begins with a ridge, and follows the path of primal_dual_newton down to where it costs as much as the l1
penalty. From there on the width falls, by a factor after every step of most of its length. W goes to the least F with
its barrier along D; q and t go all the way, as primal and dual steps have lengths of their own.

By eq. 6 a gap needs |X' C (q - Y)| <= strength in all entries, where F hardly feels the largest of them: conjugate
gradients with a matrix per class reduce the error of F, and leave that of single slopes. So once the barrier costs
little, H is factored whole on the entries that can still move, and summed over all samples that bend at all. Either is
made anew when the products since then have cost as much as making it.

The dual point of the certificate is q. Weights below some widths are zero in the point.

Source: primal-dual interior points as in Wright (1997); the steps of q, the path and the systems are ours.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.aim import wanted_residual
from softmargin.core.deadline import share_of_time
from softmargin.core.protocols import L1Problem
from softmargin.core.rounding import TINY
from softmargin.penalties import L2
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import Metric, conjugate_gradients
from softmargin.solvers.common.entropic import followed
from softmargin.solvers.softmax._barrier_metrics import WholeTuning, class_metric, whole_metric
from softmargin.solvers.softmax._ridge_objective import REFRESH, RidgeObjective, WeightedRows
from softmargin.solvers.softmax._split_weights import Move, SplitWeights, divided
from softmargin.solvers.softmax.primal_dual_newton import (
    PrimalDualNewtonState,
    PrimalDualNewtonTuning,
    PrimalDualPath,
    all_scores,
    bent_rows,
)

__all__ = ["BarrierTuning", "L1InteriorPoint", "L1InteriorPointState"]

Array = NDArray[Any]
LEAST = 1e-9  # the ridge that the path would end with, as a share of the strength: it is left long before


class BarrierTuning(NamedTuple):
    """When the ridge gives way to the barrier, how the barrier falls, and how systems are solved; by hand on mnist."""

    light: float = 2.0  # ridge |W|^2 over strength |W|_1 from which on the barrier takes over
    first: float = 2.0  # its first width over the mean |W|
    fall: float = 2.0  # divides the width after a step of at least this share of its length
    near: float = 0.6
    costly: float = 0.03  # the gap of the barrier over F up to which systems are exact
    exact: float = 1e-4  # eta of conjugate gradients then
    faint: float = 1e-9  # share of the largest curvature below which rows are left out then: their slopes add up
    # The gap of the barrier over F up to which the width falls, as a share of the wanted residual; and at least, as
    # certificates resolve no less. What is left of the gap is of second order in the last step.
    enough: float = 0.25
    least: float = 1e-12
    # Widths up to which weights are zero in the point, or a tenth, a hundredth, ... of that: the most that raise F by
    # no more than this share of the wanted residual. On the path of the barrier 100 have slopes of 0.99, 0.1 of 0.1.
    zero: float = 100.0
    max_zeros: int = 4
    spoilt: float = 0.1
    whole: WholeTuning = WholeTuning()


@dataclass
class L1InteriorPointState(PrimalDualNewtonState):
    """The state of the path with a ridge, and from some step on both parts of W, its slopes, and the barrier."""

    up: Array = field(default_factory=lambda: np.zeros(0))  # (d * n_columns,) each
    down: Array = field(default_factory=lambda: np.zeros(0))
    slopes: Array = field(default_factory=lambda: np.zeros(0))
    anchor_theta: Array = field(default_factory=lambda: np.zeros(0))  # ((d + 1) * k,) of the preconditioner
    width: float = 0.0  # of the barrier; 0 while there is a ridge
    loss: float = math.nan  # F without its penalty, from the barrier on
    gap: float = math.inf  # about that of q, as a share of F
    is_exact: bool = False  # whether systems are
    entries: int = 0  # of a whole preconditioner


@dataclass(frozen=True)
class L1InteriorPoint(PrimalDualPath[L1InteriorPointState]):
    """Interior point on weights, probabilities and slopes; it has no settings. One step is one linear system."""

    tuning: PrimalDualNewtonTuning = PrimalDualNewtonTuning(light=0.0)  # of the path, which never jumps to its end

    barrier: ClassVar[BarrierTuning] = BarrierTuning()
    needs: ClassVar[tuple[type, ...]] = (L1Problem,)
    state_type: ClassVar[type[Any]] = L1InteriorPointState

    def start(self, problem: Any, init: CompositePoint | None, rng: np.random.Generator) -> L1InteriorPointState:
        """Begin at zero with a large ridge, or at ``init``, and its dual point if it has one, with the barrier."""
        is_fresh = init is None or not np.any(init.weights)
        state = super().start(_smooth(problem), None if is_fresh else init, rng)
        size = problem.X.shape[1] * problem.n_columns
        state.up, state.down, state.slopes, state.anchor_theta = (*np.zeros((3, size)), zeros(len(state.weights)))
        if not is_fresh:
            state.cut = 1.0
            q = problem.checked_point(init).dual
            if q is not None:
                state.logs[:] = np.log(np.maximum(q, TINY)).ravel()
        return state

    def step(self, problem: Any, state: L1InteriorPointState) -> L1InteriorPointState:
        """Make a step with the ridge, or with the barrier once the ridge is light."""
        objective = self._objective(problem, state)
        if state.width == 0.0 and not self._begins(problem, objective, state):
            super().step(objective.problem, state)
        else:
            self._barrier_step(problem, objective, state)
        return state

    def point(self, problem: Any, state: L1InteriorPointState) -> CompositePoint:
        """Return the weights, the least of them as zeros where F allows that, and q."""
        objective, tuning = self._objective(problem, state), self.barrier
        weights, intercept, _ = objective.losses.unpack(state.weights)
        q = np.exp(state.logs.reshape(objective.n, -1))
        F = state.loss + problem.strength * float(np.abs(weights).sum())
        for fewer in range(tuning.max_zeros if state.width > 0.0 else 0):
            least = tuning.zero * state.width / 10.0**fewer
            point = CompositePoint(np.where(np.abs(weights) <= least, 0.0, weights), intercept, q)
            if problem.primal(point).value <= (1.0 + tuning.spoilt * wanted_residual()) * F:
                return point
        return CompositePoint(weights, intercept, q)

    def estimate(self, problem: Any, state: L1InteriorPointState) -> float:
        """Return about the gap of q; infinite before the barrier."""
        return state.gap

    def _objective(self, problem: Any, state: L1InteriorPointState) -> RidgeObjective:
        return state.objective or super()._objective(_smooth(problem), state)

    def _new_objective(self, problem: Any) -> RidgeObjective:
        return RidgeObjective(problem)  # |W|_1 is not that of rotated weights

    def _begins(self, problem: L1Problem, objective: RidgeObjective, state: L1InteriorPointState) -> bool:
        """Let the barrier take over where the ridge is light; return whether it did."""
        W, tuning = objective.matrix(state.weights)[:-1], self.barrier
        size = float(np.abs(W).sum())
        is_light = state.ridge * float(np.vdot(W, W)) <= tuning.light * problem.strength * size
        if not (state.cut >= self.tuning.near and is_light and size > 0.0):
            return False
        state.width, state.cut = tuning.first * size / W.size, 0.0
        up, down, slopes = divided(W, state.width)
        state.up[:], state.down[:], state.slopes[:] = up.ravel(), down.ravel(), slopes.ravel()
        state.loss = objective.losses.fill_probabilities(state.scores, objective.P)
        state.ridge = objective.ridge = 0.0
        state.spent = math.inf
        return True

    def _barrier_step(self, problem: L1Problem, objective: RidgeObjective, state: L1InteriorPointState) -> None:
        """Solve for a direction; minimise F with its barrier along it; move q and the slopes."""
        system = self._lower_barrier(problem, objective, state)
        metric = state.metric or self._barrier_metric(objective, system.rows._replace(P=state.anchor), state)
        D, work = self._direction(objective, state, metric, system)
        state.first = state.first if state.spent > 0.0 else work
        state.spent += work
        objective.losses.fill_move(D, objective.T)
        line = BarrierLine(objective, state, D, system.split, system.split.move(objective.matrix(D)[:-1]))
        state.value, slope, _ = line.evaluate(0.0)
        length = 0.0
        if slope < 0.0:
            length = self.tuning.search.minimise(line, slope, longest=system.split.longest(line.move))
        else:
            line.reject()
        ahead, logs = state.scores + max(1.0 - length, 0.0) * objective.T, state.logs.reshape(objective.n, -1)
        logs[:] = followed(logs, system.q, all_scores(objective, ahead), self.tuning.floor)
        state.cut = min(length, 1.0)
        if state.cut < self.tuning.near:
            state.exact = max(state.exact / self.tuning.tighten, self.tuning.most_exact)
        state.gap = self._rough_gap(problem, objective, state, np.exp(logs))

    def _lower_barrier(
        self, problem: L1Problem, objective: RidgeObjective, state: L1InteriorPointState
    ) -> "BarrierSystem":
        """Lower the width after a step of most of its length; return the system there, and forget a worn metric."""
        tuning, W = self.barrier, objective.matrix(state.weights)[:-1]
        F = state.loss + problem.strength * float(np.abs(W).sum())
        cost = 2.0 * problem.strength * W.size / F  # the gap of a width of one
        if state.cut >= tuning.near and cost * state.width > max(tuning.enough * wanted_residual(), tuning.least):
            state.width /= tuning.fall
        up, down, slopes = (part.reshape(W.shape) for part in (state.up, state.down, state.slopes))
        split = SplitWeights(W, up, down, slopes, problem.strength, state.width)
        q, theta = np.exp(state.logs.reshape(objective.n, -1)), zeros(objective.size)
        objective.matrix(theta)[:-1] = problem.strength * split.theta
        rows = objective.all_rows._replace(P=zeros(objective.n * objective.k))
        objective.matrix(rows.P)[:] = q[:, -problem.n_columns :]
        is_exact = cost * state.width <= tuning.costly
        if state.spent > self.tuning.worn * state.made or is_exact > state.is_exact:
            self._renew(state, rows)
            state.anchor_theta, state.is_exact = theta, is_exact
        return BarrierSystem(split, q, rows, theta)

    def _barrier_metric(self, objective: RidgeObjective, rows: WeightedRows, state: L1InteriorPointState) -> Metric:
        """Make the preconditioner at the anchor of the state."""
        bent = bent_rows(rows, objective.k, self.tuning.faint, self.tuning.most_kept)
        theta, made = state.anchor_theta.reshape(-1, objective.k), None
        if state.is_exact and not objective.problem.is_pinned:
            made, state.entries = whole_metric(objective, bent, theta, self.barrier.whole)
        if made is None:
            rng = np.random.default_rng((state.seed, state.n_metrics))
            made, state.entries = class_metric(objective, bent, theta, state.per_feature, rng, self.tuning.grams), 0
        state.metric, state.made = made.solve, made.work + self._product_work(objective, bent)
        return made.solve

    def _direction(
        self, objective: RidgeObjective, state: L1InteriorPointState, metric: Metric, system: "BarrierSystem"
    ) -> tuple[Array, float]:
        """Solve the system of eq. 46; return D and the work."""
        split, q, rows, theta = system
        tuning, n_products = self.barrier, 0
        faint, eta = (tuning.faint, tuning.exact) if state.is_exact else (self.tuning.faint, state.exact)
        bent = bent_rows(rows, objective.k, faint, self.tuning.most_kept)
        scratch = objective.trial[: len(bent.P)]
        right = self._right(objective, state, state.logs.reshape(q.shape), q)
        objective.matrix(right)[:-1] -= split.strength * split.slopes_at_rest()

        def product(V: Array, out: Array) -> None:
            nonlocal n_products
            n_products += 1
            objective.hessian_times(bent, V, scratch, out)
            out += theta * V

        with share_of_time(self.tuning.share):
            D, _, _ = conjugate_gradients(product, right, metric, eta)
        return D, n_products * (self._product_work(objective, bent) + self.tuning.solved * float(state.entries) ** 2)

    def _rough_gap(self, problem: L1Problem, objective: RidgeObjective, state: L1InteriorPointState, q: Array) -> float:
        """Estimate the residual with q in place of the probabilities of the weights."""
        U, G, W = zeros(len(objective.trial)), zeros(objective.size), objective.matrix(state.weights)[:-1]
        objective.matrix(U)[:] = q[:, -problem.n_columns :]
        objective.losses.fill_gradient(U, U, G)
        F = state.loss + problem.strength * float(np.abs(W).sum())
        return float(problem.rough_residual(W, F, objective.matrix(G)[:-1]))


class BarrierSystem(NamedTuple):
    """What a step solves."""

    split: SplitWeights
    q: Array  # (n, n_classes)
    rows: WeightedRows  # all, at q
    theta: Array  # ((d + 1) * k,) the curvature of the penalty, zero for the intercept


@dataclass
class BarrierLine:
    """F with its barrier along a step from the point of a state."""

    objective: RidgeObjective
    state: L1InteriorPointState
    D: Array
    split: SplitWeights
    move: Move
    loss: float = math.nan  # at the last trial

    def evaluate(self, length: float) -> tuple[float, float, float]:
        """Return the value at a length, its slope and its curvature; P becomes the probabilities there."""
        at = self.objective
        self.loss, slope, bend = at.losses.along(self.state.scores, at.T, length, at.trial, at.P)
        value, rise, curve = self.split.along(self.move, length)
        return self.loss + value, slope + rise, bend + curve

    def accept(self, length: float, value: float) -> None:
        """Move to the last trial, at ``length``."""
        state, at = self.state, self.objective
        self.split.go(self.move, length)
        at.matrix(state.weights)[-1] += length * at.matrix(self.D)[-1]
        state.scores, at.trial = at.trial, state.scores
        state.value, state.loss = value, self.loss
        state.n_steps += 1
        if state.n_steps % REFRESH == 0:
            at.losses.fill_scores(state.weights, state.scores)

    def reject(self) -> None:
        """Stay at the start; slopes move."""
        self.split.go(self.move, 0.0)
        self.state.n_steps += 1


def _smooth(problem: L1Problem) -> Any:
    """Return the problem with next to no ridge in place of the l1 penalty."""
    return problem.with_penalty(L2(LEAST * problem.strength))
