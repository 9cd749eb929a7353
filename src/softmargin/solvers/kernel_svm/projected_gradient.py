"""Accelerated projected gradient on the dual of a kernel multiclass SVM.

    minimise f(alpha) = 1/2 <alpha, K alpha> - sum_i alpha_{i, y_i}   over the dual rows,   gradient G = K alpha - Y
    z = alpha_t + b (alpha_t - alpha_{t-1});   alpha_{t+1} = nearest feasible rows to z - G(z) / L

b is FISTA's (``common.momentum``); it restarts at 0 after a step back, <alpha_{t+1} - z, alpha_{t+1} - alpha_t> < 0.
L is the largest eigenvalue of K by the power method, and doubles where <d, K d> > L |d|^2 for d = alpha_{t+1} - z.

    all rows        a step is one such iteration; K times what moved
    working set     a step is a round: iterations on some rows, with their square of K in memory, until their gap has
                    fallen to 1/10; then K times what moved, once, for all rows             maths: kernel SVM, section 4

    maths           here                shape
    alpha, F        alpha, scores       (n, k)     F = K alpha, kept up to date
    L               lipschitz           ()
    act, K_aa       rows, K             (m,), (m, m)

Everything is an operation on whole arrays: no loop over samples. Source: maths: kernel SVM, sections 4 and 5.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time, is_time_up, share_of_time
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.common.momentum import extrapolate, next_momentum
from softmargin.solvers.common.power_method import largest_eigenvalue
from softmargin.solvers.kernel_svm._dual_rows import (
    DualRowSolver,
    active_rows,
    first_rows,
    gap_of,
    nearest,
    open_rows,
    working_rows,
)

__all__ = ["ProjectedGradient", "ProjectedGradientState", "ProjectedGradientTuning"]

Array = NDArray[Any]
Product = Callable[[Array], Array]

NOISE = 1e-12  # rounding of <d, K d>, relative to |d| |F|: no curvature is seen below it


class ProjectedGradientTuning(NamedTuple):
    """The constants of projected gradient."""

    first_set: int = 4000  # rows in the first working set: by hand; maths: kernel SVM, section 8 has 2000
    growth: int = 4  # how many times larger the next set may be: by hand; maths: kernel SVM, section 8 has 2
    active_share: float = 0.01  # a gap counts above this share of the mean gap: maths: kernel SVM, section 8
    set_target: float = 0.1  # share of its gap that a round leaves: by hand; maths: kernel SVM, section 8 has 0.2
    set_steps: int = 300  # most iterations of one round: by hand
    share: float = 0.5  # of the time left, for the iterations of a round; the rest updates the scores; by hand
    safety: float = 1.02  # times the eigenvalue, which the power method approaches from below: by hand
    power_steps: int = 30  # by hand
    power_change: float = 1e-3  # relative change at which the power method stops: by hand


@dataclass
class DualIterate:
    """Two successive points, for some rows or for all."""

    alpha: Array  # (m, k)
    scores: Array  # (m, k)      with the contribution of the other rows
    last: Array  # (m, k)        alpha one iteration ago
    last_scores: Array  # (m, k)
    lipschitz: float
    momentum: float
    ceiling: float = field(default=math.inf, kw_only=True)  # the trace of K, which no eigenvalue exceeds


@dataclass
class ProjectedGradientState(DualIterate):
    """Arrays and plain numbers, which a checkpoint holds."""

    order: Array  # the samples whose rows can move, shuffled: rows of equal gaps are taken in this order
    largest_set: int

    positions: ClassVar[dict[str, str]] = {"order": "alpha"}


@dataclass(frozen=True)
class ProjectedGradient(DualRowSolver[ProjectedGradientState]):
    """Settings of projected gradient.

    Parameters
    ----------
    working_set : bool
        DualIterate on working sets; False iterates on all rows, as a baseline.
    tuning : ProjectedGradientTuning
    """

    working_set: bool = True
    tuning: ProjectedGradientTuning = ProjectedGradientTuning()

    state_type = ProjectedGradientState
    runs_on_device = True

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> ProjectedGradientState:
        """Allocate, from a first point or from nothing."""
        alpha = first_rows(problem, init)
        scores = problem.gram.scores(alpha)
        order = rng.permutation(open_rows(problem))
        gram = problem.gram
        lipschitz = 1.0 if self.working_set else self._lipschitz(gram.scores, gram.diagonal, rng)
        return ProjectedGradientState(
            alpha,
            scores,
            alpha.copy(),
            scores.copy(),
            lipschitz,
            1.0,
            order,
            self.tuning.first_set,
            ceiling=float(gram.diagonal.sum()),
        )

    def step(self, problem: KernelBlockProblem, state: ProjectedGradientState) -> ProjectedGradientState:
        """Make one iteration on all rows, or one round on a working set."""
        if self.working_set:
            self._round(problem, state)
            return state
        _advance(state, problem.multiclass, problem.y, problem.C, problem.gram.scores)
        return state

    def _round(self, problem: KernelBlockProblem, state: ProjectedGradientState) -> None:
        """Choose a working set, bring its gap down to a tenth, and update the scores of all rows."""
        tuning, gram = self.tuning, problem.gram
        rows = active_rows(problem, state, problem.gaps(state.alpha, state.scores), share=tuning.active_share)
        state.largest_set = min(tuning.growth * state.largest_set, gram.n + 1)
        if len(rows) == 0:
            return
        part = working_rows(problem, rows)
        y, C = problem.y[rows], problem.C[rows]

        def product(change: Array) -> Array:
            return np.asarray(part.back(part.product(part.here(change))))

        old, scores = state.alpha[rows], state.scores[rows]
        with share_of_time(tuning.share):
            lipschitz = self._lipschitz(product, gram.diagonal[rows], np.random.default_rng(len(rows)))
            at = DualIterate(old, scores, old, scores, lipschitz, 1.0, ceiling=float(gram.diagonal[rows].sum()))
            target = tuning.set_target * gap_of(problem.multiclass, at.alpha, at.scores, y, C)
            for _ in range(tuning.set_steps):
                _advance(at, problem.multiclass, y, C, product)
                if not gap_of(problem.multiclass, at.alpha, at.scores, y, C) > target or is_time_up():
                    break
        change = np.zeros_like(state.alpha)
        change[rows] = at.alpha - old
        state.alpha[rows] = at.alpha
        state.scores += gram.scores(change)

    def _lipschitz(self, product: Product, diagonal: Array, rng: np.random.Generator) -> float:
        """Return about the largest eigenvalue of K, a little more rather than less."""
        tuning, v = self.tuning, rng.random(len(diagonal)) + 0.5
        value = largest_eigenvalue(product, v, steps=tuning.power_steps, change=tuning.power_change)
        # No diagonal entry exceeds the eigenvalue; where K = 0 any positive number will do.
        return tuning.safety * max(value, float(diagonal.max(initial=0.0))) or 1.0


def _advance(at: DualIterate, multiclass: str, y: Array, C: Array, product: Product) -> None:
    """Make one accelerated step; ``product`` multiplies by K."""
    following, beta = next_momentum(at.momentum)
    z, z_scores = np.empty_like(at.alpha), np.empty_like(at.scores)
    extrapolate(at.alpha, at.last, beta, z)
    extrapolate(at.scores, at.last_scores, beta, z_scores)
    gradient = z_scores.copy()
    gradient[np.arange(len(y)), y] -= 1.0
    noise = NOISE * float(np.linalg.norm(z_scores))
    while True:
        check_time()
        new = nearest(multiclass, z - gradient / at.lipschitz, y, C)
        new_scores = at.scores + product(new - at.alpha)
        d = new - z
        length = float(np.linalg.norm(d))
        curvature = float(np.vdot(d, new_scores - z_scores))
        if not curvature > at.lipschitz * length**2 + noise * length or at.lipschitz > at.ceiling:
            break
        at.lipschitz *= 2.0
    at.momentum = 1.0 if float(np.vdot(d, new - at.alpha)) < 0.0 else following
    at.last, at.last_scores = at.alpha, at.scores
    at.alpha, at.scores = new, new_scores
