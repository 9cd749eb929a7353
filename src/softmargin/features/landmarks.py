"""Features of a kernel by landmarks (Nystroem): z(x) = M' k(L, x), so that z(x)'z(y) approximates k(x, y).

    K_LL = V diag(s) V' ,   M = V diag(s)^(-1/2) over the s that are not tiny:   z(L) z(L)' = K_LL exactly

A linear model w on z is an expansion over the landmarks: <w, z(x)> = sum_j (M w)_j k(l_j, x). Features are computed a
block of rows at a time, in float32: exact enough for a model that is approximate anyway, in half the memory.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.kernels import Points
from softmargin.kernels.points import slices, tile_shape

__all__ = ["Landmarks", "choose_landmarks"]

Array = NDArray[Any]
TINY = 1e-7  # eigenvalues below this share of the largest are rounding errors of float32


class Landmarks(NamedTuple):
    """A kernel with landmarks and the map from kernel values to features."""

    kernel: Any
    vectors: Any  # (m, d) array or CSR matrix
    map: Array  # (m, r)
    rows: Array  # (m,) positions of the landmarks in X
    bias: float  # value of a constant feature of the kernel

    def transform(self, X: Any) -> Array:
        """Return the features of the rows of X; (n, r), float32."""
        points = Points(self.vectors)
        features = np.empty((X.shape[0], self.map.shape[1]), dtype=np.float32)
        narrow = self.map.astype(np.float32)
        height, _ = tile_shape(points.numbers_per_row)
        for rows in slices(X.shape[0], height):
            tile = self.kernel.block(Points(X[rows].astype(self.vectors.dtype, copy=False)), points)
            tile = tile.astype(np.float32, copy=False)
            tile += np.float32(self.bias**2)
            np.matmul(tile, narrow, out=features[rows])
        return features

    def expanded(self, weights: Array) -> Array:
        """Return the coefficients of the landmarks for weights of the features; (m, k)."""
        return self.map @ weights


def choose_landmarks(
    kernel: Any, X: Any, size: int, rng: np.random.Generator, weights: Array | None = None, *, bias: float = 0.0
) -> Landmarks:
    """Draw landmarks from the rows of X, with probabilities by their weights, and compute the map.

    Parameters
    ----------
    kernel : kernel object
    X : array or CSR matrix of shape (n, d)
    size : int
        Number of landmarks; all rows where there are no more.
    rng : Generator
    weights : array of shape (n,), optional
    bias : float, default=0.0
        Value of a constant feature beside those of the kernel.
    """
    if size < 1:
        raise DataError(f"n_components must be at least 1; found {size}.")
    n = X.shape[0]
    probabilities = None if weights is None else weights / weights.sum()
    most = n if probabilities is None else int(np.count_nonzero(probabilities))  # tiny weights round to no chance
    index = np.sort(rng.choice(n, min(size, most), replace=False, p=probabilities))
    vectors = X[index]
    values, V = np.linalg.eigh(kernel.block(Points(vectors), Points(vectors)).astype(np.float64) + bias**2)
    kept = values > TINY * max(float(values[-1]), 0.0)
    if not kept.any():
        raise DataError("the kernel is zero on all landmarks; use another kernel, or other settings.")
    return Landmarks(kernel, vectors, V[:, kept] / np.sqrt(values[kept]), index, float(bias))
