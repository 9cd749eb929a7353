"""Newton steps on the free entries of dual rows: the minimum on a face, with its bounds.

    minimise over s:   1/2 <s, K s> + <G, s>,   s = 0 at entries on their bounds, rows of s sum to zero            (1)

with a damping of its length, which is zero in the end: where samples are alike the minimum of (1) is far away, out of
the bounds of most entries.

    a Cholesky factor of (1) in the entries b_ij, s_i = sum_j b_ij (e_p - e_j), p one free class of row i:
    K_ii' <e_p - e_j, e_p' - e_j'> + damping / C_i. Entries that would leave their bounds are held there, and let go
    where their multipliers say so, all at once, until none changes sides: block pivoting, with the one factor

The result is feasible, and the best point between the old one and it, which a quadratic has in closed form, never
lowers the dual value: a face that is not the right one costs time alone.

Array operations only, no loop over samples.                                          maths: kernel SVM, section 10
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.sparse import csr_matrix

from softmargin.core.deadline import check_time, has_time_for
from softmargin.core.threads import wide_blas
from softmargin.matrices.operator import row_slices
from softmargin.solvers.kernel_svm._dual_rows import nearest, weights_between, wide_product

__all__ = ["FaceRows", "FaceTuning", "face_step", "face_work", "free_classes"]

Array = NDArray[Any]


class FaceTuning(NamedTuple):
    """The constants of Newton steps."""

    exchanges: int = 50  # of entries between their bounds and the face, at most: by hand; most faces need 4 to 15
    tries: int = 3  # exchanges that leave no fewer wrong entries, before single ones: Kim and Park (2011)
    leave: float = 1 / 3  # share of the entries that may be held: they take twice the multiplications of the factor
    slack: float = 1e-9  # of C: entries are held where they leave their bounds by more; by hand
    ridge: float = 1e-8  # relative to K_ii, on the change: repeated samples make (1) singular; by hand
    damping: float = 1.0  # first one: how far a way from bound to bound may change its own margin; by hand
    rise: float = 10.0  # of the damping, after a step that is given up: by hand
    damped: float = 1e-3  # share of K_ii that a damping of 1 adds at most: small C need none; by hand
    beside: float = 5e7  # multiplications of BLAS in the time a step takes beside its factor: 2 to 9 ms on one x86 core
    fall: float = 1e-4  # of the damping, at most; after a step it is multiplied by the share of held entries: by hand


class FaceStep(NamedTuple):
    """What a step found."""

    alpha: Array  # (m, k)
    scores: Array  # (m, k)
    work: float = 0.0  # multiplications
    damping: float = 0.0  # for the next one


class FaceRows(NamedTuple):
    """Rows of a working set that can move, with their square of K."""

    multiclass: str
    K: Array  # (m, m)
    y: Array  # (m,)
    C: Array  # (m,)
    diagonal: Array  # (m,)

    def times(self, change: Array) -> Array:
        """Return K change, (m, k), in float64."""
        return wide_product(self.K, change)


def free_classes(multiclass: str, alpha: Array, y: Array, C: Array) -> Array:
    """Say which entries of every row can move on its face, the label's included; (m, k). Others are on bounds."""
    rows = np.arange(len(y))
    is_free = weights_between(multiclass, alpha, y, C)
    if multiclass == "weston_watkins":
        is_free[rows, y] = is_free.any(axis=1)
    # One entry alone cannot move: rows sum to zero.
    is_free[is_free.sum(axis=1) < 2] = False
    return is_free


def face_work(is_free: Array, most: int, beside: float) -> float:
    """Return how many multiplications a step takes; infinitely many where its factor would have more rows than most.

    is_free is (m, k): with b free entries beside one of every row that has some, the factor takes b^3 / 6.
    """
    n_free = int(is_free.sum() - is_free.any(axis=1).sum())
    return n_free**3 / 6.0 + beside if n_free <= most else np.inf


def face_step(part: FaceRows, alpha: Array, scores: Array, most: int, damping: float, tuning: FaceTuning) -> FaceStep:
    """Return better rows and their scores, (m, k), and the work it took; ``scores`` are those at alpha.

    Where there is no better point, or too many entries would leave their bounds, alpha itself is returned.
    """
    multiclass, _, y, C, _ = part
    is_free = free_classes(multiclass, alpha, y, C)
    work = face_work(is_free, most, tuning.beside)
    if not is_free.any() or work == np.inf or not has_time_for(work):
        return FaceStep(alpha, scores, damping=damping)
    slopes = -scores
    slopes[np.arange(len(y)), y] += 1.0
    wanted, damping = _by_factor(part, alpha, is_free, slopes, damping, tuning)
    change = nearest(multiclass, alpha + wanted, y, C) - alpha
    slope = float(np.vdot(change, slopes))
    if not slope > 0.0:
        return FaceStep(alpha, scores, work, damping)
    scores_change = part.times(change)
    curvature = float(np.vdot(change, scores_change))
    step = 1.0 if curvature <= slope else slope / curvature
    return FaceStep(nearest(multiclass, alpha + step * change, y, C), scores + step * scores_change, work, damping)


def _by_factor(
    part: FaceRows, alpha: Array, is_free: Array, slopes: Array, damping: float, tuning: FaceTuning
) -> tuple[Array, float]:
    """Return the minimiser of (1) within the bounds, (m, k), by a Cholesky factor, and the next damping.

    It is zero where there is no factor, or too many entries would be held.
    """
    m, k = is_free.shape
    pivot = np.where(is_free[np.arange(m), part.y], part.y, is_free.argmax(axis=1))
    others = is_free.copy()
    others[np.arange(m), pivot] = False
    i, j = np.nonzero(others)
    n = len(i)
    at = np.arange(n)
    # s = S b, the entries of s one after the other.
    ends = np.concatenate([i * k + pivot[i], i * k + j])
    S = csr_matrix((np.repeat([1.0, -1.0], n), (ends, np.tile(at, 2))), shape=(m * k, n))
    directions = np.zeros((n, k))
    directions[at, pivot[i]] = 1.0
    directions[at, j] = -1.0
    H = np.empty((n, n))
    for part_of in row_slices(n, n):
        np.matmul(directions[part_of], directions.T, out=H[part_of])
        H[part_of] *= part.K[np.ix_(i[part_of], i)]
    H[at, at] += tuning.ridge * part.diagonal[i] + damping * np.minimum(1.0 / part.C, tuning.damped * part.diagonal)[i]
    try:
        # H is symmetric: its transpose has the order of LAPACK.
        with wide_blas(n**3.0 / 3.0):
            L = cholesky(H.T, lower=True, overwrite_a=True, check_finite=False)
        room = _room(part, alpha, is_free, tuning.slack)
        s, held = _within_bounds(L, S, S.T @ slopes.reshape(-1), room, tuning)
        return s.reshape(m, k), damping * (tuning.rise if held > tuning.leave else max(held, tuning.fall))
    except LinAlgError:  # kernel values are rounded, or the kernel is indefinite: no step
        return np.zeros_like(slopes), damping * tuning.rise


def _room(part: FaceRows, alpha: Array, is_free: Array, slack: float) -> tuple[Array, Array, Array]:
    """Return how far every entry may fall and rise, and what is not worth an exchange; flat."""
    rows, bound = np.arange(len(part.y)), part.C[:, None]
    low, high = -bound - alpha, -alpha
    high[rows, part.y] += part.C if part.multiclass == "crammer_singer" else np.inf
    low[rows, part.y] = -np.inf
    low[~is_free], high[~is_free] = -np.inf, np.inf
    return low.reshape(-1), high.reshape(-1), np.repeat(slack * part.C, alpha.shape[1])


def _within_bounds(
    L: Array, S: Any, slopes: Array, room: tuple[Array, Array, Array], tuning: FaceTuning
) -> tuple[Array, float]:
    """Return s = S b, flat, for the b that minimises 1/2 |L'b|^2 - <slopes, b> within the room of s; and a share.

    Entries that are held at a bound have multipliers u:  b = (L L')^-1 (slopes + S_held' u), with V = L^-1 S_held'
    s_held = free_held + V'V u. Wrong are entries that are out of bounds, and held ones whose u pulls them outwards. The
    share is that of held entries; where it is too large, s is zero.
    """
    low, high, slack = room
    inner = partial(solve_triangular, L, lower=True, check_finite=False)
    free: Array = S @ inner(inner(slopes), trans=1)
    s: Array = free
    held, at, multipliers = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    V, G = np.empty((len(L), 0), order="F"), np.empty((0, 0))
    fewest, tries = np.inf, 0
    for _ in range(tuning.exchanges):
        check_time()
        is_out = (s < low - slack) | (s > high + slack)
        is_out[held] = False
        out = np.flatnonzero(is_out)
        stays = np.where(at == high[held], -multipliers, multipliers) > 0.0
        wrong = np.concatenate([out, held[~stays]])
        if len(wrong) == 0:
            break
        tries = tuning.tries if len(wrong) < fewest else tries - 1
        fewest = min(fewest, len(wrong))
        if tries < 0:  # one at a time does not cycle
            last = wrong.max()
            out, stays = out[out == last], held != last
        held = np.concatenate([held[stays], out])
        if len(held) == 0:
            return free, 0.0
        if len(held) > tuning.leave * len(L):
            return np.zeros_like(s), len(held) / len(L)
        at = np.concatenate([at[stays], np.where(s[out] > high[out], high[out], low[out])])
        V, new = V[:, stays], inner(S[out].T.toarray(order="F"))
        across = V.T @ new
        G = np.block([[G[np.ix_(stays, stays)], across], [across.T, new.T @ new]])
        V = np.concatenate([V, new], axis=1)
        shifted = G.copy()
        shifted[np.diag_indices_from(G)] *= 1.0 + tuning.ridge
        multipliers = cho_solve(cho_factor(shifted, check_finite=False), at - free[held], check_finite=False)
        s = free + S @ inner(V @ multipliers, trans=1)
    return s, len(held) / len(L)
