"""Synthetic data with known classes, for tests and benchmarks: clouds of points; images, distorted into more images."""

from __future__ import annotations

from typing import Any

import numpy as np

from softmargin.backends.arrays import home_of, is_foreign
from softmargin.core.errors import DataError

__all__ = ["blobs", "distorted"]

_PIXELS = 1 << 21  # of images that are distorted at once


def blobs(
    n: int,
    d: int,
    k: int,
    *,
    seed: int | np.random.Generator,
    sparse: bool = False,
    density: float = 0.1,
    separation: float = 1.0,
    dtype: Any = np.float64,
) -> tuple[Any, np.ndarray]:
    """Draw rows from k Gaussian classes: x_i = mean of class y_i + unit noise.

    Class means are themselves Gaussian with standard deviation `separation`. Classes are as equal in
    size as n allows, so all k appear when n >= k.

    Parameters
    ----------
    n, d, k : int
        Rows, columns, classes.
    seed : int or numpy.random.Generator
    sparse : bool
        Return CSR with the same number of entries, ``max(1, round(density * d))``, in every row.
    density : float
        Share of entries kept in a sparse row.
    separation : float
        0 makes the classes alike; 1 lets them overlap; large values separate them.
    dtype : numpy dtype

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix, shape (n, d)
    y : ndarray of int64, shape (n,)
        Labels 0 .. k - 1.
    """
    if min(n, d, k) < 1:
        raise DataError(f"blobs needs at least one row, column and class; asked for n={n}, d={d}, k={k}.")
    if sparse and not 0.0 < density <= 1.0:
        raise DataError(f"density must lie in (0, 1]; got {density}.")
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n, dtype=np.int64) % k)
    means = separation * rng.standard_normal((k, d))
    if not sparse:
        return (means[y] + rng.standard_normal((n, d))).astype(dtype), y

    from scipy.sparse import csr_matrix

    entries = max(1, round(density * d))
    # Sorted draws with repetition, spread apart by 0, 1, 2, ...: strictly increasing columns in one go.
    columns = np.sort(rng.integers(0, d - entries + 1, size=(n, entries)), axis=1) + np.arange(entries)
    values = means[y[:, np.newaxis], columns] + rng.standard_normal((n, entries))
    ends = np.arange(0, n * entries + 1, entries)
    index_type = np.int32 if max(d, n * entries) <= np.iinfo(np.int32).max else np.int64
    parts = (values.ravel().astype(dtype), columns.ravel().astype(index_type), ends.astype(index_type))
    return csr_matrix(parts, shape=(n, d)), y


def distorted(
    X: Any,
    y: np.ndarray,
    n: int,
    *,
    seed: int | np.random.Generator,
    rotation: float = 0.2,
    shear: float = 0.15,
    scale: float = 0.1,
    shift: float = 2.0,
) -> tuple[Any, np.ndarray]:
    """Return n rows of square images: those of X, then copies of them, each distorted by an affine map of its own.

    A copy is turned by an angle in +- rotation, sheared by +- shear, scaled by 1 +- scale in each direction and shifted
    by +- shift pixels, all drawn evenly, about the middle of the image; between pixels it is interpolated, beyond the
    border it is zero. Every image is copied as often as any other, give or take once. These are distortions that
    handwritten digits bear: 60,000 of them become a million rows.

    Parameters
    ----------
    X : array of shape (m, side * side)
        Images, one a row; NumPy's, or an array of another library, which is computed where it lies.
    y : array of shape (m,)
    n : int
        Rows to return, at least m.
    seed : int or numpy.random.Generator
    rotation, shear, scale, shift : float

    Returns
    -------
    X : array of shape (n, side * side), in the type of the given one
    y : array of shape (n,)
    """
    m, d = X.shape
    side = round(d**0.5)
    if side * side != d or m == 0 or n < m:
        raise DataError(f"distorted needs rows of square images and n >= {m}; found shape {(m, d)} and n={n}.")
    rng = np.random.default_rng(seed)
    copied = np.concatenate([np.arange(m), *(rng.permutation(m) for _ in range(-(-n // m) - 1))])[:n]
    draws = rng.uniform(-1.0, 1.0, (n, 6)) * [rotation, shear, scale, scale, shift, shift]
    parts = [X]
    for first in range(m, n, max(1, _PIXELS // d)):
        rows = slice(first, min(n, first + max(1, _PIXELS // d)))
        parts.append(_mapped(X, copied[rows], draws[rows], side))
    return home_of(X).xp.concat(parts, axis=0) if is_foreign(X) else np.concatenate(parts), y[copied]


def _mapped(X: Any, images: np.ndarray, draws: np.ndarray, side: int) -> Any:
    """Return some images, distorted: every pixel is read where its map takes it from."""
    home = home_of(X) if is_foreign(X) else None
    xp, put = (np, np.asarray) if home is None else (home.xp, home.array)
    angle, shear, wider, higher, down, right = (put(column)[:, None] for column in draws.T)
    middle = 0.5 * (side - 1)
    i, j = (put(at.reshape(1, -1) - middle) for at in np.indices((side, side)))
    i, j = (1.0 + higher) * i, (1.0 + wider) * j
    j = j + shear * i
    i, j = xp.cos(angle) * i - xp.sin(angle) * j, xp.sin(angle) * i + xp.cos(angle) * j
    i, j = i + (middle - down), j + (middle - right)
    pixels, total = xp.take(X, put(images), axis=0), 0.0 * i
    for below in (0.0, 1.0):
        for beside in (0.0, 1.0):
            row, column = xp.floor(i) + below, xp.floor(j) + beside
            is_inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
            weight = xp.where(is_inside, (1.0 - xp.abs(i - row)) * (1.0 - xp.abs(j - column)), 0.0 * i)
            at = xp.asarray(xp.where(is_inside, side * row + column, 0.0 * i), dtype=xp.int64)
            total = total + weight * xp.take_along_axis(pixels, at, axis=1)
    return xp.asarray(total, dtype=X.dtype)
