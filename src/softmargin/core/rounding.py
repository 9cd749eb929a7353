"""Numbers with a proven bound on their rounding error: what a certificate is made of. Maths: rounding, section 1.

    u = 2^-53                       half the distance from 1 to the next number
    gamma(n) = n u / (1 - n u)      relative error of n operations, a sum of n products among them, in any order
    |computed - exact| <= error     for every ``Rounded``

The data, the weights and the dual variables are numbers as they are stored; the value of an objective at them in real
arithmetic is the exact one. Errors are computed in floating point too: they are sums of terms that are not negative, of
at most 2^31 terms, and the factor ``SLACK`` covers their own rounding.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PIECE",
    "ULPS",
    "UNIT",
    "KernelErrors",
    "Rounded",
    "ScoreErrors",
    "column_roundings",
    "column_sums",
    "gamma",
    "norms",
    "piece_roundings",
    "pieces",
    "squared_norm",
    "summed",
    "total",
    "totals",
]

Array = NDArray[Any]
UNIT = 2.0**-53
TINY = 2.0**-1074  # the error of a product that underflows
SLACK = 1.0 + 2.0**-20
PIECE = 256  # terms of a sum that BLAS adds in an order of its own, where sums are sums of sums: GEMM loses no speed
ULPS = 4.0  # units in the last place by which exp, log, tanh and pow of NumPy may be off: twice what its tests demand


def gamma(n: float) -> float:
    """Return n u / (1 - n u), the relative error of n operations; infinite where n u is no small number."""
    share = n * UNIT
    return SLACK * share / (1.0 - share) if share < 2.0**-21 else math.inf


@dataclass(frozen=True, slots=True)
class Rounded:
    """A computed number, and how far it may be from the exact one."""

    value: float
    error: float = 0.0

    def __add__(self, other: "Rounded") -> "Rounded":
        value = self.value + other.value
        return Rounded(value, SLACK * (self.error + other.error + UNIT * abs(value)))

    def __sub__(self, other: "Rounded") -> "Rounded":
        return self + other.times(-1.0)

    def times(self, factor: float) -> "Rounded":
        """Return the product with a number that is exact."""
        value = factor * self.value
        is_exact = abs(factor) in (0.0, 0.5, 1.0, 2.0)
        return Rounded(value, SLACK * (abs(factor) * self.error + (0.0 if is_exact else UNIT * abs(value) + TINY)))

    def widened(self, error: float) -> "Rounded":
        """Return the same number with a further error."""
        return Rounded(self.value, SLACK * (self.error + error))

    @property
    def upper(self) -> float:
        """A number not below the exact one."""
        return self._beyond(math.inf)

    @property
    def lower(self) -> float:
        """A number not above the exact one."""
        return self._beyond(-math.inf)

    def _beyond(self, side: float) -> float:
        if self.error == 0.0 or not math.isfinite(self.value):
            return self.value
        return math.nextafter(self.value + math.copysign(self.error, side), side)


def total(terms: Array, errors: Any = 0.0) -> Rounded:
    """Return the sum of products of two numbers, rounded; ``errors`` of the products before, all together or each.

    Products that all underflow to zero count as zero.
    """
    value, size = float(terms.sum()), float(np.abs(terms).sum())
    before = float(errors.sum()) if isinstance(errors, np.ndarray) else errors
    return Rounded(value, _lost(size, terms.size) + SLACK * before)


def totals(terms: Array, errors: Array) -> list[Rounded]:
    """Return ``total`` of every row; ``errors`` of the products before, each or of a row, (k, n) or (k,)."""
    values, sizes = terms.sum(axis=1).tolist(), np.abs(terms).sum(axis=1).tolist()
    before = (errors.sum(axis=1) if errors.ndim == 2 else errors).tolist()
    lost = [_lost(size, terms.shape[1]) for size in sizes]
    return [Rounded(value, lost[c] + SLACK * before[c]) for c, value in enumerate(values)]


def summed(value: float, error: float, n: int) -> Rounded:
    """Return a computed sum of n products that are not negative; ``error`` is that of the products before."""
    return Rounded(value, _lost(value, n) + SLACK * error)


def _lost(size: float, n: int) -> float:
    """Bound the error of n products and their sum, which has this size if none is negative."""
    return SLACK * SLACK * (gamma(n + 1) * size + (n * TINY if size else 0.0))


def squared_norm(V: Array, error: float = 0.0) -> Rounded:
    """Return |V|^2, where V is within ``error`` of the exact one in the Euclidean norm."""
    square = float(np.vdot(V, V))
    lost = V.size * TINY if square or V.any() else 0.0
    change = error * (2.0 * math.sqrt(square) + error)
    return Rounded(square, SLACK * (gamma(V.size + 1) * square + lost + change))


def norms(V: Array, axis: int) -> Array:
    """Return bounds on Euclidean norms along an axis, whatever underflows."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", V, V) if V.ndim == 2 else np.square(V).sum(axis)
        return np.asarray(np.sqrt(squares + V.shape[axis] * TINY))


def column_sums(V: Array) -> Array:
    """Return the sums over axis 0, as sums of sums over about sqrt(n) rows, with ``column_roundings(n)`` each."""
    length = math.isqrt(len(V)) + 1
    return np.asarray(np.add.reduceat(V, np.arange(0, len(V), length), axis=0).sum(axis=0))


def column_roundings(n: int) -> int:
    """Return how many roundings a column sum of n rows has."""
    return 2 * (math.isqrt(n) + 1)


def pieces(n: int) -> Iterator[slice]:
    """Yield the parts of a sum of n products: sums of sums have fewer roundings (maths: rounding, section 1)."""
    for first in range(0, n, PIECE):
        yield slice(first, min(first + PIECE, n))


def piece_roundings(n: int) -> int:
    """Return how many roundings a sum of n products over such parts has."""
    return min(n, PIECE) + -(-n // PIECE)


class ScoreErrors(NamedTuple):
    """Bounds on the errors of scores (n, k), of low rank: |error| <= rows slope + level, entry by entry."""

    rows: Array  # (n, r)
    slope: Array  # (r, k)
    level: Array  # (k,)

    def of(self, columns: slice) -> "ScoreErrors":
        """Return the bounds of some columns."""
        return ScoreErrors(self.rows, self.slope[:, columns], self.level[columns])

    def of_slacks(self, slacks: Array, scores: Array, biases: Any = 0.0) -> Array:
        """Bound the errors of [slack]_+, slack = 1 - y (score + bias), by columns of the scores; all (k, n).

        The sum rounds where neither term is zero; the difference from 1 is exact, or its error is relative.
        """
        errors = self.slope.T @ self.rows.T + self.level[:, None]
        if np.any(biases):
            errors += np.where((scores != 0.0) & (biases != 0.0), 2.0 * UNIT * np.abs(scores + biases), 0.0)
        return np.where(slacks > -errors, errors, 0.0)

    def of_energies(self, alpha: Array) -> Array:
        """Bound the errors of <alpha_c, score_c> by those of the scores, given the columns of alpha; alpha (k, n)."""
        sizes = np.abs(alpha)
        return np.asarray(((sizes @ self.rows) * self.slope.T).sum(axis=1) + sizes.sum(axis=1) * self.level)

    def weighted(self, sizes: Array) -> float:
        """Return a bound on sum_ic sizes_ic |error_ic|; sizes (n, k), not negative."""
        return float(np.vdot(self.rows.T @ sizes, self.slope) + sizes.sum(axis=0) @ self.level)


class KernelErrors(NamedTuple):
    """Bounds on computed kernel values: |error_ij| <= rows_i + rows_j, and |k_ij| <= sizes_i sizes_j."""

    rows: Array  # (n,)
    sizes: Array  # (n,)

    def of_scores(self, alpha: Array, roundings: int, constant: float) -> ScoreErrors:
        """Bound the errors of K alpha + constant * sum alpha: so many roundings of a sum and of alpha's own entries."""
        weights = np.abs(alpha)
        sums = weights.sum(axis=0)
        share = gamma(roundings + 8)
        rows = np.column_stack([self.rows, self.sizes])
        slope = np.vstack([sums, share * (self.sizes @ weights)])
        return ScoreErrors(rows, slope, self.rows @ weights + share * constant * sums)
