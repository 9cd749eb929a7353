"""Newton steps on the free entries of dual rows: the minimum on a face, with its bounds.

    minimise over s:   1/2 <s, K s> + <G, s>,   s = 0 at entries on their bounds, rows of s sum to zero            (1)

with a damping of its length, which is zero in the end: where samples are alike the minimum of (1) is far away, out of
the bounds of most entries.

    a Cholesky factor of (1) in the entries b_ij, s_i = sum_j b_ij (e_p - e_j), p one free class of row i:
    K_ii' <e_p - e_j, e_p' - e_j'> + damping / C_i. Entries that would leave their bounds are held there, and let go
    where their multipliers say so, all at once, until none changes sides: block pivoting, with the one factor

The result is feasible, and the best point between the old one and it, which a quadratic has in closed form, never
lowers the dual value: a face that is not the right one costs time alone.

Array operations, but for one compiled loop.                                           maths: kernel SVM, section 10
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm, dtrsv  # as solve_triangular, without its layers
from scipy.linalg.lapack import dposv, dpotrf, dpotrs

from softmargin.backends.jit import jit
from softmargin.core.deadline import check_time, has_time_for
from softmargin.core.threads import wide_blas
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


class _FreeEntries(NamedTuple):
    """The free entries of s: first those of b, row by row, then the p of every row that has some; s = S b."""

    rows: Array  # (n_b + rows that have some,)
    classes: Array
    owner: Array  # (n_b,) which of the p belongs to an entry of b

    @classmethod
    def of(cls, is_free: Array, y: Array) -> "_FreeEntries":
        """Take the label's entry for p where it is free, else the first one."""
        own = np.flatnonzero(is_free.any(axis=1))
        p = np.where(is_free[own, y[own]], y[own], is_free[own].argmax(axis=1))
        others = is_free[own]
        others[np.arange(len(own)), p] = False
        owner, j = np.nonzero(others)
        return cls(np.concatenate([own[owner], own]), np.concatenate([j, p]), owner)

    def steps(self, b: Array) -> Array:
        """Return S b."""
        return np.concatenate([-b, np.bincount(self.owner, b, len(self.rows) - len(b))])

    def slopes(self, v: Array) -> Array:
        """Return S' v."""
        n = len(self.owner)
        return v[n:][self.owner] - v[:n]

    def columns(self, held: Array) -> Array:
        """Return the rows ``held`` of S as columns, in the order of LAPACK."""
        n = len(self.owner)
        out = np.zeros((n, len(held)), order="F")
        is_own = held >= n
        at = np.flatnonzero(~is_own)
        out[held[at], at] = -1.0
        out[:, is_own] = self.owner[:, None] == held[is_own] - n
        return out


@jit
def _fill_half(K: Array, i: Array, p: Array, j: Array, H: Array) -> None:
    """Set H_ab = K_ii' <e_p - e_j, e_p' - e_j'> for a <= b, the entries with and without a prime."""
    for a in range(H.shape[0]):
        row, own, other = K[i[a]], p[a], j[a]
        for b in range(a, H.shape[0]):
            both = (own == p[b]) + (other == j[b]) - (own == j[b]) - (other == p[b])
            H[a, b] = both * row[i[b]]


def _by_factor(
    part: FaceRows, alpha: Array, is_free: Array, slopes: Array, damping: float, tuning: FaceTuning
) -> tuple[Array, float]:
    """Return the minimiser of (1) within the bounds, (m, k), by a Cholesky factor, and the next damping.

    It is zero where there is no factor, or too many entries would be held.
    """
    entries = _FreeEntries.of(is_free, part.y)
    n = len(entries.owner)
    i, damped = entries.rows[:n], np.minimum(1.0 / part.C, tuning.damped * part.diagonal)
    H = np.empty((n, n))
    _fill_half(part.K, i, entries.classes[n:][entries.owner], entries.classes[:n], H)
    H.reshape(-1)[:: n + 1] += tuning.ridge * part.diagonal[i] + damping * damped[i]
    with wide_blas(n**3.0 / 3.0):
        L, failed = dpotrf(H.T, lower=True, overwrite_a=True, clean=False)  # of the transpose: the order of LAPACK
    s, at = np.zeros_like(slopes), (entries.rows, entries.classes)
    room = _room(part, alpha, entries)
    found = None if failed else _within_bounds(L, entries, entries.slopes(slopes[at]), room, tuning)
    if found is None:  # kernel values are rounded, or the kernel is indefinite: no step
        return s, damping * tuning.rise
    s[at], held = found
    return s, damping * (tuning.rise if held > tuning.leave else max(held, tuning.fall))


def _room(part: FaceRows, alpha: Array, entries: _FreeEntries) -> tuple[Array, Array, Array]:
    """Return how far every free entry may fall and rise, and its C."""
    now, bound = alpha[entries.rows, entries.classes], part.C[entries.rows]
    low, high = -bound - now, -now
    is_label = entries.classes == part.y[entries.rows]
    low[is_label] = -np.inf
    high[is_label] += bound[is_label] if part.multiclass == "crammer_singer" else np.inf
    return low, high, bound


def _within_bounds(
    L: Array, entries: _FreeEntries, slopes: Array, room: tuple[Array, Array, Array], tuning: FaceTuning
) -> tuple[Array, float] | None:
    """Return s = S b for the b that minimises 1/2 |L'b|^2 - <slopes, b> within the room of s; and a share.

    Entries that are held at a bound have multipliers u:  b = (L L')^-1 (slopes + S_held' u), with V = L^-1 S_held'
    s_held = free_held + V'V u. Wrong are entries that are out of bounds, and held ones whose u pulls them outwards. The
    share is that of held entries; where it is too large, s is zero. None where V'V has no factor.
    """
    low, high, slack = room[0], room[1], tuning.slack * room[2]
    free = entries.steps(dpotrs(L, slopes, lower=True)[0])
    s: Array = free
    held, at, multipliers = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    V, G = np.empty((0, len(L))), np.empty((0, 0))  # V by columns, one after the other
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
        V, new = V[stays], dtrsm(1.0, L, entries.columns(out), lower=True, overwrite_b=True)
        G = _bordered(G[np.ix_(stays, stays)], V @ new, new.T @ new)
        V = np.concatenate([V, new.T])
        shifted = G.copy(order="F")
        shifted.reshape(-1, order="F")[:: len(G) + 1] *= 1.0 + tuning.ridge
        _, multipliers, failed = dposv(shifted, at - free[held], lower=True, overwrite_a=True)
        if failed:
            return None
        s = free + entries.steps(dtrsv(L, multipliers @ V, lower=True, trans=True, overwrite_x=True))
    return s, len(held) / len(L)


def _bordered(G: Array, across: Array, corner: Array) -> Array:
    """Return the symmetric matrix of these blocks."""
    m = len(G)
    out = np.empty((m + len(corner), m + len(corner)))
    out[:m, :m], out[:m, m:], out[m:, :m], out[m:, m:] = G, across, across.T, corner
    return out
