"""Many files, or large ones, as Dask collections that workers read when they need them.

LIBSVM text      arrays with blocks of CSR: ranges of bytes of plain text, a partition for every compressed file. One
                 pass finds rows, columns and the type of the labels, and refuses what is not well-formed
.npy             arrays: ranges of rows; labels in files of their own
.parquet         data frames, by Dask's own reader
"""

import glob
import os
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data.arrays import npy_labels, npy_length, npy_rows
from softmargin.data.libsvm_pieces import LookedPiece, Piece, pieces
from softmargin.data.table import LABEL_NAMES, is_table, named_column

__all__ = ["read_dask"]

_LABELS_SUFFIX = ".y.npy"


def read_dask(
    pattern: str | os.PathLike[str],
    *,
    labels: str | None = None,
    n_features: int | None = None,
    blocksize: int | str = "64MiB",
) -> tuple[Any, Any]:
    """Return (X, y) of all files that match a pattern, in the order of their names, as Dask collections.

    Parameters
    ----------
    pattern : str
        ``"part-*.libsvm.gz"``, ``"X-*.npy"`` or ``"part-*.parquet"``, or the name of one file. Every worker must see
        the files under these names.
    labels : str, optional
        Of .npy files, the pattern of those that hold y, as many and in the same order; without it they are
        ``NAME.y.npy`` beside ``NAME.npy``. Of Parquet files, the column that is y; without it the one that is called
        label, target, class or y. LIBSVM files hold y themselves.
    n_features : int, optional
        Columns of LIBSVM files; without it, the highest index in any of them.
    blocksize : int or str, default="64MiB"
        About how many bytes of a file are a partition. Compressed files are not cut.
    """
    names = [name for name in _matching(os.fspath(pattern)) if labels is not None or not name.endswith(_LABELS_SUFFIX)]
    kinds = {next((kind for kind in ("npy", "npz", "parquet") if name.endswith("." + kind)), "") for name in names}
    if len(kinds) > 1:
        raise DataError(f"{pattern}: files of several formats match; give a pattern for one of them.")
    from dask.utils import parse_bytes

    n_bytes, kind = max(int(parse_bytes(blocksize)), 1), kinds.pop()
    if kind == "parquet":
        return _parquet_files(names, labels, os.fspath(pattern))
    if kind == "npz" or (not kind and any(map(is_table, names))):
        raise IncompatibleError(
            f"{pattern}: LIBSVM text, .npy and .parquet files are read in parts; read a table by "
            "dask.dataframe.read_csv, and pass its columns, or save X as .npy."
        )
    if kind == "npy":
        return _npy_files(names, None if labels is None else _matching(labels), n_bytes)
    if labels is not None:
        raise IncompatibleError(f"{pattern}: LIBSVM files hold their labels; leave out labels={labels!r}.")
    return _libsvm_files(names, n_features, n_bytes)


def _matching(pattern: str) -> list[str]:
    names = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern))
    if not names:
        raise DataError(f"{pattern}: no file matches; the pattern is that of the shell, with * and ?.")
    return names


def _parquet_files(names: list[str], labels: str | None, source: str) -> tuple[Any, Any]:
    from dask.dataframe import read_parquet

    try:
        frame = read_parquet(names)
    except (OSError, ValueError) as problem:
        raise DataError(f"{source}: the files are no Parquet, or damaged ({problem}).") from problem
    columns = list(frame.columns)
    label = next((name for word in LABEL_NAMES for name in columns if str(name).lower() == word), None)
    if labels is None and label is None:
        raise IncompatibleError(f"{source}: say which column holds the labels, labels=NAME; there are {columns}.")
    label = label if labels is None else named_column(columns, labels, source, "labels=")
    return frame.drop(columns=[label]), frame[label]


def _npy_files(names: list[str], labels: list[str] | None, n_bytes: int) -> tuple[Any, Any]:
    """Return arrays of all rows, cut as those of X."""
    if labels is not None and len(names) != len(labels):
        raise DataError(f"{len(names)} files hold rows and {len(labels)} hold labels; there must be as many of both.")
    import dask
    import dask.array as da

    X, y, width = [], [], 0
    for i, name in enumerate(names):
        n, like = npy_length(name), npy_rows(name, slice(0, 1))
        width = width or like.shape[1]
        if like.shape[1] != width:
            raise DataError(f"{name}: X has {like.shape[1]} columns, that of {names[0]} has {width}; they must agree.")
        own = npy_labels(name, n, None if labels is None else labels[i])
        step = max(n_bytes // max(like.nbytes, 1), 1)
        for low, high in pairwise([*range(0, n, step), n]):
            part = dask.delayed(_rows_of)(name, low, high)
            X.append(da.from_delayed(part, (high - low, width), dtype=like.dtype))
            y.append(da.from_array(own[low:high], chunks=-1))
    if not X:
        raise DataError(f"{names[0]}: no file holds a row.")
    return da.concatenate(X), da.concatenate(y)


def _rows_of(name: str, low: int, high: int) -> Any:
    return np.array(npy_rows(name, slice(low, high)), order="C")


def _libsvm_files(names: list[str], n_features: int | None, n_bytes: int) -> tuple[Any, Any]:
    import dask
    import dask.array as da

    parts = [piece for name in names for piece in pieces(name, n_bytes)]
    looked = dask.compute(*[dask.delayed(Piece.look)(piece, n_features) for piece in parts])
    filled = [(piece, look) for piece, look in zip(parts, looked, strict=True) if look.n]
    if not filled:
        raise DataError(f"{names[0]}: no file holds a row; they are empty, or hold only comments.")
    d = n_features or max(look.width for _, look in filled)
    if d == 0:
        raise DataError(f"{names[0]}: no row has an entry, so the number of columns is unknown. Give n_features.")
    kind = _common_kind(filled)
    X, y = [], []
    for piece, look in filled:
        rows = dask.delayed(Piece.read, nout=2)(piece, d, kind)
        X.append(da.from_delayed(rows[0], (look.n, d), dtype=np.float64, meta=csr_matrix((0, d))))
        y.append(da.from_delayed(rows[1], (look.n,), dtype=kind))
    return da.concatenate(X), da.concatenate(y)


def _common_kind(filled: list[tuple[Piece, LookedPiece]]) -> Any:
    """Return the type that holds all labels; refuse text beside numbers."""
    first, own = filled[0][0], filled[0][1].labels.dtype
    for piece, look in filled:
        if (look.labels.dtype.kind == "U") != (own.kind == "U"):
            a, b = ("text", "numbers") if own.kind == "U" else ("numbers", "text")
            raise DataError(
                f"{piece.name}: its labels are {b}, those of {first.name} are {a}. Use numbers only, or text only."
            )
    return np.result_type(*[look.labels.dtype for _, look in filled])
