"""The rows of a working set on a device: what ``_dual_rows`` does in NumPy, by the array API standard.

Labels are a mask (m, k), as arrays of some libraries can be neither indexed by lists nor written to. The
formulas are those of ``_dual_rows``; the gap of a row is <alpha, s> - alpha_y + C l(s) (maths: linear SVM, eq. 9).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import home_of, to_numpy
from softmargin.core.deadline import check_time
from softmargin.matrices.operator import row_slices
from softmargin.solvers.kernel_svm._dual_rows import EQUAL, MAX_PASSES

__all__ = ["DeviceRows"]

Array = NDArray[Any]
_NUMBERS = 1 << 26  # kernel values converted to float64 at once


class DeviceRows:
    """The rows of a working set.

    Parameters
    ----------
    multiclass : {"weston_watkins", "crammer_singer"}
    K : array of shape (m, m), on the device
    y, C : NumPy arrays of shape (m,)
    n_classes : int
    """

    def __init__(self, multiclass: str, K: Any, y: Array, C: Array, n_classes: int) -> None:
        self.home, self.K = home_of(K), K
        self.is_joint_max = multiclass == "crammer_singer"
        self.labels = self.home.array((y[:, None] == np.arange(n_classes)).astype(np.float64))
        self.C = self.home.array(C[:, None])

    def here(self, values: Array) -> Any:
        """Return NumPy values on the device."""
        return self.home.array(values)

    def back(self, rows: Any) -> Array:
        """Return rows as a NumPy array."""
        return np.asarray(to_numpy(rows))

    def inverse(self, rho: float) -> Any:
        """Return (K + rho I)^-1 in float64."""
        check_time()
        return self.home.shifted_inverse(self.K, rho)

    def product(self, change: Any) -> Any:
        """Return K change, (m, k), in float64: K is widened a slice at a time."""
        home, m = self.home, self.K.shape[0]
        parts = [home.xp.matmul(home.wide(self.K[at, :]), change) for at in row_slices(m, m, numbers=_NUMBERS)]
        return home.xp.concat(parts, axis=0)

    def inner(self, a: Any, b: Any) -> float:
        """Return <a, b>."""
        return float(self.home.xp.sum(a * b))

    def gap(self, alpha: Any, scores: Any) -> float:
        """Return the Frank-Wolfe gap of these rows."""
        xp, labels = self.home.xp, self.labels
        own = xp.sum(scores * labels, axis=1, keepdims=True)
        h = scores - own + 1.0 - labels
        if self.is_joint_max:
            losses = xp.max(h, axis=1, keepdims=True)
        else:
            losses = xp.sum(xp.maximum(h, xp.zeros_like(h)), axis=1, keepdims=True)
        return float(xp.sum(alpha * (scores - labels)) + xp.sum(self.C * losses))

    def nearest(self, u: Any) -> Any:
        """Return the feasible row nearest to every row of u, in the Euclidean norm; shape (m, k)."""
        alpha = self._nearest_crammer_singer(u) if self.is_joint_max else self._nearest_weston_watkins(u)
        alpha = alpha * (1.0 - self.labels)
        return alpha - self.labels * self.home.xp.sum(alpha, axis=1, keepdims=True)  # rows sum to zero

    def _nearest_crammer_singer(self, u: Any) -> Any:
        xp, home = self.home.xp, self.home
        q = self.C * self.labels - u
        q = q - xp.max(q, axis=1, keepdims=True)
        ordered = xp.sort(q, axis=1, descending=True)
        excess = xp.cumulative_sum(ordered, axis=1) - self.C
        counts = xp.arange(1, q.shape[1] + 1, dtype=xp.float64, device=home.device)[None, :]
        size = xp.sum(xp.astype(ordered * counts > excess, xp.float64), axis=1, keepdims=True)
        size = xp.maximum(size, home.full(size.shape, 1.0))
        shift = xp.sum(xp.where(counts == size, excess, xp.zeros_like(excess)), axis=1, keepdims=True) / size
        return -xp.maximum(q - shift, xp.zeros_like(q))

    def _nearest_weston_watkins(self, u: Any) -> Any:
        xp, home, bound = self.home.xp, self.home, self.C
        own = xp.sum(u * self.labels, axis=1, keepdims=True)
        v = (own - u) * (1.0 - self.labels)
        zero = xp.zeros_like(v)
        gamma = xp.maximum(own, xp.zeros_like(own))
        low, high = home.full(own.shape, -1.0), home.full(own.shape, float("inf"))
        for _ in range(MAX_PASSES):
            check_time()
            over = v - gamma
            is_inside = (over > 0.0) & (over < bound)
            sums = xp.sum(xp.where(over >= bound, bound + zero, xp.where(is_inside, v, zero)), axis=1, keepdims=True)
            new = sums / (1.0 + xp.sum(xp.astype(is_inside, xp.float64), axis=1, keepdims=True))
            is_found = xp.abs(gamma - new) <= EQUAL * xp.maximum(gamma, new)
            high, low = xp.where(gamma > new, gamma, high), xp.where(gamma < new, gamma, low)
            # Newton alone may cycle: the slope changes on both sides of the root.
            outside = ~is_found & ((new <= low) | (new >= high))
            new = xp.where(outside, 0.5 * (low + high), new)
            is_same = new == gamma
            gamma = new
            if bool(xp.all(is_found | is_same)):
                break
        return -xp.minimum(xp.maximum(v - gamma, zero), bound + zero)
