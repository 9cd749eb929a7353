"""Sparse matrices from outside: their index arrays are checked once, before SciPy or a compiled loop follows them.

SciPy checks lengths when a matrix is built, and nothing when its arrays are changed later. Its conversions, products
and slices are C++ that trusts the indices, as our own loops do: a wrong one reads or writes beyond an array. Its
``check_format(full_check=True)`` changes the matrix of the caller, and overlooks a bad ``indptr`` that ends at 0.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError

__all__ = ["checked_sparse"]

Array = NDArray[Any]
_UNSIGNED = {4: np.uint32, 8: np.uint64}  # by the bytes of an index
_FARTHEST = 2**31 - 1  # SciPy computes with offsets of diagonals in int32


def checked_sparse(X: Any, name: str = "X") -> Any:
    """Return X, or refuse a sparse matrix whose arrays do not fit together; anything else is returned unread.

    The time is linear, one pass over the indices. X is not changed. What is returned shares its arrays, unless it
    stores entries beyond its last row, or index arrays of unequal or unusual types, which SciPy allows.
    """
    if not hasattr(X, "tocsr"):
        return X
    if len(X.shape) != 2:
        raise DataError(
            f"{name} has shape {X.shape}; a matrix (n, d) is needed. Use {name}.reshape(1, -1) for one row."
        )
    return _CHECKS.get(getattr(X, "format", ""), _converted)(X, name)


def _compressed(X: Any, name: str) -> Any:
    """Check CSR, CSC and BSR: row i has the entries indptr[i] to indptr[i + 1]."""
    data, indices, indptr = np.asarray(X.data), np.asarray(X.indices), np.asarray(X.indptr)
    _demand_integers(X, name, "indices", indices)
    _demand_integers(X, name, "indptr", indptr)
    layout, (n, d) = X.format, X.shape
    if data.dtype.kind not in "biufc":
        _refuse(X, name, f"its values are of type {data.dtype}")
    if data.ndim != (3 if layout == "bsr" else 1) or len(data) != len(indices):
        _refuse(X, name, f"data has shape {data.shape} and indices {indices.shape}")
    if layout == "csc":
        n, d = d, n
    elif layout == "bsr":
        height, width = data.shape[1:]
        if 0 in data.shape[1:] or n % height or d % width:
            _refuse(X, name, f"it is made of blocks of shape {data.shape[1:]}")
        n, d = n // height, d // width
    if len(indptr) != n + 1:
        _refuse(X, name, f"indptr has {len(indptr)} numbers, not {n + 1}")
    stored = int(indptr[-1])
    if indptr[0] != 0 or stored > len(indices):
        _refuse(X, name, f"indptr goes from {indptr[0]} to {stored}, but {len(indices)} entries are stored")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        _refuse(X, name, f"indptr falls from {indptr[i]} to {indptr[i + 1]} at position {i + 1}")
    is_plain = stored == len(indices) and all(map(_is_plain, (data, indices, indptr)))
    if is_plain and indices.dtype == indptr.dtype and indices.itemsize in _UNSIGNED:
        _demand_range(X, name, "indices", indices, d)
        return X
    _demand_range(X, name, "indices", indices[:stored], d)
    values = data[:stored].astype(data.dtype.newbyteorder("="))
    return type(X)((values, indices[:stored].astype(np.int64), indptr.astype(np.int64)), shape=X.shape)


def _is_plain(array: Array) -> bool:
    """Say whether a compiled loop can walk an array by its pointer."""
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def _coordinates(X: Any, name: str) -> Any:
    row, col, data = (np.asarray(part) for part in (X.row, X.col, X.data))
    _demand_integers(X, name, "row", row)
    _demand_integers(X, name, "col", col)
    if not data.shape == row.shape == col.shape:
        _refuse(X, name, f"data has shape {data.shape}, row {row.shape} and col {col.shape}")
    _demand_range(X, name, "row", row, X.shape[0])
    _demand_range(X, name, "col", col, X.shape[1])
    return X


def _diagonals(X: Any, name: str) -> Any:
    data, offsets = np.asarray(X.data), np.asarray(X.offsets)
    _demand_integers(X, name, "offsets", offsets)
    if data.ndim != 2 or len(data) != len(offsets):
        _refuse(X, name, f"data has shape {data.shape} and offsets {offsets.shape}")
    if offsets.size and max(-int(offsets.min()), int(offsets.max())) > max(_FARTHEST, *X.shape):
        _refuse(X, name, f"offsets reach from {offsets.min()} to {offsets.max()}")
    return X


def _lists(X: Any, name: str) -> Any:
    rows, data = np.asarray(X.rows, dtype=object), np.asarray(X.data, dtype=object)
    if not rows.shape == data.shape == (X.shape[0],) or [*map(len, rows)] != [*map(len, data)]:
        _refuse(X, name, "its lists of columns and of values differ in length")
    return _converted(X, name)


def _converted(X: Any, name: str) -> Any:
    """Check a layout that has no arrays of its own (lists, dictionaries, other libraries) as CSR."""
    try:
        rows = X.tocsr()
    except (ValueError, IndexError, TypeError, OverflowError) as problem:  # of SciPy, which looks at what it converts
        _refuse(X, name, str(problem))
    return _compressed(rows, name)


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "csr": _compressed,
    "csc": _compressed,
    "bsr": _compressed,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
}


def _demand_integers(X: Any, name: str, part: str, array: Array) -> None:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        _refuse(X, name, f"{part} has shape {array.shape} and type {array.dtype}, not a list of whole numbers")


def _demand_range(X: Any, name: str, part: str, indices: Array, size: int) -> None:
    if not len(indices):
        return
    if indices.itemsize in _UNSIGNED and indices.dtype.isnative:
        # As unsigned numbers, negative ones are larger than any size: one pass instead of two.
        is_within = indices.view(_UNSIGNED[indices.itemsize]).max() < size
    else:
        is_within = int(indices.min()) >= 0 and int(indices.max()) < size
    if not is_within:
        _refuse(X, name, f"{part} reach from {indices.min()} to {indices.max()}, outside 0..{size - 1}")


def _refuse(X: Any, name: str, found: str) -> NoReturn:
    raise DataError(
        f"{name} is a damaged {getattr(X, 'format', 'sparse').upper()} matrix of shape {X.shape}: {found}. "
        "Its arrays were changed, or given wrongly; build it again, e.g. scipy.sparse.coo_matrix((data, (row, col)))."
    )
