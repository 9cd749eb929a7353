"""A kernel classifier: scores K(X, vectors) coef + intercept, and the label with the highest score."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from softmargin.core.archive import read_archive
from softmargin.core.errors import DataError
from softmargin.core.files import blaming
from softmargin.core.threads import n_threads, spread
from softmargin.kernels import KERNELS, Linear, Points, Precomputed, make_kernel
from softmargin.kernels.points import add_product, slices, tile_shape
from softmargin.models.linear import LinearModel
from softmargin.models.shapes import (
    Classifier,
    check_columns,
    checked_labels,
    checked_scores,
    floats,
    matrix,
    require_arrays,
)

__all__ = [
    "KernelExpansion",
    "checked_vectors",
    "given_sums",
    "kernel_meta",
    "kernel_sums",
    "stored_kernel",
    "stored_vectors",
    "vector_arrays",
]

_THREAD_TILE = 256, 512  # at most, where threads share the rows of X: 1 MB, as each has a second cache of its own
_THREAD_TILES = 4  # for each thread, at the least, so that all end at about the same time; by hand
_ARRAYS = ("classes", "coef", "intercept", "support")
_SPARSE_ARRAYS = ("data", "indices", "indptr")


@dataclass(frozen=True, eq=False)
class KernelExpansion(Classifier):
    """A trained kernel classifier: support vectors with weights; see `Classifier` for classes, intercept and info.

    Parameters
    ----------
    classes, intercept, info
    kernel : kernel object
    vectors : array or CSR matrix, shape (n_support, d); None for a precomputed kernel
        Kernel values are computed in their precision, or in that of X where it is higher.
    support : int array, shape (n_support,)
        Positions of the support vectors in the training data.
    n_samples : int
        Rows of the training data.
    coef : ndarray, shape (n_support, k), or (n_support, 1) for two classes
    """

    classes: np.ndarray
    kernel: Any
    vectors: Any
    support: np.ndarray
    n_samples: int
    coef: np.ndarray
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes, support = checked_labels(self.classes), np.asarray(self.support)
        coef, intercept = floats(self.coef), floats(self.intercept)
        columns = 1 if len(classes) == 2 else len(classes)
        if support.ndim != 1 or (support.size and support.dtype.kind not in "iu"):
            raise DataError(f"support has shape {support.shape}, type {support.dtype}; a list of positions is needed.")
        if support.size and not 0 <= support.min() <= support.max() < self.n_samples:
            raise DataError(
                f"support holds positions {support.min()}..{support.max()}; {self.n_samples} samples have "
                f"0..{self.n_samples - 1}."
            )
        if coef.shape != (len(support), columns):
            raise DataError(
                f"coef has shape {coef.shape}; {len(support)} support vectors and {len(classes)} classes need "
                f"shape ({len(support)}, {columns})."
            )
        if intercept.shape != (columns,):
            raise DataError(f"intercept has shape {intercept.shape}; {len(classes)} classes need shape ({columns},).")
        vectors = checked_vectors(self.vectors, self.kernel, len(support))
        support = support.astype(np.intp)
        checked = {"classes": classes, "support": support, "coef": coef, "intercept": intercept, "vectors": vectors}
        for name, value in {**checked, "n_samples": int(self.n_samples)}.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of columns of X: those of the training data, or its rows where the kernel is precomputed."""
        return self.n_samples if self.vectors is None else int(self.vectors.shape[1])

    @cached_property
    def as_linear(self) -> LinearModel:
        """The same model as weights; only of a linear kernel."""
        weights = np.zeros((self.n_features, self.coef.shape[1]))
        for rows in slices(len(self.support), tile_shape(self.n_features)[0]):
            weights += self.vectors[rows].astype(np.float64).T @ self.coef[rows]
        return LinearModel(self.classes, weights.T, self.intercept, self.info)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of every row, one tile of kernel values at a time.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d); K(X, training data), shape (n, n_samples), for a precomputed kernel
        """
        X = matrix(X)
        check_columns(X, self.n_features)
        if isinstance(self.kernel, Linear):
            return self.as_linear.decision_function(X)
        coef = self.coef.astype(np.float64)
        if self.vectors is None:
            sums = given_sums(X, self.support, coef)
        else:
            sums = kernel_sums(self.kernel, self.vectors, X, coef)
        return checked_scores(sums + self.intercept, len(self.classes))

    def fit_columns(self, X: Any) -> Any:
        """Return sparse `X` with exactly the model's columns; a precomputed kernel refuses any other number."""
        if self.vectors is None:
            check_columns(X := matrix(X), self.n_features)
            return X
        return super().fit_columns(X)

    def stored(self) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """Return what a file holds: the arrays and the meta of `docs/format.md`."""
        meta = {**kernel_meta(self.kernel), "n_samples": self.n_samples, "n_features": self.n_features}
        arrays = {**{each: getattr(self, each) for each in _ARRAYS}, **vector_arrays(self.vectors)}
        return arrays, {**meta, "info": self.info}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> KernelExpansion:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, meta = read_archive(path, kind=cls.__name__)
        require_arrays(arrays, _ARRAYS, path)
        with blaming(path, advice="Train again."):
            vectors = stored_vectors(arrays, (len(arrays["support"]), meta["n_features"]))
            values = {each: arrays[each] for each in _ARRAYS}
            return cls(
                kernel=stored_kernel(meta),
                vectors=vectors,
                n_samples=meta["n_samples"],
                info=dict(meta["info"]),
                **values,
            )


def kernel_meta(kernel: Any) -> dict[str, Any]:
    """Return what a file says of a kernel; refuse one that no file can hold."""
    name = getattr(kernel, "name", None)
    if type(kernel) is not KERNELS.get(str(name)):
        raise DataError(
            f"a model with the kernel {name or kernel!r} cannot be saved: a file holds numbers and text, no Python "
            f"function. Use one of {', '.join(KERNELS)}: 'precomputed' takes the matrix of any function."
        )
    return {"kernel": {"name": name, **dataclasses.asdict(kernel)}}


def stored_kernel(meta: Mapping[str, Any]) -> Any:
    """Return the kernel that a file tells of."""
    settings = dict(meta["kernel"])
    return make_kernel(settings.pop("name"), **settings)


def vector_arrays(vectors: Any) -> dict[str, np.ndarray]:
    """Return support vectors as the arrays of a file; none where there are no vectors."""
    if vectors is None or isinstance(vectors, np.ndarray):
        return {} if vectors is None else {"vectors": vectors}
    return {f"vectors_{part}": getattr(vectors, part) for part in _SPARSE_ARRAYS}


def given_sums(X: Any, support: Any, coef: np.ndarray) -> np.ndarray:
    """Return the columns of X that belong to support vectors, times their weights; (n, k)."""
    scores, (height, width) = np.zeros((X.shape[0], coef.shape[1])), tile_shape(1)
    # checked_scores reports non-finite scores, with the row; NumPy's own warning names none.
    with np.errstate(over="ignore", invalid="ignore"):
        for right in slices(len(support), width):
            for left in slices(X.shape[0], height):
                tile = X[left][:, support[right]]
                add_product(scores[left], tile if isinstance(tile, np.ndarray) else tile.toarray(), coef[right])
    return scores


def kernel_sums(kernel: Any, vectors: Any, X: Any, coef: np.ndarray) -> np.ndarray:
    """Return the kernel values between X and some vectors, times the weights of these, tile by tile; (n, k)."""
    scores = np.zeros((X.shape[0], coef.shape[1]))
    dtype = np.dtype(np.float32 if np.result_type(X.dtype, vectors.dtype) == np.float32 else np.float64)
    take = rows_of_X = _points_like(X, vectors, dtype)
    points = Points(vectors)
    origin = kernel.origin(points) if hasattr(kernel, "origin") else None
    if origin is not None:
        points, rows_of_X = points.moved(origin), lambda rows: take(rows).moved(origin)
    height, width = tile_shape(max(points.numbers_per_row, Points(X).numbers_per_row))
    if n_threads() > 1:
        share = -(-X.shape[0] // (_THREAD_TILES * n_threads()))
        height, width = min(height, _THREAD_TILE[0], max(share, 1)), min(width, _THREAD_TILE[1])
    parts = [(part, points.take(part)) for part in slices(len(points), width)]
    parts = [(part, some if some.X.dtype == dtype else some.widened()) for part, some in parts]

    def add_tiles(rows: slice) -> None:
        left = rows_of_X(rows)
        for part, right in parts:
            add_product(scores[rows], kernel.block(left, right), coef[part])

    with np.errstate(over="ignore", invalid="ignore"):
        spread(add_tiles, slices(X.shape[0], height))
    return scores


def checked_vectors(vectors: Any, kernel: Any, n_support: int) -> Any:
    """Return support vectors as a C-ordered array or canonical CSR; None for a precomputed kernel."""
    if isinstance(kernel, Precomputed):
        if vectors is not None:
            raise DataError("a precomputed kernel has no vectors; pass None, and the positions as support.")
        return None
    if vectors is None:
        raise DataError(f"the {kernel.name} kernel needs vectors of shape ({n_support}, d); found None.")
    vectors = matrix(vectors)
    if vectors.shape[0] != n_support:
        raise DataError(f"vectors has shape {vectors.shape}; {n_support} positions in support need as many rows.")
    if isinstance(vectors, np.ndarray):
        return np.ascontiguousarray(floats(vectors))
    if vectors.dtype not in (np.float32, np.float64):
        vectors = vectors.astype(np.float64)
    return _canonical(vectors)


def _canonical(X: Any) -> Any:
    """Return CSR without duplicates: squared norms are summed entry by entry."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _points_like(X: Any, vectors: Any, dtype: np.dtype[Any]) -> Callable[[slice], Points]:
    """Return a function from a slice to those rows of X, in the layout and the precision of the vectors."""
    if isinstance(X, np.ndarray) and isinstance(vectors, np.ndarray) and X.dtype == dtype:
        return Points(X).take

    def converted(rows: slice) -> Points:
        part = X[rows]
        if isinstance(part, np.ndarray):
            part = part.astype(dtype, copy=False)
            return Points(part if isinstance(vectors, np.ndarray) else type(vectors)(part))
        part = part.astype(dtype)
        return Points(part.toarray() if isinstance(vectors, np.ndarray) else _canonical(part))

    return converted


def stored_vectors(arrays: Mapping[str, np.ndarray], shape: tuple[int, int]) -> Any:
    """Return the support vectors of a file; None where it holds none."""
    if "vectors" in arrays:
        return arrays["vectors"]
    if not any(f"vectors_{part}" in arrays for part in _SPARSE_ARRAYS):
        return None
    from scipy.sparse import csr_matrix

    data, indices, indptr = (arrays[f"vectors_{part}"] for part in _SPARSE_ARRAYS)
    if any(part.dtype.kind not in "iu" for part in (indices, indptr)):
        raise DataError(f"the indices of its vectors are of type {indices.dtype} and {indptr.dtype}.")
    return csr_matrix((data, indices, indptr), shape=shape)
