"""Newton steps on the free entries of dual rows: where block descent crawls, the face of the optimum is known.

    minimise over s:   1/2 <s, K s> + <G, s>,   s = 0 at entries on their bounds, rows of s sum to zero            (1)

The rows of alpha move to the minimum of (1); entries that would leave their bounds stop there, and (1) is solved once
more without them, until none does. The result is feasible, and the best point between the old one and it, which a
quadratic has in closed form, never lowers the dual value: a face that is not the right one costs time alone.

    few free entries       a Cholesky factor of (1) in the entries b_ij, s_i = sum_j b_ij (e_p - e_j), p one free class
                           of row i:  K_ii' <e_p - e_j, e_p' - e_j'> + ridge
    many                   conjugate gradients on (1), the rows scaled by K_ii: where nearly all entries are free, no
                           two samples are alike and K is well conditioned

Array operations only, no loop over samples.                                          maths: kernel SVM, section 10
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from softmargin.core.deadline import has_time_for, is_time_up
from softmargin.matrices.operator import row_slices
from softmargin.solvers.kernel_svm._dual_rows import corner_weights, nearest, weights_between, wide_product

__all__ = ["FaceRows", "FaceTuning", "face_step", "face_work", "free_classes"]

Array = NDArray[Any]


class FaceTuning(NamedTuple):
    """The constants of Newton steps."""

    solves: int = 6  # of (1) in one step, each without the entries that left their bounds before: by hand
    leave: float = 0.05  # share of the free entries beyond their bounds above which the face is not the one: by hand
    ridge: float = 1e-10  # relative to K_ii: repeated samples make (1) singular; by hand
    gradient_steps: int = 100  # conjugate gradients, at most: by hand
    gradient_target: float = 1e-3  # share of the first residual that they leave: by hand


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


def face_work(is_free: Array, most: int, tuning: FaceTuning) -> tuple[float, bool]:
    """Return about how many multiplications one solve of (1) takes, and whether by a factor, of at most ``most`` rows.

    is_free is (m, k): with b free entries beside one of every row that has some, a factor takes b^3 / 3
    multiplications, and conjugate gradients at most m^2 k for each step.
    """
    m, k = is_free.shape
    n_free = int(is_free.sum() - is_free.any(axis=1).sum())
    factor, gradients = n_free**3 / 3.0, tuning.gradient_steps * float(m) ** 2 * k
    is_factored = n_free <= most and factor <= gradients
    return (factor if is_factored else gradients), is_factored


def face_step(part: FaceRows, alpha: Array, scores: Array, most: int, tuning: FaceTuning) -> tuple[Array, float]:
    """Return better rows, (m, k), and the work it took; ``scores`` (m, k) are those at alpha.

    Where too many entries would leave their bounds, the rows stay as they are, and the work is infinite: the face is
    not known yet.
    """
    multiclass, _, y, C, _ = part
    rows = np.arange(len(y))
    at, at_scores, work = alpha, scores, 0.0
    for _ in range(tuning.solves):
        is_free = free_classes(multiclass, at, y, C)
        needed, is_factored = face_work(is_free, most, tuning)
        if not is_free.any() or not has_time_for(needed):
            break
        slopes = -at_scores
        slopes[rows, y] += 1.0
        solve = _by_factor if is_factored else _by_gradients
        wanted = at + solve(part, is_free, slopes, tuning)
        work += needed
        n_out = int((corner_weights(multiclass, wanted, y, C) < 0.0)[is_free].sum())
        if multiclass == "weston_watkins":
            n_out += int((wanted < -C[:, None])[is_free].sum())
        if n_out > tuning.leave * is_free.sum():
            return alpha, np.inf
        new = nearest(multiclass, wanted, y, C)
        at_scores = at_scores + part.times(new - at)
        at = new
        if n_out == 0 or is_time_up():
            break
    change = at - alpha
    slope = float(change[rows, y].sum() - np.vdot(change, scores))
    curvature = float(np.vdot(change, at_scores - scores))
    if not slope > 0.0:
        return alpha, work
    step = 1.0 if curvature <= slope else slope / curvature
    return (at if step == 1.0 else nearest(multiclass, alpha + step * change, y, C)), work


def _by_factor(part: FaceRows, is_free: Array, slopes: Array, tuning: FaceTuning) -> Array:
    """Return the minimiser of (1), (m, k), by a Cholesky factor."""
    pivot = np.where(is_free[np.arange(len(part.y)), part.y], part.y, is_free.argmax(axis=1))
    others = is_free.copy()
    others[np.arange(len(pivot)), pivot] = False
    i, j = np.nonzero(others)
    at = np.arange(len(i))
    directions = np.zeros((len(i), is_free.shape[1]))
    directions[at, pivot[i]] = 1.0
    directions[at, j] = -1.0
    H = np.empty((len(i), len(i)))
    for part_of in row_slices(len(i), len(i)):
        np.matmul(directions[part_of], directions.T, out=H[part_of])
        H[part_of] *= part.K[np.ix_(i[part_of], i)]
    H[at, at] += tuning.ridge * part.diagonal[i]
    try:
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:  # kernel values are rounded, or the kernel is indefinite: no step
        return np.zeros_like(slopes)
    b = cho_solve(factor, slopes[i, pivot[i]] - slopes[i, j], check_finite=False)
    s = np.zeros_like(slopes)
    s[i, j] = -b
    s[np.arange(len(pivot)), pivot] = np.bincount(i, b, minlength=len(pivot))
    return s


def _by_gradients(part: FaceRows, is_free: Array, slopes: Array, tuning: FaceTuning) -> Array:
    """Return about the minimiser of (1), (m, k), by conjugate gradients."""
    counts = np.maximum(is_free.sum(axis=1, keepdims=True), 1)
    scale = 1.0 / part.diagonal[:, None]

    def along(values: Array) -> Array:
        """Return the nearest directions on the face."""
        inside = np.where(is_free, values, 0.0)
        return np.where(is_free, inside - inside.sum(axis=1, keepdims=True) / counts, 0.0)

    s, residual = np.zeros_like(slopes), along(slopes)
    direction = z = scale * residual
    size = first = float(np.vdot(residual, z))
    for _ in range(tuning.gradient_steps):
        if not size > tuning.gradient_target**2 * first or is_time_up():
            break
        image = along(part.times(direction))
        curvature = float(np.vdot(direction, image))
        if not curvature > 0.0:
            break
        s += size / curvature * direction
        residual = residual - size / curvature * image
        z = scale * residual
        last, size = size, float(np.vdot(residual, z))
        direction = z + size / last * direction
    return s
