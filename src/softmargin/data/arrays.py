"""NumPy files: `.npz` with X (or the parts of a CSR matrix) and y, and `.npy` with y beside it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from softmargin.core import npy
from softmargin.core.archive import open_zip, read_member
from softmargin.core.errors import DataError
from softmargin.core.files import blaming, open_binary
from softmargin.core.sparse import checked_sparse

__all__ = ["npy_labels", "npy_length", "npy_rows", "read_npy", "read_npz"]

_CSR_PARTS = ("data", "indices", "indptr", "shape")
_WHAT_TO_SAVE = (
    "Save dense data by np.savez(path, X=X, y=y), sparse by np.savez(path, data=X.data, "
    "indices=X.indices, indptr=X.indptr, shape=X.shape, y=y) with X in CSR form."
)


def read_npz(path: str | os.PathLike[str]) -> tuple[Any, np.ndarray]:
    """Read X and y from an `.npz` file, without pickle.

    The file holds ``X`` (dense), or ``data``, ``indices``, ``indptr`` and ``shape`` (CSR, as
    `scipy.sparse.save_npz` names them), and ``y``.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix, shape (n, d)
        float32 or float64; other numbers become float64. CSR rows are sorted, repeated entries added up.
    y : ndarray, shape (n,)

    Raises
    ------
    DataError
        For a missing, truncated or damaged file, missing keys, object arrays, parts that do not fit.
    """
    source = os.fspath(path)
    parts = _members(path, source)
    if "y" not in parts:
        raise DataError(f"{source}: found {_listed(parts)}, but no 'y' (the labels). {_WHAT_TO_SAVE}")
    if "X" in parts:
        X: Any = _as_floats(parts["X"], source)
    elif any(name in parts for name in _CSR_PARTS):
        X = _csr(parts, source)
    else:
        raise DataError(f"{source}: found {_listed(parts)}, but neither 'X' nor CSR parts. {_WHAT_TO_SAVE}")
    return X, _as_labels(parts["y"], X.shape[0], source)


def read_npy(path: str | os.PathLike[str]) -> tuple[np.ndarray, np.ndarray]:
    """Open a dense matrix `name.npy` as a memory map, with its labels from `name.y.npy` beside it.

    Returns
    -------
    X : ndarray, shape (n, d)
        Mapped from the disk, read-only, where it is float32 or float64; else a float64 copy.
    y : ndarray, shape (n,)
    """
    source = os.fspath(path)
    if source.endswith(".y.npy"):
        matrix = source.removesuffix(".y.npy") + ".npy"
        raise DataError(f"{source} holds labels. Give the matrix, {matrix!r}; its labels are found beside it.")
    X = npy_rows(source)
    return X, npy_labels(source, X.shape[0])


def npy_rows(source: str, rows: slice = slice(None)) -> np.ndarray:
    """Open some rows of a matrix as a memory map, or as a copy where they are not of float32 or float64."""
    return _as_floats(_open_npy(source, is_mapped=True), source, rows)


def npy_length(source: str) -> int:
    """Return how many rows a file has."""
    return len(_open_npy(source, is_mapped=True))


def npy_labels(source: str, n: int, path: str | None = None) -> np.ndarray:
    """Read the labels of a matrix of n rows: from a path, or from the file beside it."""
    labels = source.removesuffix(".npy") + ".y.npy" if path is None else path
    if not os.path.exists(labels):
        raise DataError(
            f"{source}: no labels found. Save them beside it, np.save({labels!r}, y), "
            "or put both in one file, np.savez(path, X=X, y=y)."
        )
    return _as_labels(_open_npy(labels, is_mapped=False), n, labels)


def _members(path: str | os.PathLike[str], source: str) -> dict[str, np.ndarray]:
    with open_binary(path, error=DataError) as file, blaming(source, error=DataError):
        if file.read(4) != b"PK\x03\x04":
            raise DataError(f"{source}: not an .npz file (no zip archive). {_WHAT_TO_SAVE}")
        with open_zip(file) as archive:
            infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            names = [name for name in infos if name in ("X", "y", "format", *_CSR_PARTS)]
            parts = {name: _member(archive, infos[name], name, source) for name in names}
            return parts or {name: np.empty(0) for name in infos}


def _member(archive: Any, info: Any, name: str, source: str) -> np.ndarray:
    try:
        return read_member(archive, info)
    except ValueError as problem:
        raise DataError(f"{source}: {name!r} cannot be read, {problem}. {_WHAT_TO_SAVE}") from problem


def _open_npy(source: str, *, is_mapped: bool) -> np.ndarray:
    with open_binary(source, error=DataError) as file, blaming(source, error=DataError):
        if file.read(6) != npy.MAGIC:
            raise DataError(f"{source}: not a .npy file. Write it with np.save.")
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        if not is_mapped:
            return npy.read_array(file, size)
        header, start = npy.read_header(file), file.tell()
        if header.n_bytes > size - start:
            raise ValueError(f"{header.n_bytes} bytes of numbers are needed, {size - start} are there")
        order: Any = "F" if header.is_fortran else "C"
        if header.n_bytes == 0:
            return np.empty(header.shape, header.dtype, order)
        return np.memmap(file, header.dtype, "r", start, header.shape, order)


def _as_floats(X: np.ndarray, source: str, rows: slice = slice(None)) -> np.ndarray:
    if X.ndim != 2:
        raise DataError(f"{source}: X has shape {X.shape}; a matrix (n, d) is needed.")
    if X.dtype.kind not in "biuf":
        raise DataError(f"{source}: X has type {X.dtype}; real numbers are needed.")
    return X[rows] if X.dtype in (np.float32, np.float64) else X[rows].astype(np.float64)


def _as_labels(y: np.ndarray, n: int, source: str) -> np.ndarray:
    if y.ndim != 1 and not (y.ndim == 2 and y.shape[1] > 0 and y.dtype.kind in "biuf"):
        raise DataError(
            f"{source}: y has shape {y.shape}; one label per row, shape ({n},), is needed, or numbers (n, k)."
        )
    if len(y) != n:
        raise DataError(f"{source}: X has {n} rows and y has {len(y)} labels. Give one label per row.")
    if y.dtype.kind not in "biufUS":
        raise DataError(f"{source}: y has type {y.dtype}; labels must be numbers or text.")
    return y


def _csr(parts: dict[str, np.ndarray], source: str) -> Any:
    from scipy.sparse import csr_matrix

    missing = [name for name in _CSR_PARTS if name not in parts]
    if missing:
        raise DataError(f"{source}: CSR parts {_listed(missing)} are missing. {_WHAT_TO_SAVE}")
    layout = parts["format"].tolist() if "format" in parts else "csr"
    layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
    if layout != "csr":
        raise DataError(f"{source}: the sparse matrix is stored as {layout!r}. Save X.tocsr() instead.")
    data, indices, indptr, shape = (parts[name] for name in _CSR_PARTS)
    if shape.shape != (2,) or any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
        raise DataError(f"{source}: indices, indptr and shape (two numbers) must be whole numbers. {_WHAT_TO_SAVE}")
    if any(part.ndim != 1 for part in (data, indices, indptr)):
        raise DataError(f"{source}: data, indices and indptr must be lists of numbers. {_WHAT_TO_SAVE}")
    n, d = (int(size) for size in shape)
    if n != len(indptr) - 1 or not 0 <= d <= np.iinfo(np.int64).max:
        raise DataError(
            f"{source}: the CSR parts do not fit together (shape {n} x {d}, {len(indptr)} entries of indptr). "
            f"{_WHAT_TO_SAVE}"
        )
    # Check first: with a column out of range, a compiled loop would read beyond the array.
    values = _as_floats(data[np.newaxis, :], source)[0]
    try:
        X = csr_matrix((values, indices.astype(np.int64), indptr.astype(np.int64)), shape=(n, d))
        X = checked_sparse(X)  # SciPy's own check overlooks a bad indptr that ends at 0
    except (ValueError, IndexError, DataError) as problem:
        raise DataError(f"{source}: the CSR parts do not fit together ({problem}). {_WHAT_TO_SAVE}") from problem
    X.sum_duplicates()
    if max(d, X.nnz) <= np.iinfo(np.int32).max:
        X = csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=(n, d))
    return X


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
