"""Products with (K + shift I)^-1 on a device, for matrices too large to be inverted.

S = K + shift I is L D L' by blocks of b columns; L has unit blocks on its diagonal, and below block j

    D_j = S_jj - sum_{i < j} L_ji D_i L_ji'                         its inverse is kept
    L_j = (S_j - sum_{i < j} L_i D_i L_ji') D_j^-1                  rows below block j

V S^-1, for the few rows of V, by blocks of its columns:

    V_below -= V_j L_j'                j = first, ..., last
    V_j := V_j D_j^-1 - V_below L_j    j = last, ..., first

The factor takes m^3 / 3 multiplications and additions, a quarter of those of the inverse by halves, and half of its
memory. A product reads as many numbers. Every D_j is positive definite where S is, and no worse conditioned.
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
        self.home, self.dtype = home, K.dtype
        self._factor: list[tuple[Any, Any]] = []  # L_j, below its block, and the inverse of D_j
        diagonal: list[Any] = []
        for first in range(0, m, BLOCK):
            check_time()
            size = min(BLOCK, m - first)
            column = K[first:, first : first + size]
            for (L, _), (start, D) in zip(self._factor, diagonal, strict=True):
                below = L[first - start - BLOCK :, :]
                column = column - xp.matmul(below, xp.matmul(D, xp.matrix_transpose(below[:size, :])))
            D = column[:size, :] + shift * xp.eye(size, dtype=K.dtype, device=home.device)
            inverse = home.inverse(D)
            self._factor.append((xp.matmul(column[size:, :], inverse), inverse))
            diagonal.append((first, D))

    def applied(self, V: Any) -> Any:
        """Return V (K + shift I)^-1 for a few rows, (k, m), in the precision of K."""
        xp = self.home.xp
        heads, rest = [], xp.astype(V, self.dtype, copy=False)
        for L, inverse in self._factor[:-1]:
            size = inverse.shape[0]
            head, rest = rest[:, :size], rest[:, size:]
            heads.append(head)
            rest = rest - xp.matmul(head, xp.matrix_transpose(L))
        rest = xp.matmul(rest, self._factor[-1][1])
        for head, (L, inverse) in zip(heads[::-1], self._factor[-2::-1], strict=True):
            rest = xp.concat([xp.matmul(head, inverse) - xp.matmul(rest, L), rest], axis=1)
        return rest
