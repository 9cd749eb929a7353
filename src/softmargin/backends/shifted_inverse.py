"""Products with (K + shift I)^-1 on a device, for matrices too large to be inverted.

S = K + shift I is L D L' by blocks of b columns; L has unit blocks on its diagonal, and below block j

    D_j = S_jj - sum_{i < j} L_ji D_i L_ji'                         its inverse is kept
    L_j = (S_j - sum_{i < j} L_i D_i L_ji') D_j^-1                  rows below block j

V S^-1, for the few rows of V, by blocks of its columns:

    V_below := V_below - V_j L_j'                       j = first, ..., last
    V_j     := V_j D_j^-1 - V_below L_j                 j = last, ..., first

D_j^-1 and -L_j are one matrix, so that either line is one product. The factor takes m^3 / 3 multiplications and
additions, a quarter of those of the inverse by halves, and half of its memory. A product reads as many numbers. Every
D_j is positive definite where S is, and no worse conditioned.
"""

from typing import Any

from softmargin.backends.arrays import Home
from softmargin.core.deadline import check_time

__all__ = ["BLOCK", "ShiftedInverse"]

BLOCK = 4096  # columns of a block: its inverse is explicit; by hand


class ShiftedInverse:
    """(K + shift I)^-1 in the precision of K, where that matrix is symmetric and positive definite; else anything.

    Parameters
    ----------
    K : array of shape (m, m)
    shift : float
    home : Home
    """

    def __init__(self, K: Any, shift: float, home: Home) -> None:
        xp, m = home.xp, int(K.shape[0])
        self.home, self.dtype, self._fused = home, K.dtype, home.fused if K.dtype == xp.float32 else None
        self._factor: list[Any] = []  # of every block: the inverse of D_j, and -L_j below it
        diagonal: list[Any] = []
        for first in range(0, m, BLOCK):
            check_time()
            size = min(BLOCK, m - first)
            column = K[first:, first : first + size]
            for lower, (start, D) in zip(self._factor, diagonal, strict=True):
                below = lower[first - start :, :]
                column = column - xp.matmul(below, xp.matmul(D, xp.matrix_transpose(below[:size, :])))
            D = column[:size, :] + shift * xp.eye(size, dtype=K.dtype, device=home.device)
            inverse = home.inverse(D)
            self._factor.append(xp.concat([inverse, -xp.matmul(column[size:, :], inverse)], axis=0))
            diagonal.append((first, D))

    def applied(self, V: Any) -> Any:
        """Return V (K + shift I)^-1 for a few rows, (k, m), in the precision of K."""
        xp = self.home.xp
        rest = xp.astype(V, self.dtype, copy=False)
        if self._fused is not None and V.shape[0] <= self._fused.NARROW:
            return self._fused.times_inverse(rest, self._factor)
        heads = []
        for lower in self._factor[:-1]:
            size = lower.shape[1]
            heads.append(rest[:, :size])
            rest = rest[:, size:] + xp.matmul(rest[:, :size], xp.matrix_transpose(lower[size:, :]))
        rest = xp.matmul(rest, self._factor[-1])
        for head, lower in zip(heads[::-1], self._factor[-2::-1], strict=True):
            rest = xp.concat([xp.matmul(xp.concat([head, rest], axis=1), lower), rest], axis=1)
        return rest
