"""A primal-dual interior point for linear joint SVMs: some dozens of steps, also at large C and on raw features.

    minimise over W:   P(W) = 1/2 |W|^2 + sum_i C_i l_i(W' x_i)                             maths: linear SVM, section 7

Every pair of a sample i and a wrong class j has beta_ij = -alpha_ij >= 0 with a multiplier s_ij, and an upper bound
with a multiplier t. At the optimum the products of all variables and their multipliers are zero; on the central path
they are mu:

    W = X' alpha ,    t - s = h(W) ,    beta s = mu ,    (C - beta) t = mu

One step is one of Newton's method on these equations by Mehrotra's predictor and corrector, with a few corrections for
products that stray (Gondzio). Eliminating all but W leaves a system in the weights,

    (identity + sum_i x_i x_i' (x) E M_i E') dW = right ,    M = diag(theta) ,  theta = 1 / (s / beta + t / (C - beta))

where M is diagonal less a rank of one for Crammer-Singer, whose rows share one upper bound. The samples of one label y
share E = [e_y - e_j]: k - 1 weighted Gram matrices of X per label are all of it.

    maths               here
    beta, C - beta      lower, upper        (n, m), m = k - 1; upper (n, 1) for Crammer-Singer
    theta, a            stiffness           (n, m)
    h                   margins             (n, m)
    W                   V                   (D, columns)    the unknowns (``_label_groups``)

Source: Mehrotra (1992); Gondzio (1996); for binary SVMs Ferris and Munson (2002). We differ: losses are joint.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import relative_gap
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.operator import row_squares
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.linear_svm._block_loop import demand_finite
from softmargin.solvers.linear_svm._interior_loop import Pairs
from softmargin.solvers.linear_svm._interior_steps import (
    InteriorPointTuning,
    aimed,
    longest,
    lowered,
    refined,
    total_after,
)
from softmargin.solvers.linear_svm._label_groups import (
    STEEPEST,
    LabelGroups,
    best_multiple,
    given_point,
    steepness,
    used_columns,
)
from softmargin.solvers.linear_svm._newton_system import NewtonSystem
from softmargin.solvers.linear_svm.interior_work import (
    count_corrections,
    demand_few_unknowns,
    is_factor_dear,
    is_joint,
    is_single_worth,
)

__all__ = ["InteriorPoint", "InteriorPointTuning", "InteriorState"]

Array = NDArray[Any]


@dataclass
class InteriorState:
    """The variables, which a checkpoint holds, and scratch."""

    V: Array  # (D, columns)
    lower: Array  # (n, m)
    upper: Array  # (n, m), or (n, 1)
    s: Array  # (n, m)
    t: Array  # as upper
    ridge: float = 0.0  # added to the scaled Newton matrix
    is_single: bool = False  # squares and factors are of float32
    first: Any = field(default=None, init=False, repr=False)  # the point where the run starts, before its first step
    groups: Any = field(default=None, init=False, repr=False)
    here: "_Here | None" = field(default=None, init=False, repr=False)  # what the point implies, once evaluated

    def pairs(self) -> Pairs:
        """Return the variables as flat views."""
        return Pairs(*(each.reshape(-1) for each in (self.lower, self.upper, self.s, self.t)))


class _Here(NamedTuple):
    """What a point implies."""

    margins: Array  # (n, m) h
    implied: Array  # (D, columns) X' alpha
    primal: float
    dual: float  # at the best multiple of alpha
    multiple: float


@dataclass(frozen=True)
class InteriorPoint(Resumable):
    """The interior point; it has no settings. One step factors one Newton matrix."""

    tuning: InteriorPointTuning = InteriorPointTuning()

    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)
    state_type = InteriorState

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> InteriorState:
        """Begin at W = 0 with all beta in the middle of their range; ``init`` is the point until the first step."""
        k = problem.n_classes
        demand_few_unknowns(problem, "InteriorPoint", self.tuning.max_unknowns)
        demand_finite(row_squares(problem.X))
        order = LabelGroups.find_order(problem)
        prices = problem.C[order, None]
        share = 1.0 / k if is_joint(problem) else 0.5
        lower = np.repeat(share * prices, k - 1, axis=1)
        upper = share * prices if is_joint(problem) else lower.copy()
        columns = 1 if k == 2 else k
        state = InteriorState(
            V=np.zeros((len(used_columns(problem.X)) + int(problem.bias != 0.0), columns)),
            lower=lower,
            upper=upper,
            s=np.ones_like(lower),
            t=np.full_like(upper, 2.0),
            is_single=is_single_worth(problem) and steepness(problem) <= STEEPEST,
        )
        state.first = given_point(problem, init)
        return state

    def enter(
        self, problem: BlockDualProblem, V: Array, lower: Array, groups: LabelGroups, width: float
    ) -> InteriorState:
        """Begin at weights and dual rows that nearly imply them, of hinges whose corners are rounded over ``width``.

        t is the value of such a hinge and s = t - h, so that only W = X'alpha is missed.
        """
        tuning, state = self.tuning, self.start(problem, None, np.random.default_rng(0))
        state.first, state.is_single, state.groups, state.V = None, False, groups, V.copy()
        h, size, joint = (1.0 + groups.margins(V)) / width, lower.size + state.upper.size, is_joint(problem)
        prices = groups.C[:, None]
        t = np.logaddexp(0.0, np.logaddexp.reduce(h, axis=1, keepdims=True) if joint else h)
        s = width * (t - h)
        t *= width
        upper = prices - lower.sum(axis=1, keepdims=True) if joint else prices - lower
        mean = (float(np.vdot(lower, s)) + float(np.vdot(upper, t))) / size
        least = tuning.lift * mean / prices
        s, t = s + least, t + least
        lower = np.maximum(lower, np.minimum(tuning.lift * mean / s, 0.5 * prices / lower.shape[1]))
        most = prices - np.minimum(tuning.lift * mean / t, 0.5 * prices)
        if joint:
            lower *= np.minimum(1.0, most / lower.sum(axis=1, keepdims=True))
            upper = prices - lower.sum(axis=1, keepdims=True)
        else:
            lower = np.minimum(lower, most)
            upper = prices - lower
        for mine, begun in zip((state.lower, state.upper, state.s, state.t), (lower, upper, s, t), strict=True):
            mine[:] = begun
        return state

    def step(self, problem: BlockDualProblem, state: InteriorState) -> InteriorState:
        """Predict, correct, aim lower where a factor is dear, and go as far as all variables stay positive.

        Where rounding leaves nothing to go by, the point stays.
        """
        state.first = None
        if not state.lower.size:
            return state
        tuning, here = self.tuning, self._evaluate(problem, state)
        now, size = state.pairs(), state.lower.size + state.upper.size
        total = float(now.lower @ now.s + now.upper @ now.t)
        if total <= tuning.finest * here.primal:
            return state
        try:
            system = NewtonSystem(state, here, is_joint(problem), tuning)
        except np.linalg.LinAlgError:
            if not state.V.any():
                raise
            return state  # next to the optimum, or as near as float64 leads
        low, high = -now.lower * now.s, -now.upper * now.t
        _, move = system.solve(low, high)
        a = min(1.0, longest(now, move))
        target = total / size * max((total_after(now, move, a) / total) ** tuning.power, tuning.least_fall)
        is_dear = is_factor_dear(problem)
        corrections = count_corrections(
            problem, tuning.corrections, tuning.dear_corrections if is_dear else tuning.most_corrections
        )
        tuning = tuning._replace(short=tuning.dear_short) if is_dear else tuning
        best = aimed(system, move, target, corrections, tuning)
        is_lowered = is_dear and 0.5 * float(np.linalg.norm(here.implied - state.V)) ** 2 < total
        if is_lowered:
            best = lowered(system, best, corrections, tuning)
        if not np.isfinite(best.V).all():
            return state
        best = refined(system, best, tuning)
        state.V += best.a * best.V
        for mine, change in zip(now, best.move, strict=True):
            mine += best.a * change
        state.here = None
        return state

    def point(self, problem: BlockDualProblem, state: InteriorState) -> DualPoint:
        """Return the weights, and the best multiple of the dual rows, made feasible."""
        if state.first is not None:
            return DualPoint(state.first.alpha.copy(), state.first.weights.copy())
        here = self._evaluate(problem, state)
        groups: LabelGroups = state.groups
        return groups.point(problem, here.multiple * state.lower, state.V)

    def estimate(self, problem: BlockDualProblem, state: InteriorState) -> float:
        """Return the relative gap."""
        here = self._evaluate(problem, state)
        return relative_gap(here.primal, here.dual)

    def _evaluate(self, problem: BlockDualProblem, state: InteriorState) -> _Here:
        """Return what the point implies; each is evaluated once."""
        if state.groups is None:
            state.groups = LabelGroups(problem, LabelGroups.find_order(problem))
        if state.here is not None:
            return state.here
        groups, V = state.groups, state.V
        margins = 1.0 + groups.margins(V)
        implied = groups.adjoint(state.lower)
        primal = groups.primal(V, margins, is_joint=is_joint(problem))
        state.here = _Here(margins, implied, primal, *best_multiple(state.lower, implied))
        return state.here
