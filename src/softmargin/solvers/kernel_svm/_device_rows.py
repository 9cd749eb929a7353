"""The rows of a working set on a device: what ``_dual_rows`` does in NumPy, by the array API standard.

Labels are a mask (m, k), as arrays of some libraries can be neither indexed by lists nor written to. The
formulas are those of ``_dual_rows``.
Dual rows and scores are float64. Products with K and its inverse have the precision of K: they multiply changes within
a round, and their errors shrink as these do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import home_of, to_numpy
from softmargin.backends.shifted_inverse import ShiftedInverse
from softmargin.core.deadline import check_time
from softmargin.losses.on_device import row_gaps
from softmargin.solvers.kernel_svm._dual_rows import EQUAL, MAX_PASSES, plain_iteration

__all__ = ["DeviceRows"]

Array = NDArray[Any]


class DeviceRows:
    """The rows of a working set.

    Parameters
    ----------
    multiclass : {"weston_watkins", "crammer_singer"}
    K : array of shape (m, m), on the device
    y, C : NumPy arrays of shape (m,)
    n_classes : int
    inverse : function of rho, optional
        Returns products with (K + rho I)^-1, where they may be known already.
    """

    def __init__(
        self,
        multiclass: str,
        K: Any,
        y: Array,
        C: Array,
        n_classes: int,
        inverse: Callable[[float], ShiftedInverse] | None = None,
    ) -> None:
        self.home, self.K, self.y = home_of(K), K, y
        self._inverse = inverse
        self.multiclass, self.is_joint_max = multiclass, multiclass == "crammer_singer"
        self.labels = self.home.array((y[:, None] == np.arange(n_classes)).astype(np.float64))
        self.C = self.home.array(C[:, None])

    def here(self, values: Array) -> Any:
        """Return NumPy values on the device."""
        return self.home.array(values)

    def back(self, rows: Any) -> Array:
        """Return rows as a NumPy array."""
        return np.asarray(to_numpy(rows))

    def inverse(self, rho: float) -> ShiftedInverse:
        """Return products with (K + rho I)^-1 in the precision of K."""
        check_time()
        return ShiftedInverse(self.K, rho, self.home) if self._inverse is None else self._inverse(rho)

    def product(self, change: Any) -> Any:
        """Return K change, (m, k), computed in the precision of K."""
        xp = self.home.xp
        return self.home.wide(xp.matmul(self.K, xp.astype(change, self.K.dtype, copy=False)))

    def moves(self, M: ShiftedInverse, pull: Any) -> Any:
        """Return M pull, (m, k), given the transpose of pull."""
        return self.home.wide(M.applied(pull)).T

    def iteration(self, M: ShiftedInverse, first: Any, G: Any, rho: float, relaxation: float) -> Any:
        """Return one iteration of splitting as a function, fused where PyTorch and Triton are there."""
        k, fused = int(first.shape[1]), self.home.fused
        if fused is None or k > fused.WIDEST:
            return plain_iteration(self, M, first, G, rho, relaxation)
        y = self.home.array(self.y.astype(np.int32))
        return fused.fused_iteration(self.is_joint_max, y, self.C, M.applied, first, G, rho=rho, relaxation=relaxation)

    def inner(self, a: Any, b: Any) -> float:
        """Return <a, b>."""
        return float(self.home.xp.sum(a * b))

    def gap(self, alpha: Any, scores: Any) -> float:
        """Return the Frank-Wolfe gap of these rows."""
        xp = self.home.xp
        return float(xp.sum(row_gaps(xp, self.multiclass, alpha, scores, self.labels, self.C)))

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
