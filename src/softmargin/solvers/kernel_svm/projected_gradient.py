"""Accelerated projected gradient on the dual of a kernel multiclass SVM.

    minimise f(alpha) = 1/2 <alpha, K alpha> - sum_i alpha_{i, y_i}   over the dual rows,   gradient G = K alpha - Y
    z = alpha_t + b (alpha_t - alpha_{t-1});   alpha_{t+1} = nearest feasible rows to z - G(z) / L

b is FISTA's; it starts again from 0 when a step turned back, <alpha_{t+1} - z, alpha_{t+1} - alpha_t> < 0.
L is the largest eigenvalue of K by the power method, and doubles where <d, K d> > L |d|^2 for d = alpha_{t+1} - z.

    all rows        a step is one such iteration; K times what moved
    working set     a step is a round: iterations on the rows that matter, with their square of K at hand, until their
                    gap has fallen to 1/10; then K times what moved, once, for all rows     maths: kernel SVM, section 4

    maths           here                shape
    alpha, F        alpha, scores       (n, k)     F = K alpha, kept up to date
    L               lipschitz           ()
    act, K_aa       rows, K             (m,), (m, m)

Everything is an operation on whole arrays: no loop over samples. Source: maths: kernel SVM, sections 4 and 5; Beck and
Teboulle (2009), with the gradient restart of O'Donoghue and Candes (2015).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import KernelBlockProblem
from softmargin.matrices.operator import row_slices
from softmargin.solvers.kernel_svm._dual_rows import corner, first_rows, nearest, open_rows
from softmargin.solvers.kernel_svm._working_set import SET_TARGET, choose_rows

__all__ = ["GradientState", "ProjectedGradient"]

Array = NDArray[Any]
Product = Callable[[Array], Array]

FIRST_SET = 4000  # rows in the first working set
GROWTH = 4  # how many times larger the next one may be
SAFETY = 1.02  # the power method comes from below
POWER_STEPS = 30
POWER_CHANGE = 1e-3  # relative change of the eigenvalue at which the power method stops
SET_STEPS = 300  # most iterations of one round
NOISE = 1e-12  # rounding of <d, K d>, relative to |d| |F|: no curvature is seen below it


@dataclass
class Iterate:
    """Two successive points and what acceleration remembers of them, for some rows or for all."""

    alpha: Array  # (m, k)
    scores: Array  # (m, k)      with the part of the rows that stand still
    last: Array  # (m, k)        alpha one iteration ago
    last_scores: Array  # (m, k)
    lipschitz: float
    momentum: float


@dataclass
class GradientState(Iterate):
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it."""

    order: Array  # the samples whose rows can move, shuffled: of equal gaps the first come first
    largest_set: int = FIRST_SET


@dataclass(frozen=True)
class ProjectedGradient:
    """Settings of projected gradient.

    Parameters
    ----------
    working_set : bool
        Iterate on the rows that matter; False iterates on all rows, as a baseline.
    """

    working_set: bool = True

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> GradientState:
        """Allocate, from a first point or from nothing."""
        alpha = first_rows(problem, init)
        scores = problem.gram.scores(alpha)
        order = rng.permutation(open_rows(problem))
        lipschitz = 1.0 if self.working_set else _largest_eigenvalue(problem.gram.scores, problem.gram.diagonal, rng)
        return GradientState(alpha, scores, alpha.copy(), scores.copy(), lipschitz, 1.0, order)

    def step(self, problem: KernelBlockProblem, state: GradientState) -> GradientState:
        """Make one iteration on all rows, or one round on a working set."""
        if self.working_set:
            return _solve_set(problem, state)
        _advance(state, problem.multiclass, problem.y, problem.C, problem.gram.scores)
        return state

    def point(self, problem: KernelBlockProblem, state: GradientState) -> Any:
        """Return the dual rows."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: KernelBlockProblem, state: GradientState) -> float:
        """Return the relative gap by the scores that were kept."""
        return float(problem.relative_gap(state.alpha, state.scores))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> GradientState:
        """Rebuild the state from a checkpoint."""
        return GradientState(**arrays, **plain)


def _advance(at: Iterate, multiclass: str, y: Array, C: Array, product: Product) -> None:
    """Make one accelerated step; ``product`` multiplies by K."""
    following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * at.momentum**2))
    b = (at.momentum - 1.0) / following
    z = at.alpha + b * (at.alpha - at.last)
    z_scores = at.scores + b * (at.scores - at.last_scores)
    gradient = z_scores.copy()
    gradient[np.arange(len(y)), y] -= 1.0
    noise = NOISE * float(np.linalg.norm(z_scores))
    while True:
        new = nearest(multiclass, z - gradient / at.lipschitz, y, C)
        new_scores = at.scores + product(new - at.alpha)
        d = new - z
        length = float(np.linalg.norm(d))
        curvature = float(np.vdot(d, new_scores - z_scores))
        if not curvature > at.lipschitz * length**2 + noise * length:
            break
        at.lipschitz *= 2.0
    at.momentum = 1.0 if float(np.vdot(d, new - at.alpha)) < 0.0 else following
    at.last, at.last_scores = at.alpha, at.scores
    at.alpha, at.scores = new, new_scores


def _solve_set(problem: KernelBlockProblem, state: GradientState) -> GradientState:
    """Choose a working set, bring its gap down to a tenth, and tell all rows."""
    gaps = problem.gaps(state.alpha, state.scores)
    most = min(state.largest_set, problem.gram.largest_square)
    rows = choose_rows(problem, state.alpha, gaps, state.order, most)
    state.largest_set = min(GROWTH * state.largest_set, problem.gram.n + 1)
    if len(rows) == 0:
        return state
    K = problem.gram.square(rows)
    y, C = problem.y[rows], problem.C[rows]

    def product(change: Array) -> Array:
        out = np.empty_like(change)
        for part in row_slices(len(K), len(K)):
            # Widened a slice at a time: kernel values may be float32, sums never are.
            np.matmul(K[part].astype(np.float64, copy=False), change, out=out[part])
        return out

    old, scores = state.alpha[rows], state.scores[rows]
    rng = np.random.default_rng(len(rows))
    at = Iterate(old, scores, old, scores, _largest_eigenvalue(product, problem.gram.diagonal[rows], rng), 1.0)
    target = SET_TARGET * _gap(at, problem.multiclass, y, C)
    for _ in range(SET_STEPS):
        _advance(at, problem.multiclass, y, C, product)
        if not _gap(at, problem.multiclass, y, C) > target:
            break
    change = np.zeros_like(state.alpha)
    change[rows] = at.alpha - old
    state.alpha[rows] = at.alpha
    state.scores += problem.gram.scores(change)
    return state


def _gap(at: Iterate, multiclass: str, y: Array, C: Array) -> float:
    """Return the Frank-Wolfe gap of these rows, which is their part of the duality gap."""
    # maths: kernel SVM, section 2.
    away = at.alpha - corner(multiclass, at.scores, y, C)
    return float(np.vdot(away, at.scores) - away[np.arange(len(y)), y].sum())


def _largest_eigenvalue(product: Product, diagonal: Array, rng: np.random.Generator) -> float:
    """Return about the largest eigenvalue of K, a little more rather than less, by the power method."""
    v = rng.random(len(diagonal)) + 0.5
    value = 0.0
    for _ in range(POWER_STEPS):
        v /= np.linalg.norm(v)
        Kv = product(v)
        value, before = float(np.linalg.norm(Kv)), value
        if not value > before * (1.0 + POWER_CHANGE):
            break
        v = Kv
    # No diagonal entry exceeds the eigenvalue; where K = 0 any positive number will do.
    return SAFETY * max(value, float(diagonal.max(initial=0.0))) or 1.0
