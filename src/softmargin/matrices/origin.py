"""Columns far from zero for their spread: dates, time stamps, numbers of accounts.

With an intercept that nothing penalises, features less any m pose the same problem:

    x'W + b = (x - m)'W + b' ,     b' = b + m'W                                               maths: rounding, eq. 9c

So columns are moved near zero where this is exact: x - m is no rounded number for any of the rows, as for whole numbers
and where all entries of a column are within a factor of two of each other. A problem of such rows has points with b';
models have b, and rounding it once more is charged for.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import TINY, gamma, norms
from softmargin.matrices.forms import canonical
from softmargin.sets import LowRank

__all__ = ["NOWHERE", "FarColumns", "Moved", "Origin", "far_columns", "moved", "near_zero"]

Array = NDArray[Any]
FAR = 30.0  # a mean is so many times the spread of its feature where that is far from zero: by hand; 900 is in squares
SAME = 1e-12  # of its mean is the spread of a feature, at most, that is constant but for rounding: by hand


class FarColumns(NamedTuple):
    """The columns of an array of which some are far from zero."""

    means: Array  # (d,)
    spreads: Array  # (d,) standard deviations
    is_far: Array  # (d,)


def far_columns(X: Any) -> FarColumns | None:
    """Return the means and spreads of the columns of an array, and which are far from zero; None where none is."""
    if not isinstance(X, np.ndarray) or not len(X):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        # |mean| > FAR spread is: the mean square is below (1 + 1 / FAR^2) mean^2. Twice that leaves room for rounding.
        sums, squares = np.ones(len(X), X.dtype) @ X, np.einsum("ij,ij->j", X, X, dtype=np.float64)
        if not (len(X) * squares < (1.0 + 2.0 / FAR**2) * sums.astype(np.float64) ** 2).any():
            return None
        means, spreads = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        is_far = (np.abs(means) > FAR * spreads) & (spreads > SAME * np.abs(means))
    return FarColumns(means, spreads, is_far) if is_far.any() else None


class Origin(NamedTuple):
    """Which columns were moved, and by how much."""

    columns: Array  # (f,)
    values: Array  # (f,) m of these

    @property
    def is_elsewhere(self) -> bool:
        """Whether any column was moved."""
        return len(self.columns) > 0

    def near(self, weights: Any, intercept: Array) -> Array:
        """Return b' = b + m'W, the intercept of rows less the origin; weights (d, k), an array or LowRank."""
        return intercept + self._share(weights) if self.is_elsewhere else intercept

    def far(self, weights: Any, intercept: Array) -> Array:
        """Return b = b' - m'W, the intercept of rows as they came."""
        return intercept - self._share(weights) if self.is_elsewhere else intercept

    def _share(self, weights: Any) -> Array:
        if isinstance(weights, LowRank):
            return np.asarray((self.values @ weights.U[self.columns] * weights.s) @ weights.V.T)
        return np.asarray(self.values @ weights[self.columns])

    def errors(self, weights: Any, intercept: Array, excess: float = 0.0) -> Any:
        """Bound what rounding b and b' may change in scores: maths: rounding, eq. 9d; (k,), or 0.

        The exact weights may differ from these by a share.
        """
        f, k = len(self.columns), weights.shape[1]
        if not self.is_elsewhere:
            return 0.0
        if isinstance(weights, LowRank):
            rows = np.abs(weights.U[self.columns]) @ (np.abs(weights.s) * norms(weights.V, axis=0))
        else:
            rows = norms(weights[self.columns], axis=1)
        reach = float(np.abs(self.values) @ rows)
        return gamma(2 * (f + k) + 8) * (np.abs(intercept) + reach) + excess * reach + f * TINY


NOWHERE = Origin(np.empty(0, dtype=np.intp), np.empty(0))


class Moved(NamedTuple):
    """Rows less an origin, exactly: what a problem takes in the place of X."""

    X: Array  # (n, d)
    origin: Origin


def moved(X: Any) -> tuple[Any, Origin]:
    """Return the rows that a problem is given, and their origin."""
    return X if isinstance(X, Moved) else (X, NOWHERE)


def near_zero(X: Any, has_free_intercept: Any) -> Any:
    """Return an array X with columns moved near zero, if the intercept is free, some are far and x - m is exact.

    Else X. m is the mean rounded to a power of two of about the spread, so that it has few digits.
    """
    if not (has_free_intercept and isinstance(X, np.ndarray)):
        return X
    X = canonical(X)
    found = far_columns(X)
    if found is None:
        return X
    # Where rows are copied anyway, all columns move that become shorter by it.
    columns = np.flatnonzero((np.abs(found.means) > found.spreads) & (found.spreads > SAME * np.abs(found.means)))
    units = np.exp2(np.floor(np.log2(found.spreads[columns])))
    values = (units * np.rint(found.means[columns] / units)).astype(X.dtype)
    part = X[:, columns]
    is_exact = _is_exact(part, values)
    if not is_exact.any():
        return X
    near = X.copy()
    near[:, columns[is_exact]] = (part - values)[:, is_exact]
    return Moved(near, Origin(columns[is_exact], values[is_exact].astype(np.float64)))


def _is_exact(X: Array, m: Array) -> Array:
    """Say for which columns no difference x - m is rounded; (d,)."""
    difference = X - m
    back = difference - X  # about -m
    errors = (X - (difference - back)) - (m + back)  # of the difference, exactly: Knuth's sum of two numbers
    return np.asarray((errors == 0.0).all(axis=0))
