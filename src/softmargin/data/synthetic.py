"""Data for tests and benchmarks: clouds of points with known classes; images made upright, or distorted into more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softmargin.backends.arrays import home_of, is_foreign
from softmargin.core.errors import DataError

__all__ = ["blobs", "deskewed", "distorted"]

_PIXELS = 1 << 21  # of images that are read at once
_FAINT = 1e-12  # mass of an image, or height of its mass in pixels, that is none


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
    if m == 0 or n < m:
        raise DataError(f"distorted needs images and n >= {m}, their number; found n={n}.")
    side = _side(X)
    rng = np.random.default_rng(seed)
    copied = np.concatenate([np.arange(m), *(rng.permutation(m) for _ in range(-(-n // m) - 1))])[:n]
    draws = rng.uniform(-1.0, 1.0, (n, 6)) * [rotation, shear, scale, scale, shift, shift]
    xp, put = _tools(X)
    parts = [X]
    for rows in _parts(m, n, d):
        angle, slant, wider, higher, down, right = (put(column)[:, None] for column in draws[rows].T)
        i, j = _grid(put, side)
        i, j = (1.0 + higher) * i, (1.0 + wider) * j
        j = j + slant * i
        i, j = xp.cos(angle) * i - xp.sin(angle) * j, xp.sin(angle) * i + xp.cos(angle) * j
        parts.append(_read(xp, xp.take(X, put(copied[rows]), axis=0), i - down, j - right, side))
    return xp.concat(parts, axis=0), y[copied]


def deskewed(X: Any) -> Any:
    """Return square images upright and centred: each is moved to the middle of its mass, and sheared.

    Of the pixels, weighted by their values, the columns then do not drift with the rows: handwriting slants, and
    classifiers that compare pixels need not learn how much. What goes beyond the border is lost.

    Parameters
    ----------
    X : array of shape (n, side * side)
        Images of nonnegative pixels, one a row; NumPy's, or an array of another library, which is computed where it
        lies.

    Returns
    -------
    X : array of shape (n, side * side), in the type of the given one

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin.data import deskewed
    >>> deskewed(np.eye(3).reshape(1, 9)).reshape(3, 3)  # a diagonal stroke stands
    array([[0., 1., 0.],
           [0., 1., 0.],
           [0., 1., 0.]])
    """
    n, d = X.shape
    side, (xp, put) = _side(X), _tools(X)
    parts = [X[:0, :]]
    for rows in _parts(0, n, d):
        pixels, (i, j) = X[rows, :], _grid(put, side)
        mass = xp.asarray(pixels, dtype=xp.float64)
        mass = mass / xp.maximum(xp.sum(mass, axis=1, keepdims=True), put(np.full((1, 1), _FAINT)))
        down, right = (xp.sum(mass * at, axis=1, keepdims=True) for at in (i, j))
        drift = xp.sum(mass * (i - down) * (j - right), axis=1, keepdims=True)
        height = xp.sum(mass * (i - down) * (i - down), axis=1, keepdims=True)
        slant = drift / xp.maximum(height, put(np.full((1, 1), _FAINT)))
        parts.append(_read(xp, pixels, i + down, j + right + slant * i, side))
    return xp.concat(parts, axis=0)


def _side(X: Any) -> int:
    """Return the side of images that are the rows of X; refuse others."""
    side = int(np.rint(np.sqrt(X.shape[1])))
    if side * side != X.shape[1] or side == 0:
        raise DataError(f"rows of square images are needed; found shape {tuple(X.shape)}.")
    return side


def _tools(X: Any) -> tuple[Any, Any]:
    """Return the namespace of X, and what puts NumPy arrays where it lies."""
    if not is_foreign(X):
        return np, np.asarray
    home = home_of(X)
    return home.xp, home.array


def _parts(first: int, n: int, d: int) -> Iterator[slice]:
    """Yield slices of rows, some at a time."""
    for start in range(first, n, max(1, _PIXELS // d)):
        yield slice(start, min(n, start + max(1, _PIXELS // d)))


def _grid(put: Any, side: int) -> tuple[Any, Any]:
    """Return the row and the column of every pixel, about the middle of the image; (1, side * side)."""
    i, j = (put(at.reshape(1, -1) - 0.5 * (side - 1)) for at in np.indices((side, side)))
    return i, j


def _read(xp: Any, pixels: Any, i: Any, j: Any, side: int) -> Any:
    """Return images whose pixels are read at these places about the middle, between four pixels; zero beyond them."""
    i, j, total = i + 0.5 * (side - 1), j + 0.5 * (side - 1), 0.0 * (i + j)
    for below in (0.0, 1.0):
        for beside in (0.0, 1.0):
            row, column = xp.floor(i) + below, xp.floor(j) + beside
            is_inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
            weight = xp.where(is_inside, (1.0 - xp.abs(i - row)) * (1.0 - xp.abs(j - column)), 0.0 * total)
            at = xp.asarray(xp.where(is_inside, side * row + column, 0.0 * total), dtype=xp.int64)
            total = total + weight * xp.take_along_axis(pixels, at, axis=1)
    return xp.asarray(total, dtype=pixels.dtype)
