"""Newton's method on weights and shares along a path of smoothed hinges, for linear joint SVMs on data as they come.

    minimise over W:   1/2 |W|^2 + sum_i C_i l_i(W' x_i)                                   maths: linear SVM, section 12

The corners of the losses are rounded over a width tau, and the ridge is rho:

    F(W) = rho / 2 |W|^2 + sum_i C_i tau log(1 + sum_j exp(h_ij / tau))
    optimal pairs:   rho W = X' alpha ,   alpha_ij = -C_i q_ij ,   q_i = softmax(0, h_i / tau)

where j runs over the wrong classes of a sample (Crammer-Singer), or every pair of a sample and a wrong class is a row
by itself (Weston-Watkins). The shares q have a life of their own beside the scores, as in primal-dual Newton for
softmax: a step linearises both equations, and its shares

    q + J(q) (h(W + dW) / tau - log q)

pull exactly at W + dW, so that they are the dual point, made feasible. rho falls first, from where W is next to zero,
and the shares with it; then tau falls, until what the rounding costs is below the gap that is asked for.

One factor of float32 is the metric of conjugate gradients for as many steps as their products take no longer than it.

    maths               here
    q                   exp(logs)       (rows, outcomes), the label first
    h                   margins         (n, m), m = k - 1
    W                   V               (D, columns)    the unknowns (``_label_groups``)

Source: ours. Smoothing by an entropy as in Nesterov (2005), primal-dual steps as in Wright (1997).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.aim import wanted_residual
from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import check_time
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.operator import row_squares
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.common.entropic import across, followed, log_softmax, log_step, lower_others
from softmargin.solvers.common.newton_search import NewtonSearch
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.linear_svm._block_loop import demand_finite
from softmargin.solvers.linear_svm._label_groups import (
    STEEPEST,
    LabelGroups,
    best_multiple,
    given_point,
    steepness,
    used_columns,
)
from softmargin.solvers.linear_svm._scaled_factor import FactorTuning, ScaledFactor, factored, stiffened
from softmargin.solvers.linear_svm.interior_work import (
    demand_few_unknowns,
    factor_products,
    is_joint,
    is_single_worth,
)

__all__ = ["SmoothedNewton", "SmoothedNewtonTuning", "SmoothedState"]

Array = NDArray[Any]


class SmoothedNewtonTuning(NamedTuple):
    """The path, and how exact directions are; by hand on mnist unless said otherwise."""

    first_ridge: float = 0.2  # the first rho, as a share of the mean C_i |x_i|^2: as in primal-dual Newton for softmax
    fall: float = 3.0  # divides rho after a step of nearly full length; measured: 6 and 10 take as many steps
    narrow: float = 2.0  # divides tau; measured: 4 takes 1.3 to 1.8 times as many steps
    near: float = 0.9  # of its length, from which on a step counts as full
    flat: float = 1e-3  # slope along a step, as a share of F, below which it counts as full as well
    enough: float = 0.5  # of the wanted gap that the rounding of corners may cost
    narrowest: float = 1e-13  # the least tau: margins of 1 resolve no less
    floor: float = 0.1  # of shares, or what the scores say: a share that is next to zero would take long to grow
    lost: float = 0.1  # of its length, below which a step lets shares begin anew at what the scores say
    least_exact: float = 0.1  # first residual of conjugate gradients, as a share of the right-hand side
    most_exact: float = 0.01  # the least while rho falls, and the largest while tau does
    tighten: float = 3.0  # divides the residual after a step that was cut
    final_exact: float = 0.003  # the least residual while tau falls
    shown: float = 0.3  # of the |X'alpha - W| that the wanted gap allows, which a residual may leave
    worn: float = 0.5  # of the time of a factor, from which on products with it are more than a new one
    max_products: int = 150  # in one step
    faint: float = 1e-9  # share of the largest stiffness below which pairs are left out of systems
    most_kept: float = 0.7  # share of the samples above which none are left out: a copy takes time, too
    factor: FactorTuning = FactorTuning()
    search: NewtonSearch = NewtonSearch(flat=0.1)


@dataclass
class SmoothedState:
    """The iterate, which a checkpoint holds, and what is made of it."""

    V: Array  # (D, columns)
    logs: Array  # (rows, outcomes) log q
    shares: Array  # (n, m) the best dual point so far
    anchor: Array  # (n, m) stiffness of the factor
    anchor_slope: Array  # (n,) the same of joint losses, or nothing
    rho: float
    is_single: bool
    tau: float = 1.0
    bound: float = 0.0  # dual value of the shares
    cut: float = 0.0  # share of its length that the last step had; 1 where F was flat along it
    exact: float = 0.1  # of conjugate gradients
    spent: float = np.inf  # products since the factor was made
    ridge: float = 0.0  # added to the scaled Newton matrix of float64
    value: float = 0.0  # F, along a line
    first: Any = field(default=None, init=False, repr=False)  # the point where the run starts, before its first step
    groups: Any = field(default=None, init=False, repr=False)
    affordable: float = field(default=0.0, init=False, repr=False)  # products, before a new factor is made
    made: ScaledFactor | None = field(default=None, init=False, repr=False)


@dataclass(frozen=True)
class SmoothedNewton(Resumable):
    """Newton's method on weights and shares; it has no settings. One step is one linear system."""

    tuning: SmoothedNewtonTuning = SmoothedNewtonTuning()

    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)
    state_type = SmoothedState

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> SmoothedState:
        """Begin at W = 0 with a large ridge; ``init`` is the point until the first step."""
        demand_few_unknowns(problem, "SmoothedNewton")
        squares = row_squares(problem.X)
        demand_finite(squares)
        order, k, joint = LabelGroups.find_order(problem), problem.n_classes, is_joint(problem)
        n, m = len(order), k - 1
        steep = float(problem.C @ (squares + problem.bias**2)) / max(n, 1)
        state = SmoothedState(
            V=np.zeros((len(used_columns(problem.X)) + int(problem.bias != 0.0), 1 if k == 2 else k)),
            logs=_log_shares(np.ones((n, m)), 1.0, joint),
            shares=np.zeros((n, m)),
            anchor=np.zeros((n, m)),
            anchor_slope=np.zeros(n if joint else 0),
            rho=max(self.tuning.first_ridge * steep, 1.0),
            is_single=is_single_worth(problem) and steepness(problem) <= STEEPEST,
            exact=self.tuning.least_exact,
        )
        state.first = given_point(problem, init)
        return state

    def step(self, problem: BlockDualProblem, state: SmoothedState) -> SmoothedState:
        """Lower rho or tau after a full step; solve for a direction, minimise F along it, and move the shares."""
        state.first = None
        if state.shares.size:
            self.advance(problem, state)
        return state

    def advance(self, problem: BlockDualProblem, state: SmoothedState) -> Array:
        """Make a step; return shares (n, m) that pull exactly at its full length. C / rho times them is feasible."""
        tuning, groups, joint = self.tuning, self._groups(problem, state), is_joint(problem)
        margins = 1.0 + groups.margins(state.V)
        primal = groups.primal(state.V, margins, is_joint=joint)
        self._go_on(groups, state, margins, primal, joint)
        q, scores = np.exp(state.logs), _scores(margins, state.tau, joint)
        aimed = (q + q * log_step(state.logs, q, scores))[:, 1:].reshape(margins.shape)
        right = groups.adjoint(groups.C[:, None] * aimed) / state.rho - state.V
        D = self._direction(problem, state, q, right, primal)
        moves = groups.margins(D)
        line = _Line(state, D, margins, moves, groups.C, joint)
        state.value, slope, _ = line.evaluate(0.0)
        length = tuning.search.minimise(line, slope) if slope < 0.0 else 0.0
        state.cut = 1.0 if abs(slope) <= tuning.flat * state.value else min(length, 1.0)
        if state.cut < tuning.near:
            state.exact = max(state.exact / tuning.tighten, tuning.most_exact)
        full = q + q * log_step(state.logs, q, _scores(margins + moves, state.tau, joint))
        shares = _feasible(full[:, 1:]).reshape(margins.shape)
        if state.rho == 1.0:
            self._offer(groups, state, shares)
        ahead = max(length, 1.0) if state.rho > 1.0 and length > 0.0 else length
        if length > tuning.lost or state.rho > 1.0:
            scores = _scores(margins + ahead * moves, state.tau, joint)
            state.logs = followed(state.logs, q, scores, tuning.floor)
        else:
            state.logs = _log_shares(margins + length * moves, state.tau, joint)
        return shares

    def point(self, problem: BlockDualProblem, state: SmoothedState) -> DualPoint:
        """Return the weights, and the best multiple of the best shares."""
        if state.first is not None:
            return DualPoint(state.first.alpha.copy(), state.first.weights.copy())
        groups = self._groups(problem, state)
        beta = groups.C[:, None] * state.shares
        return groups.point(problem, best_multiple(beta, groups.adjoint(beta))[1] * beta, state.V)

    def estimate(self, problem: BlockDualProblem, state: SmoothedState) -> float:
        """Return the relative gap."""
        groups = self._groups(problem, state)
        margins = 1.0 + groups.margins(state.V)
        return relative_gap(groups.primal(state.V, margins, is_joint=is_joint(problem)), state.bound)

    def _groups(self, problem: BlockDualProblem, state: SmoothedState) -> LabelGroups:
        if state.groups is None:
            state.groups = LabelGroups(problem, LabelGroups.find_order(problem))
            state.affordable = self.tuning.worn * factor_products(problem)
        groups: LabelGroups = state.groups
        return groups

    def _go_on(self, groups: LabelGroups, state: SmoothedState, margins: Array, primal: float, joint: bool) -> None:
        """Lower rho, then tau, after a step of nearly full length."""
        tuning = self.tuning
        if state.cut < tuning.near:
            return
        if state.rho > 1.0:
            new = max(state.rho / tuning.fall, 1.0)
            lower_others(state.logs, np.zeros(len(state.logs), int), new / state.rho)
            state.rho = new
            return
        q = np.exp(_log_shares(margins, state.tau, joint))[:, 1:].reshape(margins.shape)
        losses = primal - 0.5 * float(np.vdot(state.V, state.V))
        cost = losses - float(groups.C @ np.einsum("ij,ij->i", q, margins))
        if cost > tuning.enough * wanted_residual() * primal:
            state.tau = max(state.tau / tuning.narrow, tuning.narrowest)

    def _direction(
        self, problem: BlockDualProblem, state: SmoothedState, q: Array, right: Array, primal: float
    ) -> Array:
        """Solve (identity + sum_i x_i x_i' (x) E M_i E') D = right, M_i = C_i / (rho tau) J(q_i)."""
        tuning, groups, joint, shape = self.tuning, state.groups, is_joint(problem), state.shares.shape
        others = q[:, 1:].reshape(shape)
        bends = others if joint else others * q[:, :1].reshape(shape)
        stiffness = groups.C[:, None] * bends / (state.rho * state.tau)
        stiffness[stiffness < tuning.faint * stiffness.max()] = 0.0
        slope = np.sqrt(state.rho * state.tau / groups.C) if joint else None
        if state.spent > state.affordable:
            state.anchor, state.spent, state.made = stiffness, 0.0, None
            state.anchor_slope = state.anchor_slope if slope is None else slope
        if state.made is None:
            at = _bent(groups, state.anchor, state.anchor_slope if joint else None, tuning.most_kept)
            state.made = factored(*at, state, tuning.factor)
        bent, stiffness, slope = _bent(groups, stiffness, slope, tuning.most_kept)
        made, exact = state.made, state.exact
        if state.rho == 1.0:
            allowed = tuning.shown * np.sqrt(2.0 * wanted_residual() * primal)
            exact = min(max(allowed / max(np.linalg.norm(right), 1e-300), tuning.final_exact), tuning.most_exact)

        def product(v: Array, out: Array) -> None:
            check_time()
            state.spent += 1.0
            V = v.reshape(right.shape)
            out[:] = (V - bent.adjoint(stiffened(stiffness, slope, bent.margins(V)))).reshape(-1)

        def metric(v: Array) -> Array:
            return made.solve(groups, v.reshape(right.shape)).reshape(-1)

        found = conjugate_gradients(
            product,
            right.reshape(-1),
            metric,
            exact,
            is_euclidean=state.rho == 1.0,
            max_products=tuning.max_products,
        )
        return found.x.reshape(right.shape)

    def _offer(self, groups: LabelGroups, state: SmoothedState, shares: Array) -> None:
        """Keep these shares where their dual value is the largest so far."""
        beta = groups.C[:, None] * shares
        bound, _ = best_multiple(beta, groups.adjoint(beta))
        if bound > state.bound:
            state.shares, state.bound = shares, bound


@dataclass
class _Line:
    """F along a step from the point of a state."""

    state: SmoothedState
    D: Array
    margins: Array
    moves: Array
    C: Array
    joint: bool

    def evaluate(self, length: float) -> tuple[float, float, float]:
        """Return F at V + length D, its slope and its curvature."""
        state, V, D = self.state, self.state.V, self.D
        scores, moves = _scores(self.margins + length * self.moves, state.tau, self.joint), self.moves
        top = across(np.maximum, scores)
        q = np.exp(scores - top)
        sums = across(np.add, q)
        losses = state.tau * (top + np.log(sums))[:, 0]
        q = (q / sums)[:, 1:]
        rows = moves.reshape(q.shape)
        prices = self.C if self.joint else np.repeat(self.C, moves.shape[1])
        means = np.einsum("ij,ij->i", q, rows)
        spreads = np.einsum("ij,ij->i", q, rows * rows) - means * means
        along, square = float(np.vdot(V, D)), float(np.vdot(D, D))
        value = float(prices @ losses) + state.rho * (
            0.5 * float(np.vdot(V, V)) + length * along + 0.5 * length * length * square
        )
        slope = float(prices @ means) + state.rho * (along + length * square)
        return value, slope, float(prices @ np.maximum(spreads, 0.0)) / state.tau + state.rho * square

    def accept(self, length: float, value: float) -> None:
        """Move to the last trial, at ``length``."""
        self.state.V, self.state.value = self.state.V + length * self.D, value

    def reject(self) -> None:
        """Stay at the start."""


def _bent(
    groups: LabelGroups, stiffness: Array, slope: Array | None, most: float
) -> tuple[LabelGroups, Array, Array | None]:
    """Leave out the samples whose losses do not bend, unless they are few."""
    keep = np.flatnonzero(stiffness.any(axis=1))
    if len(keep) > most * len(stiffness) or not len(keep):
        return groups, stiffness, slope
    return groups.some(keep), stiffness[keep], None if slope is None else slope[keep]


def _scores(margins: Array, tau: float, joint: bool) -> Array:
    """Return the scores of all outcomes of a row, the label first: of a sample, or of a pair."""
    others = margins if joint else margins.reshape(-1, 1)
    return np.hstack([np.zeros((len(others), 1)), others / tau])


def _log_shares(margins: Array, tau: float, joint: bool) -> Array:
    return log_softmax(_scores(margins, tau, joint))


def _feasible(shares: Array) -> Array:
    """Return shares that are not negative and sum to at most 1 in every row."""
    shares = np.maximum(shares, 0.0)
    return np.asarray(shares / np.maximum(across(np.add, shares), 1.0))
