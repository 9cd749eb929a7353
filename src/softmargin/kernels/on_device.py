"""Kernels where the samples lie on a device: the formulas, and sums over kernel values, tile after tile.

``DevicePoints`` tell a kernel what ``Points`` tell it, so that the choice of an origin (``Rbf.origin``) and the bounds
on rounding (``kernel.errors``) are those of NumPy arrays; squared norms are kept on both sides. Values are computed in
the precision of X, sums over them in float64.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import Home, to_numpy
from softmargin.core.deadline import check_time
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.kernels.formulas import Linear, Polynomial, Rbf, Sigmoid
from softmargin.kernels.points import slices

__all__ = ["DevicePoints", "block", "demand_formula", "kernel_scores", "kernel_sums", "tile_side", "variance"]

Array = NDArray[Any]
_SIDE = 8192  # rows and columns of a tile, at most: 0.5 GB in float64
_FEWEST = 64  # the same, at least
_TILES = 8  # tiles in memory at once: values, what is computed of them, the same in float64
_SHARE = 1.0 / 16.0  # of a budget, for tiles
_NUMBERS = 1 << 24  # numbers of X converted to float64 at once


class DevicePoints:
    """Samples on a device, as a kernel sees them.

    Parameters
    ----------
    X : array of shape (n, d), float32 or float64
    home : Home
    sqnorms : NumPy array of shape (n,), optional
        |x_i|^2, where they are known already.
    is_moved : bool, default=False
        Whether the rows are differences from an origin, each coordinate rounded.
    """

    is_sparse = False

    def __init__(self, X: Any, home: Home, sqnorms: Array | None = None, *, is_moved: bool = False) -> None:
        self.X, self.home, self.is_moved = X, home, is_moved
        self.sqnorms = self._sqnorms() if sqnorms is None else sqnorms

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def longest(self) -> int:
        """How many numbers a row holds."""
        return int(self.X.shape[1])

    @property
    def lengths(self) -> int:
        """The same: all rows are as long."""
        return self.longest

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of X, as NumPy names it."""
        return np.dtype(np.float64 if self.X.dtype == self.home.xp.float64 else np.float32)

    def _wide_rows(self) -> Iterator[tuple[slice, Any]]:
        """Yield blocks of rows in float64."""
        for rows in slices(len(self), max(1, _NUMBERS // max(1, self.longest))):
            yield rows, self.home.wide(self.X[rows, :])

    def _sqnorms(self) -> Array:
        """Return |x_i|^2, squared and summed in float64."""
        xp = self.home.xp
        parts = [to_numpy(xp.sum(part * part, axis=1)) for _, part in self._wide_rows()]
        return np.concatenate(parts) if parts else np.empty(0)

    def mean(self) -> Array:
        """Return the mean of every column, in float64; (d,)."""
        sums = sum((to_numpy(self.home.xp.sum(part, axis=0)) for _, part in self._wide_rows()), np.zeros(self.longest))
        return np.asarray(sums / max(1, len(self)))

    def moved(self, origin: Array) -> "DevicePoints":
        """Return the points relative to another origin, in float64."""
        return DevicePoints(self.home.wide(self.X) - self.home.array(origin), self.home, is_moved=True)

    def take(self, at: Any) -> "DevicePoints":
        """Return some of the rows: a slice, or a NumPy array of positions."""
        rows = self.X[at, :] if isinstance(at, slice) else self.home.xp.take(self.X, self.home.array(at), axis=0)
        return DevicePoints(rows, self.home, self.sqnorms[at])

    def widened(self) -> "DevicePoints":
        """Return the same rows in float64."""
        return DevicePoints(self.home.wide(self.X), self.home, self.sqnorms)


def _products(left: DevicePoints, right: DevicePoints) -> Any:
    xp = left.home.xp
    return xp.matmul(left.X, xp.matrix_transpose(right.X))


def _affine(kernel: Any, left: DevicePoints, right: DevicePoints) -> Any:
    return float(kernel.gamma) * _products(left, right) + float(kernel.coef0)


def _polynomial(kernel: Polynomial, left: DevicePoints, right: DevicePoints) -> Any:
    return _affine(kernel, left, right) ** int(kernel.degree)


def _sigmoid(kernel: Sigmoid, left: DevicePoints, right: DevicePoints) -> Any:
    return left.home.xp.tanh(_affine(kernel, left, right))


def _rbf(kernel: Rbf, left: DevicePoints, right: DevicePoints) -> Any:
    home, kind = left.home, left.X.dtype
    xp = home.xp
    if kernel.is_too_narrow(left.dtype, left, right):
        left, right = left.widened(), right.widened()
    if left.dtype == np.float64 and kernel.cancels(left, right):
        exponent = -float(kernel.gamma) * _squared_differences(left, right)
    else:
        own, other = (
            xp.astype(home.array(kernel.gamma * points.sqnorms), left.X.dtype, copy=False) for points in (left, right)
        )
        products, fused = _products(left, right), home.fused
        if fused is not None:
            return xp.astype(fused.rbf_values(products, own, other, float(kernel.gamma)), kind, copy=False)
        exponent = (2.0 * float(kernel.gamma)) * products - own[:, None] - other[None, :]
        # Rounding may make a squared distance negative; no kernel value exceeds 1.
        exponent = xp.minimum(exponent, xp.zeros_like(exponent))
    return xp.astype(xp.exp(exponent), kind, copy=False)


def _squared_differences(left: DevicePoints, right: DevicePoints) -> Any:
    """Return |a - b|^2 for all pairs, one coordinate after the other: no digit cancels."""
    total = left.home.full((len(left), len(right)), 0.0)
    for j in range(left.longest):
        difference = left.X[:, j][:, None] - right.X[:, j][None, :]
        total = total + difference * difference
    return total


_FORMULAS: dict[type, Callable[[Any, DevicePoints, DevicePoints], Any]] = {
    Linear: lambda kernel, left, right: _products(left, right),
    Polynomial: _polynomial,
    Sigmoid: _sigmoid,
    Rbf: _rbf,
}


def demand_formula(kernel: Any) -> None:
    """Refuse a kernel that has no formula here."""
    if type(kernel) not in _FORMULAS:
        names = ", ".join(str(vars(kind)["name"]) for kind in _FORMULAS)
        raise IncompatibleError(
            f"the {getattr(kernel, 'name', kernel)} kernel is not computed on a device; use one of {names}, or pass X "
            "as a NumPy array."
        )


def block(kernel: Any, left: DevicePoints, right: DevicePoints) -> Any:
    """Return k(a, b) for all pairs, (len(left), len(right)), in the precision of X; a kernel that has a formula."""
    # Whoever sums the values reports what overflows, with advice; array-api-strict would warn first.
    with np.errstate(over="ignore", invalid="ignore"):
        return _FORMULAS[type(kernel)](kernel, left, right)


def tile_side(budget: float, numbers_per_row: int) -> int:
    """Return the rows and columns of a tile, where all tiles in memory may take a share of ``budget`` bytes."""
    numbers = _SHARE * budget / (8.0 * _TILES)
    return int(min(_SIDE, max(_FEWEST, math.isqrt(int(numbers)), 1), max(_FEWEST, numbers // max(1, numbers_per_row))))


def kernel_sums(
    kernel: Any,
    left: DevicePoints,
    right: DevicePoints,
    weights: Any,
    side: int,
    *,
    at: Array | None = None,
    is_wide: bool = False,
) -> Any:
    """Return K(left, right) weights in float64, (len(left), k), one tile at a time.

    ``weights`` are float64, (m, k); ``at`` names the m points of ``right`` that they belong to, None all of them. With
    ``is_wide`` the kernel values are float64, too.
    """
    home, m = left.home, int(weights.shape[0])

    def part(points: DevicePoints, rows: Any) -> DevicePoints:
        taken = points.take(rows)
        return taken.widened() if is_wide else taken

    parts = []
    for down in slices(len(left), side):
        rows, total = part(left, down), home.full((down.stop - down.start, weights.shape[1]), 0.0)
        for across in slices(m, side):
            check_time()
            others = part(right, across if at is None else at[across])
            # No variable holds the tile: there would be two in memory.
            total = total + home.xp.matmul(home.wide(block(kernel, rows, others)), weights[across, :])
        parts.append(total)
    return home.xp.concat(parts, axis=0) if parts else home.full((0, weights.shape[1]), 0.0)


def kernel_scores(kernel: Any, vectors: Any, X: Any, home: Home, weights: Any, budget: float) -> Any:
    """Return the scores of a model, K(X, vectors) weights, (n, k), where both lie; in the wider of their precisions."""
    points = DevicePoints(vectors, home)
    origin = kernel.origin(points) if hasattr(kernel, "origin") else None
    points = points if origin is None else points.moved(origin)
    side, is_wide, parts = tile_side(budget, points.longest), X.dtype != vectors.dtype, []
    for down in slices(int(X.shape[0]), side):
        rows = DevicePoints(X[down, :], home)
        rows = rows if origin is None else rows.moved(origin)
        parts.append(kernel_sums(kernel, rows, points, weights, side, is_wide=is_wide))
    return home.xp.concat(parts, axis=0)


def variance(X: Any, home: Home, sample_weight: Array | None = None) -> float:
    """Return the variance of all entries of X, in two passes in float64; a weight of 2 is a row given twice."""
    xp, points = home.xp, DevicePoints(X, home, np.empty(0))
    weights = np.ones(len(points)) if sample_weight is None else sample_weight
    total = float(weights.sum()) * points.longest
    if total == 0.0:
        raise DataError("sample_weight is zero for every sample; at least one must be positive.")

    def mean_of(term: Callable[[Any], Any]) -> float:
        sums = (weights[rows] @ to_numpy(xp.sum(term(part), axis=1)) for rows, part in points._wide_rows())
        return float(sum(sums, np.float64(0.0))) / total

    with np.errstate(over="ignore", invalid="ignore"):
        mean = mean_of(lambda part: part)
        return mean_of(lambda part: (part - mean) * (part - mean))
