"""Random binning features of the Laplacian kernel k(x, y) = exp(-|x - y|_1 / sigma).

Maths: sampled kernel, eqs. 19 and 20.

A grid divides every axis m into bins of equal pitch: bin of x = floor((x_m - shift_m) / pitch_m), with

    pitch_m ~ Gamma(2, sigma)   (density proportional to pitch * k''(pitch)),     shift_m ~ Uniform(0, pitch_m)

Two points share all bins of a grid with probability k(x, y). A feature is a cell, the bins of all axes together; z(x)
has the entry 1 / sqrt(n_grids) at the cell of x on every grid, so that E z(x)'z(y) = k(x, y).

A hash identifies a cell, sum_m bin_m * multiplier_m modulo 2^64 with random multipliers. The hash is linear: a sparse
row has the hash of the origin plus the changes by its stored entries, so that implicit zeros cost nothing.

Source: Rahimi and Recht (2007), section 4.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from softmargin.backends.jit import inline, jit
from softmargin.core.errors import DataError
from softmargin.core.parameters import POSITIVE, RANDOM_STATE, Whole, checked
from softmargin.core.sparse import checked_sparse

__all__ = ["RandomBinning"]

Array = NDArray[Any]
_X_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": True}
_MISSING = -1
_FARTHEST = 2.0**62  # a bin number that int64 holds, with room to spare
_BEYOND = np.uint64(0x1F83D9ABFB41BD6B)  # no small number, nor the negative of one, modulo any power of two


class RandomBinning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Sparse features whose inner products approximate the Laplacian kernel exp(-\|x - y\|_1 / sigma).

    Every row becomes ``n_grids`` entries of 1 / sqrt(n_grids), one per grid, and has length 1. A linear model on them
    approximates a kernel machine, at the cost of a linear model on sparse data.

    Parameters
    ----------
    n_grids : int, default=100
        More grids approximate the kernel better: the standard deviation of an inner product is at most
        1 / (2 sqrt(n_grids)).
    sigma : float, default=1.0
        Width of the kernel; 1 / gamma of scikit-learn's ``laplacian_kernel``. Distances are sums over all features,
        so sigma should grow with their number.
    min_count : int, default=1
        Cells that hold fewer training rows are dropped: less memory, and rows with fewer than ``n_grids`` entries.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    n_cells_ : array of shape (n_grids,)
        Number of features from every grid: its cells that hold training rows.

    Notes
    -----
    A row that falls into a cell without training rows has no entry for that grid. The model holds the grids,
    3 n_grids d numbers, and 8 bytes per cell. Sparse X is never made dense.

    Examples
    --------
    >>> from softmargin.features import RandomBinning
    >>> Z = RandomBinning(n_grids=50, sigma=2.0, random_state=0).fit_transform([[0.0], [0.1], [5.0]])
    >>> Z.shape[0], Z.nnz
    (3, 150)
    """

    def __init__(self, n_grids: int = 100, sigma: float = 1.0, *, min_count: int = 1, random_state: Any = None) -> None:
        self.n_grids = n_grids
        self.sigma = sigma
        self.min_count = min_count
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse X is accepted, and that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> "RandomBinning":
        """Draw the grids, and find the cells that hold rows of X.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : ignored
        """
        self._learn(validate_data(self, checked_sparse(X), **_X_KINDS), None)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Do ``fit`` and ``transform`` in one pass; returns a CSR matrix of shape (n, number of cells)."""
        X = validate_data(self, checked_sparse(X), **_X_KINDS)
        cells = np.empty((X.shape[0], self._checked_grids()), dtype=np.int64)
        self._learn(X, cells)
        return self._features(cells, X.dtype)

    def transform(self, X: Any) -> Any:
        """Return the features of the rows of X: a CSR matrix of shape (n, number of cells)."""
        check_is_fitted(self)
        X = validate_data(self, checked_sparse(X), reset=False, **_X_KINDS)
        cells = np.empty((X.shape[0], len(self.n_cells_)), dtype=np.int64)
        for g in range(len(self.n_cells_)):
            cells[:, g] = self._places(g, self._hashes(X, g))
        return self._features(cells, X.dtype)

    def _checked_grids(self) -> int:
        checked("min_count", self.min_count, Whole(1))
        checked("sigma", self.sigma, POSITIVE)
        checked("random_state", self.random_state, *RANDOM_STATE)
        return int(checked("n_grids", self.n_grids, Whole(1)))

    def _learn(self, X: Any, cells: Array | None) -> None:
        """Draw the grids and keep their cells; ``cells`` (n, n_grids) is filled where it is given."""
        n_grids, d = self._checked_grids(), X.shape[1]
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31 - 1)))
        # With pitches and shifts as drawn, a bin is floor(x * rate + lag).
        rates = 1.0 / rng.gamma(2.0, self.sigma, (n_grids, d))
        self._grids = rates, -rng.random((n_grids, d)), rng.integers(0, 2**64, (n_grids, d), dtype=np.uint64)
        self._keys: list[Array] = []
        for g in range(n_grids):
            hashes = self._hashes(X, g)
            keys, counts = np.unique(hashes, return_counts=True)
            self._keys.append(keys[counts >= self.min_count])
            if cells is not None:
                cells[:, g] = self._places(g, hashes)
        self.n_cells_ = np.array([len(keys) for keys in self._keys])
        if not self.n_cells_.any():
            raise DataError(
                f"no cell holds min_count={self.min_count} rows (n_samples={X.shape[0]}); lower min_count, or "
                f"raise sigma (now {self.sigma}) for larger cells."
            )

    def _hashes(self, X: Any, g: int) -> Array:
        """Return the hash of the cell of every row on grid g; uint64, shape (n,)."""
        rates, lags, multipliers = (part[g] for part in self._grids)
        hashes = np.empty(X.shape[0], dtype=np.uint64)
        if isinstance(X, np.ndarray):
            _hash_rows(X, rates, lags, multipliers, hashes)
        else:
            origin = np.floor(lags).astype(np.int64).view(np.uint64)
            _hash_sparse_rows(X.data, X.indices, X.indptr, rates, lags, multipliers, origin, hashes)
            hashes += origin @ multipliers
        return hashes

    def _places(self, g: int, hashes: Array) -> Array:
        """Return the position of each hash among the cells of grid g; -1 where it is not there."""
        keys = self._keys[g]
        if len(keys) == 0:
            return np.full(len(hashes), _MISSING)
        places = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
        return np.where(keys[places] == hashes, places, _MISSING)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_cells_.sum())

    def _features(self, cells: Array, dtype: Any) -> Any:
        n, n_grids = cells.shape
        is_there = cells != _MISSING
        cells += np.cumsum(self.n_cells_) - self.n_cells_
        indptr = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
        is_wide = max(int(indptr[-1]), self._n_features_out) > np.iinfo(np.int32).max
        index = np.int64 if is_wide else np.int32
        indices = cells[is_there].astype(index)
        data = np.full(len(indices), 1.0 / math.sqrt(n_grids), dtype=dtype)
        kind = csr_array if get_config().get("sparse_interface") == "sparray" else csr_matrix
        return kind((data, indices, indptr.astype(index)), shape=(n, self._n_features_out))


@inline
def _bin_of(place: float) -> Any:
    """Return the bin of a place on its axis; all places beyond 2^62 share one bin that is near no training row.

    What a cast out of range gives depends on the machine; on some it is -1 after a sum modulo 2^64, which is a bin.
    """
    return np.uint64(np.int64(math.floor(place))) if abs(place) < _FARTHEST else _BEYOND


@jit
def _hash_rows(X: Any, rates: Any, lags: Any, multipliers: Any, hashes: Any) -> None:
    """Hash the cells of dense rows."""
    for i in range(X.shape[0]):
        total = np.uint64(0)
        for m in range(X.shape[1]):
            total += _bin_of(X[i, m] * rates[m] + lags[m]) * multipliers[m]
        hashes[i] = total


@jit
def _hash_sparse_rows(
    data: Any, indices: Any, indptr: Any, rates: Any, lags: Any, multipliers: Any, origin: Any, hashes: Any
) -> None:
    """Hash the cells of sparse rows, less the hash of the origin."""
    for i in range(len(hashes)):
        total = np.uint64(0)
        for t in range(indptr[i], indptr[i + 1]):
            m = indices[t]
            total += (_bin_of(data[t] * rates[m] + lags[m]) - origin[m]) * multipliers[m]
        hashes[i] = total
