"""The dual rows of a kernel multiclass SVM as whole matrices: corners, nearest points, first points.

Array operations only, no loop over samples.

    rows of alpha       corners                                       nearest point to u
    Crammer-Singer      0 and C (e_y - e_j)                           C e_y - (nearest p >= 0, sum p = C, to C e_y - u)
    Weston-Watkins      off-label entries 0 or -C, label = - sum      b = clip(u_y - u_j - gamma, 0, C), gamma = sum b

Both follow from setting alpha_iy = - sum_j alpha_ij: maths: kernel SVM, section 2 (corners); maths: linear SVM,
section 3 (nearest points, with K_ii = 1).
"""

from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from softmargin.blocks import NOTHING
from softmargin.core.deadline import check_time
from softmargin.core.protocols import KernelBlockProblem
from softmargin.core.threads import wide_blas
from softmargin.losses.multiclass_hinge import margins
from softmargin.matrices.operator import product
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.working_set import choose_rows

__all__ = [
    "EQUAL",
    "MAX_PASSES",
    "DualRowSolver",
    "HostRows",
    "active_rows",
    "corner",
    "corner_weights",
    "first_rows",
    "gap_of",
    "is_between",
    "nearest",
    "open_rows",
    "plain_iteration",
    "weights_between",
    "wide_product",
    "working_rows",
]

Array = NDArray[Any]
State = TypeVar("State", bound=Any)
EQUAL = 4e-16  # relative distance at which two gammas are the same number
MAX_PASSES = 200  # bisection alone needs fewer than 64; NaN would never end
_INSIDE = 1e-12  # a weight this far (relative to C) from 0 and from C lies between them


def corner(multiclass: str, scores: Array, y: Array, C: Array) -> Array:
    """Return the corner of every row that minimises <s_i, scores_i - e_y>; shape (n, k)."""
    h = margins(scores, y)
    rows = np.arange(len(y))
    if multiclass == "crammer_singer":
        best = h.argmax(axis=1)  # h_iy = 0 stands for the corner 0
        corners = np.zeros_like(h)
        corners[rows, y] = C
        corners[rows, best] -= C
        return corners
    corners = np.where(h > 0.0, -C[:, None], 0.0)
    corners[rows, y] = -corners.sum(axis=1)
    return corners


def nearest(multiclass: str, u: Array, y: Array, C: Array) -> Array:
    """Return the feasible row nearest to every row of u, in the Euclidean norm; shape (n, k)."""
    rows = np.arange(len(y))
    alpha = (_nearest_crammer_singer if multiclass == "crammer_singer" else _nearest_weston_watkins)(u, y, C)
    alpha[rows, y] = 0.0
    alpha[rows, y] = -alpha.sum(axis=1)  # rows sum to zero
    return alpha


def _nearest_crammer_singer(u: Array, y: Array, C: Array) -> Array:
    rows = np.arange(len(y))
    q = -u
    q[rows, y] += C
    # A common shift changes nothing; with it no sum is much larger than C, however far u is from the set.
    q -= q.max(axis=1, keepdims=True)
    ordered = -np.sort(-q, axis=1)
    excess = np.cumsum(ordered, axis=1) - C[:, None]
    counts = np.arange(1, q.shape[1] + 1)
    # The support is a prefix of the order; the largest q is always in it, also where C = 0.
    size = np.maximum((ordered * counts > excess).sum(axis=1), 1)
    shift = excess[rows, size - 1] / size
    return np.asarray(-np.maximum(q - shift[:, None], 0.0))


def _nearest_weston_watkins(u: Array, y: Array, C: Array) -> Array:
    own = u[np.arange(len(y)), y]
    v = own[:, None] - u  # v_y = 0 is never above gamma >= 0, so b_y = 0
    bound = C[:, None]
    gamma = np.maximum(own, 0.0)  # gamma is the label's new entry: near u_y where u is near the set
    low, high = np.full(len(v), -1.0), np.full(len(v), np.inf)
    for _ in range(MAX_PASSES):
        check_time()
        over = v - gamma[:, None]
        is_inside = (over > 0.0) & (over < bound)
        sums = np.where(over >= bound, bound, np.where(is_inside, v, 0.0)).sum(axis=1)
        new = sums / (1.0 + is_inside.sum(axis=1))
        is_found = np.abs(gamma - new) <= EQUAL * np.maximum(gamma, new)
        high = np.where(gamma > new, gamma, high)
        low = np.where(gamma < new, gamma, low)
        # Newton alone may cycle: the slope changes on both sides of the root.
        outside = ~is_found & ((new <= low) | (new >= high))
        new[outside] = 0.5 * (low + high)[outside]
        is_same = new == gamma
        gamma = new
        if (is_found | is_same).all():
            break
    return np.asarray(-np.clip(v - gamma[:, None], 0.0, bound))


def gap_of(multiclass: str, alpha: Array, scores: Array, y: Array, C: Array) -> float:
    """Return the Frank-Wolfe gap of some rows, which is their part of the duality gap."""
    # maths: kernel SVM, section 2.
    away = alpha - corner(multiclass, scores, y, C)
    return float(np.vdot(away, scores) - away[np.arange(len(y)), y].sum())


def wide_product(K: Array, change: Array) -> Array:
    """Return K change, (m, k) or (m,), in float64: K, whose values may be float32, is widened block by block."""
    columns = change.reshape(len(change), -1)
    check_time(K.size * float(columns.shape[1]))
    return product(K, columns).reshape(-1, *change.shape[1:])


class HostRows(NamedTuple):
    """The rows of a working set; ``_device_rows.DeviceRows`` are the same on a device."""

    multiclass: str
    K: Array  # (m, m)
    y: Array  # (m,)
    C: Array  # (m,)
    n_classes: int

    @property
    def labels(self) -> Array:
        """1 at every row's label, else 0; (m, k)."""
        return np.asarray((self.y[:, None] == np.arange(self.n_classes)).astype(np.float64))

    def here(self, values: Array) -> Array:
        """Return values where the square of K is."""
        return values

    def back(self, rows: Array) -> Array:
        """Return rows as a NumPy array."""
        return rows

    def inverse(self, rho: float) -> Array | None:
        """Return (K + rho I)^-1, or None where rounding or an indefinite kernel leaves no factor."""
        check_time(len(self.K) ** 3.0)
        shifted = self.K.astype(np.float64, order="F")
        shifted.flat[:: len(shifted) + 1] += rho
        with wide_blas(len(shifted) ** 3.0):
            root, failed = dpotrf(shifted, lower=True, overwrite_a=True, clean=True)
            if failed:
                return None
            inverse, failed = dpotri(root, lower=True, overwrite_c=True)
        inverse += np.tril(inverse, -1).T
        return None if failed else inverse

    def product(self, change: Array) -> Array:
        """Return K change, (m, k), in float64."""
        return wide_product(self.K, change)

    def moves(self, M: Array, pull: Array) -> Array:
        """Return M pull, (m, k), given the transpose of pull."""
        return product(M, pull.T)

    def iteration(self, M: Array, first: Array, G: Array, rho: float, relaxation: float) -> Any:
        """Return one iteration of splitting as a function."""
        return plain_iteration(self, M, first, G, rho, relaxation)

    def inner(self, a: Array, b: Array) -> float:
        """Return <a, b>."""
        return float(np.vdot(a, b))

    def gap(self, alpha: Array, scores: Array) -> float:
        """Return the Frank-Wolfe gap of these rows."""
        return gap_of(self.multiclass, alpha, scores, self.y, self.C)

    def nearest(self, u: Array) -> Array:
        """Return the feasible row nearest to every row of u; (m, k)."""
        return nearest(self.multiclass, u, self.y, self.C)


def plain_iteration(part: Any, M: Any, first: Any, G: Any, rho: float, relaxation: float) -> Any:
    """Return one iteration of splitting, by whole arrays: a function of Z, U and the transpose of pull.

    pull = rho (Z - U - A_0) - G_0 begins at zero.
    """

    def iterate(Z: Any, U: Any, pull: Any) -> tuple[Any, Any, Any]:
        T = relaxation * (first + part.moves(M, pull)) + (1.0 - relaxation) * Z + U
        Z = part.nearest(T)
        return Z, T - Z, (rho * (2.0 * Z - T - first) - G).T

    return iterate


def working_rows(problem: KernelBlockProblem, rows: Array) -> Any:
    """Return a working set with its square of K, where that lies."""
    gram = problem.gram
    own = (problem.multiclass, gram.square(rows), problem.y[rows], problem.C[rows], problem.n_classes)
    if not gram.is_on_device:
        return HostRows(*own)
    from softmargin.solvers.kernel_svm._device_rows import DeviceRows

    return DeviceRows(*own, partial(gram.inverse, rows))


def is_between(multiclass: str, alpha: Array, y: Array, C: Array) -> Array:
    """Say of every row whether it lies between corners: some weight is neither 0 nor C; shape (n,)."""
    return np.asarray(weights_between(multiclass, alpha, y, C).any(axis=1))


def active_rows(
    problem: KernelBlockProblem,
    state: Any,
    gaps: Array,
    *,
    share: float,
    sort_others: bool = True,
    in_play: int | None = None,
) -> Array:
    """Return a working set, sorted: rows between corners and those with a gap above this share of the mean.

    Of the samples in ``state.order`` the first ``in_play`` are chosen from, or all.
    """
    most, order = min(state.largest_set, problem.gram.largest_square), state.order[:in_play]
    is_free = is_between(problem.multiclass, state.alpha[order], problem.y[order], problem.C[order])
    return choose_rows(order, is_free, gaps, most, share=share, sort_others=sort_others)


def corner_weights(multiclass: str, alpha: Array, y: Array, C: Array) -> Array:
    """Return the weights of the corners of every row, times C; (n, k).

    The label's place has that of the corner 0 of a Crammer-Singer row, which the others leave; else it is 0.
    """
    rows = np.arange(len(y))
    weights = -alpha
    weights[rows, y] = C - alpha[rows, y] if multiclass == "crammer_singer" else 0.0
    return weights


def weights_between(multiclass: str, alpha: Array, y: Array, C: Array) -> Array:
    """Say which weights of corners are neither 0 nor C; (n, k)."""
    weights, bound = corner_weights(multiclass, alpha, y, C), C[:, None]
    return np.asarray((weights > _INSIDE * bound) & (weights < (1.0 - _INSIDE) * bound))


def first_rows(problem: KernelBlockProblem, init: Any) -> Array:
    """Return a feasible alpha to start from; samples with K_ii = 0 get their optimum (maths: linear SVM, section 3)."""
    n, k = len(problem.y), problem.n_classes
    alpha = np.zeros((n, k)) if init is None else problem.feasible(init.alpha)
    empty = problem.gram.diagonal < NOTHING
    alpha[empty] = problem.loss.at_zero_scores(problem.y[empty], problem.C[empty], k)
    return alpha


def open_rows(problem: KernelBlockProblem) -> Array:
    """Return the samples whose rows can move: K_ii > 0 and C_i > 0."""
    return np.flatnonzero((problem.gram.diagonal >= NOTHING) & (problem.C > 0.0))


class DualRowSolver(Resumable, Generic[State]):
    """What solvers share whose state holds alpha (n, k) and its scores."""

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)
    runs_on_device: ClassVar[bool] = False

    def point(self, problem: KernelBlockProblem, state: State) -> Any:
        """Return the dual rows."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: KernelBlockProblem, state: State) -> float:
        """Return the relative gap by the updated scores."""
        return problem.relative_gap(state.alpha, state.scores)
