"""Dask arrays and data frames as partitions of rows: checked once, with their labels and weights.

Arrays have dense blocks or blocks of SciPy's CSR; y and the weights follow the partitions of X. Sizes of partitions may
be unknown: one pass over the data finds them, the labels, and whether all numbers are finite and modest. Where the rows
fit into the memory of the workers they are kept there, prepared; else every pass reads them again from where they come.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dask
import numpy as np
from scipy.sparse import issparse, vstack

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.labels import naming_bad_labels
from softmargin.core.parameters import as_numbers
from softmargin.core.pieces import Array
from softmargin.distributed.blocks import DaskBlocks
from softmargin.distributed.tasks import Shared, computed, quiet, shared, task
from softmargin.matrices.forms import canonical
from softmargin.problems.block_rows import Block

__all__ = ["LABELS", "DaskRows", "checked_rows"]

LABELS = 10_000  # of y, at most: more are numbers, not classes; by hand
_KEPT = 0.4  # share of the workers' memory that rows may take to be kept there; by hand
_FEWEST = 8  # passes of a fit, about: what they send is more than rows that are light
_LIGHT = 1 << 28  # bytes of such rows, at most: 256 MB in the client; by hand


class _Looked(NamedTuple):
    """What a partition is like."""

    n: int
    d: int
    n_bytes: int
    square: float  # sum of all squares
    is_single: bool  # float32
    n_labels: int  # rows of y, and of the weights
    n_weights: int
    labels: Array  # sorted, different; none of a regressor
    mass: Array  # weight of every label
    least: float  # of the weights
    sums: Array  # (2,) of the weights, and of all numbers, each times the weight of its row
    columns: Any  # names of a data frame


class DaskRows(NamedTuple):
    """Checked partitions."""

    parts: list[tuple[Any, Any, Any]]  # delayed X, y, weights or None
    n_rows: list[int]
    n_features: int
    n_bytes: list[int]
    columns: Any  # names of the features; None of an array
    labels: Array  # (k,) sorted classes; of a regressor nothing
    mass: Array  # (k,) the weight of every class
    sums: Array  # (2,) of the weights, and of all numbers, each times the weight of its row
    n_outputs: int = 0  # columns of y; none where it has one value per row

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and features."""
        return sum(self.n_rows), self.n_features

    @property
    def largest(self) -> str:
        """The size of the largest partition, in words."""
        return f"partition of about {max(self.n_bytes) / 1e6:.3g} MB"

    def are_light(self, shape: tuple[int, int]) -> bool:
        """Say whether all rows have fewer bytes than weights of a shape that go to a worker in the fewest passes."""
        return sum(self.n_bytes) <= min(_FEWEST * 8 * shape[0] * shape[1], _LIGHT)

    def gathered(self) -> tuple[Any, Array, Array | None]:
        """Return all rows, y and the weights, here."""
        X, y, weights = zip(*computed([task(_whole, *part) for part in self.parts], self.largest), strict=True)
        return _stacked(X), np.concatenate(y), None if weights[0] is None else np.concatenate(weights)

    def variance(self) -> float:
        """Return the variance of all numbers of X, by the weights of their rows: one pass."""
        count = self.sums[0] * self.n_features
        mean = self.sums[1] / count
        found = computed([task(_spread, X, w, mean) for X, _, w in self.parts], self.largest)
        return float(sum(found) / count)

    def with_labels(self, labels: Array) -> "DaskRows":
        """Return the same rows with the classes of a model, which hold all labels."""
        place = np.minimum(np.searchsorted(labels, self.labels), len(labels) - 1)
        if not np.array_equal(labels[place], self.labels):
            strange = self.labels[labels[place] != self.labels].tolist()[0]
            raise DataError(f"y holds the label {strange!r}, which is none of the model's classes; pass its own data.")
        return self._replace(labels=labels, mass=np.bincount(place, weights=self.mass, minlength=len(labels)))

    def blocks(self, prices: Array, features: Callable[[Any], Any] | None = None, width: int = 0) -> DaskBlocks:
        """Return the blocks of a problem: labels as codes, and the price of every class times a row's weight.

        ``features`` maps rows to others, ``width`` columns wide.
        """
        labels = self.labels if len(self.labels) else None
        own = shared((labels, prices, features))
        parts = [task(_prepared, *part, own) for part in self.parts]
        d = width or self.n_features
        n_bytes = self.n_bytes if features is None else [4 * d * n for n in self.n_rows]
        if sum(n_bytes) <= _KEPT * _memory():
            with quiet():
                parts = list(dask.persist(*parts))
        return DaskBlocks(parts, self.n_rows, d, n_bytes)

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Any, Array, Array]:
        """Draw rows with equal chances; return their X, their codes and their positions, which ascend."""
        n = sum(self.n_rows)
        drawn = np.sort(rng.choice(n, min(size, n), replace=False))
        ends = np.cumsum(self.n_rows)
        cut = np.searchsorted(drawn, ends)
        tasks = [
            task(_taken, *part[:2], drawn[a:b] - (end - m))
            for part, a, b, end, m in zip(self.parts, [0, *cut], cut, ends, self.n_rows, strict=False)
            if b > a
        ]
        taken, labels = zip(*computed(tasks, self.largest), strict=True)
        codes = np.searchsorted(self.labels, np.concatenate(labels))
        return _stacked(taken), codes, drawn


def checked_rows(X: Any, y: Any, sample_weight: Any, *, is_classifier: bool, largest: dict[Any, float]) -> DaskRows:
    """Check Dask collections, and return their partitions; ``largest`` bounds the sum of squares by type."""
    parts = _partitions(X, y, sample_weight)
    looked = computed([task(_look, *part, is_classifier) for part in parts], _largest(X))
    for i, each in enumerate(looked):
        _check_partition(i, each, looked[0], sample_weight is not None)
    n = sum(each.n for each in looked)
    if n == 0 or looked[0].d == 0:
        raise DataError(f"X has shape {(n, looked[0].d)}; rows and columns must exist.")
    square = sum(each.square for each in looked)
    most = largest[np.float32 if all(each.is_single for each in looked) else np.float64]
    if not square <= most:
        what = "NaN or infinity; fill in or drop them" if not np.isfinite(square) else "huge values; scale the features"
        raise DataError(f"X holds {what} (the sum of its squares is {square:.3g}).")
    labels, mass = _all_labels(looked) if is_classifier else (np.empty(0), np.empty(0))
    columns = looked[0].columns
    sizes = [each.n for each in looked], looked[0].d, [each.n_bytes for each in looked]
    sums: Array = np.sum([each.sums for each in looked], axis=0)
    if not sums[0] > 0.0:
        raise DataError("sample_weight is zero for every sample; at least one must be positive.")
    return DaskRows(parts, *sizes, columns, labels, mass, sums)


def _largest(X: Any) -> str:
    """Return what is known of the size of the largest partition before any of them is looked at, in words."""
    if not hasattr(X, "chunks") or np.isnan(X.chunks[0]).any():
        return f"partition of {getattr(X, 'npartitions', 1)}"
    n, d = max(X.chunks[0]), X.shape[1]
    size = f" ({n * d * X.dtype.itemsize / 1e6:.3g} MB)" if isinstance(X._meta, np.ndarray) else ""
    return f"partition of {n} rows and {d} columns{size}"


def _partitions(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, Any, Any]]:
    """Return delayed partitions of X, y and the weights."""
    if not hasattr(X, "to_delayed"):
        raise IncompatibleError(
            f"y or sample_weight is a Dask collection, X is a {type(X).__name__}; pass X as a Dask array or data "
            "frame too, or compute() the others."
        )
    if hasattr(X, "chunks"):
        if X.ndim != 2:
            raise DataError(f"X must be a matrix (2-D); found {X.ndim} dimensions.")
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        rows, own = list(X.to_delayed()[:, 0]), X.chunks[0]
    else:
        # As they stand: Dask may read more files at once where few of their columns are used, y alone, say.
        rows, own = X.to_delayed(optimize_graph=False), (np.nan,) * X.npartitions
    others = [_aligned(name, each, own) for name, each in (("y", y), ("sample_weight", sample_weight))]
    return list(zip(rows, *others, strict=True))


def _aligned(name: str, values: Any, chunks: tuple[Any, ...]) -> list[Any]:
    """Return the partitions of y or of the weights that belong to those of X."""
    if values is None:
        return [None] * len(chunks)
    is_known = not np.isnan(chunks).any()
    if not hasattr(values, "to_delayed"):
        if not is_known:
            raise IncompatibleError(
                f"X is a Dask collection with partitions of unknown size, {name} is a {type(values).__name__}; pass "
                f"{name} as a Dask collection with the same partitions, or call X.compute_chunk_sizes() first."
            )
        values = np.asarray(values)
        if len(values) != sum(chunks):
            raise DataError(f"X has {sum(chunks)} rows, {name} has {len(values)}; they must agree.")
        ends = np.cumsum(chunks)
        return [values[end - m : end] for m, end in zip(chunks, ends, strict=True)]
    if hasattr(values, "chunks"):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise IncompatibleError(f"{name} has {values.ndim} dimensions; on a cluster one number per row is taken.")
        own = values.chunks[0]
        if own != chunks and is_known and not np.isnan(own).any():
            if sum(own) != sum(chunks):
                raise DataError(f"X has {sum(chunks)} rows, {name} has {sum(own)}; they must agree.")
            values = values.rechunk((chunks,))
        own = values.chunks[0]
    else:
        own = (np.nan,) * values.npartitions
    if len(own) != len(chunks):
        raise DataError(
            f"X has {len(chunks)} partitions and {name} has {len(own)}, some of unknown size; give both the same "
            "partitions, or call compute_chunk_sizes() on arrays first."
        )
    return list(np.ravel(values.to_delayed(optimize_graph=hasattr(values, "chunks"))))


def _matrix(X: Any) -> Any:
    """Return a partition of X as a canonical matrix."""
    if hasattr(X, "to_numpy"):
        kinds = {str(kind) for kind in X.dtypes if getattr(kind, "kind", "O") not in "fiub"}
        if kinds:
            raise DataError(f"X has columns of type {', '.join(sorted(kinds))}; numbers are needed. Encode them first.")
        X = X.to_numpy(dtype=np.float64)
    return canonical(X if issparse(X) else np.asarray(X))


def _vector(y: Any) -> Array:
    values = np.asarray(y)
    return values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values


def _look(X: Any, y: Any, weights: Any, is_classifier: bool) -> _Looked:
    """Return what a partition is like."""
    columns = list(X.columns) if hasattr(X, "columns") else None
    X, y = _matrix(X), _vector(y)
    numbers = X.data if issparse(X) else X.reshape(-1)
    n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if issparse(X) else X.nbytes
    w = np.ones(len(y)) if weights is None else np.asarray(_vector(weights), dtype=np.float64)
    if y.ndim != 1:
        raise DataError(f"y has shape {y.shape} in a partition; on a cluster one value per row is taken.")
    if is_classifier:
        with naming_bad_labels(y, "y of a partition"):
            labels, codes = np.unique(y, return_inverse=True)
        if len(labels) > LABELS:
            raise DataError(f"y holds more than {LABELS} different labels; a classifier needs classes, not numbers.")
        mass = np.bincount(codes, weights=w if len(w) == len(y) else None, minlength=len(labels))
    else:
        numbers_of_y = as_numbers(y)
        if numbers_of_y is None:
            raise DataError("y holds what are no numbers, as a regressor needs.")
        labels, mass = np.empty(0), np.array([np.vdot(numbers_of_y, numbers_of_y)])
        if not np.isfinite(mass).all():
            raise DataError("y holds NaN, infinity or huge values; drop such rows, or scale y.")
    least = float(w.min(initial=np.inf)) if np.isfinite(w).all() else np.nan
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.vdot(numbers, numbers))
        entries = np.asarray(X.sum(axis=1, dtype=np.float64)).reshape(-1)
        sums = np.array([w.sum(), w @ entries if len(w) == len(entries) else np.nan])
    (n, d), is_single = X.shape, X.dtype == np.float32
    return _Looked(n, d, n_bytes, square, is_single, len(y), len(w), labels, mass, least, sums, columns)


def _check_partition(i: int, each: _Looked, first: _Looked, has_weights: bool) -> None:
    if each.d != first.d or each.columns != first.columns:
        raise DataError(f"partition {i} of X has {each.d} features or other names than the first, which has {first.d}.")
    if each.n_labels != each.n or (has_weights and each.n_weights != each.n):
        raise DataError(
            f"partition {i} has {each.n} rows of X, {each.n_labels} of y and {each.n_weights} weights; the partitions "
            "must agree. Make all of them from one source, or call compute_chunk_sizes() and rechunk."
        )
    if not each.least >= 0.0:
        raise DataError("sample_weight must be finite and not negative; found a NaN, infinite or negative weight.")


def _all_labels(looked: list[_Looked]) -> tuple[Array, Array]:
    """Return the labels of all partitions, sorted, and the weight of each."""
    filled = [each for each in looked if each.n]
    labels, codes = np.unique(np.concatenate([each.labels for each in filled]), return_inverse=True)
    mass = np.bincount(codes, weights=np.concatenate([each.mass for each in filled]), minlength=len(labels))
    return labels, mass


def _prepared(X: Any, y: Any, weights: Any, own: Shared) -> Block:
    """Return a partition as a block: labels as codes, and the price of every row."""
    (labels, prices, features), X, y = own.value, _matrix(X), _vector(y)
    w = np.ones(len(y)) if weights is None else np.asarray(_vector(weights), dtype=np.float64)
    if labels is None:
        target, price = y.astype(np.float64), prices[0] * w
    else:
        target = np.searchsorted(labels, y)
        price = prices[target] * w
    return Block(X if features is None else features(X), target, price)


def _whole(X: Any, y: Any, weights: Any) -> tuple[Any, Array, Array | None]:
    return _matrix(X), _vector(y), None if weights is None else _vector(weights)


def _stacked(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else canonical(vstack(parts, format="csr"))


def _taken(X: Any, y: Any, rows: Array) -> tuple[Any, Array]:
    return _matrix(X)[rows], _vector(y)[rows]


def _spread(X: Any, weights: Any, mean: float) -> float:
    """Return the sum of (x - mean)^2, each times the weight of its row."""
    X = _matrix(X)
    w = np.ones(X.shape[0]) if weights is None else np.asarray(_vector(weights), dtype=np.float64)
    values, rows = (X.data, np.diff(X.indptr)) if issparse(X) else (X.reshape(-1), np.full(len(X), X.shape[1]))
    own = np.repeat(w, rows)
    empty = float(w.sum() * X.shape[1] - own.sum())  # zeros that are not stored
    return float(own @ (values - mean) ** 2) + empty * mean**2


def _memory() -> float:
    """Return how many bytes the workers of the current client have together, or else this machine."""
    try:
        from distributed import get_client

        workers = get_client().scheduler_info(n_workers=-1)["workers"].values()
    except (ImportError, ValueError, TypeError):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else 4e9
    return float(sum(worker["memory_limit"] or 0 for worker in workers))
