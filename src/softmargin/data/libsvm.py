"""LIBSVM (svmlight) text files: `label index:value index:value ...`, indices from 1, plain or compressed."""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any, cast

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.files import atomic_write
from softmargin.data.libsvm_text import LARGEST_EXACT, Rows, parse

__all__ = ["read_libsvm", "read_libsvm_chunks", "write_libsvm"]

# Small enough that the arrays of a block stay in the cache, large enough that the calls of NumPy cost nothing.
_BLOCK_BYTES = 1 << 19
_ROWS_PER_WRITE = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPRESSIONS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz"}
_NOT_TEXT = {
    b"PK\x03\x04": "a zip or .npz file; give it the suffix .npz and softmargin.data.load reads it",
    b"\x93NUMPY": "a .npy file; softmargin.data.load reads it under that suffix",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; recompress it with xz, gzip or bzip2",
}


def read_libsvm(
    path_or_file: str | os.PathLike[str] | IO[bytes],
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool = False,
) -> tuple[Any, np.ndarray]:
    """Read a LIBSVM file; gzip, bzip2 and xz are recognised by their first bytes.

    Comments after ``#``, blank lines and ``qid:`` tokens are skipped. Unsorted rows are sorted.
    Stored zeros are kept.

    Parameters
    ----------
    path_or_file : path-like or binary file
    n_features : int, optional
        Number of columns; without it, the highest index in the file.
    dtype : numpy dtype
        float64 or float32, of the values.
    zero_based : bool
        The first column is written as 0 (as `sklearn.datasets.dump_svmlight_file` does by default).

    Returns
    -------
    X : scipy.sparse.csr_matrix, shape (n, d)
        Sorted indices, int32 where they fit.
    y : ndarray, shape (n,)
        int64 if every label is a whole number, else float64.

    Raises
    ------
    DataError
        With the line number, for a line that is not well-formed; for a truncated or damaged compressed file; for a
        file without rows.
    """
    with _opened(path_or_file) as (file, source):
        blocks = list(_parsed_blocks(_decompressed(file, source), source, n_features, dtype, zero_based))
    if not blocks:
        raise DataError(f"{source}: no rows found; the file is empty or holds only comments.")
    return _assemble(blocks, n_features, source)


def read_libsvm_chunks(
    path_or_file: str | os.PathLike[str] | IO[bytes],
    *,
    n_rows: int,
    n_features: int | None = None,
    dtype: Any = np.float64,
) -> Iterator[tuple[Any, np.ndarray]]:
    """Read a LIBSVM file in chunks of ``n_rows`` rows, the last one smaller, in memory that is bounded for any length.

    As `read_libsvm`, but without ``n_features`` a chunk has as many columns as the highest index so far.

    Yields
    ------
    X, y
    """
    if n_rows < 1:
        raise DataError(f"n_rows must be at least 1; found {n_rows}.")
    with _opened(path_or_file) as (file, source):
        waiting: list[Rows] = []
        n_waiting, width = 0, 0 if n_features is None else n_features
        for block in _parsed_blocks(_decompressed(file, source), source, n_features, dtype, False):
            for rows in _cut(block, n_rows - n_waiting, n_rows):
                waiting.append(rows)
                n_waiting += len(rows.labels)
                width = max(width, int(rows.indices.max(initial=-1)) + 1)
                if n_waiting == n_rows:
                    yield _assemble(waiting, max(width, 1), source)
                    waiting, n_waiting = [], 0
        if waiting:
            yield _assemble(waiting, max(width, 1), source)
        elif width == 0:
            raise DataError(f"{source}: no rows found; the file is empty or holds only comments.")


def _cut(rows: Rows, first: int, size: int) -> Iterator[Rows]:
    """Yield the first rows, then pieces of ``size``."""
    ends = np.concatenate([[0], np.cumsum(rows.counts)])
    labels, counts, indices, values, lines = rows
    low = 0
    for high in [*range(first, len(rows.labels), size), len(rows.labels)]:
        some, entries = slice(low, high), slice(ends[low], ends[high])
        yield Rows(labels[some], counts[some], indices[entries], values[entries], lines[some])
        low = high


@contextlib.contextmanager
def _opened(path_or_file: str | os.PathLike[str] | IO[bytes]) -> Iterator[tuple[IO[bytes], str]]:
    """Yield a binary file and its name."""
    if not isinstance(path_or_file, str | os.PathLike):
        yield path_or_file, str(getattr(path_or_file, "name", "the file given"))
        return
    source = os.fspath(path_or_file)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path_or_file, "rb"))
        except OSError as problem:
            raise DataError(f"cannot read {source!r}: {problem.strerror or problem}.") from problem
        yield file, source


def _decompressed(file: IO[bytes], source: str) -> IO[bytes]:
    if not hasattr(file, "peek"):
        content = file.read()
        if isinstance(content, str):
            raise DataError(f"{source}: opened as text. Open it in binary mode, open(path, 'rb').")
        file = io.BufferedReader(io.BytesIO(content))
    magic = file.peek(8)[:8]
    for start, what in _NOT_TEXT.items():
        if magic.startswith(start):
            raise DataError(f"{source}: not a LIBSVM text file, but {what}.")
    suffix = next((suffix for start, suffix in _COMPRESSIONS.items() if magic.startswith(start)), None)
    return file if suffix is None else cast("IO[bytes]", _compressed(file, suffix, "rb"))


def _compressed(file: Any, suffix: str, mode: Any) -> Any:
    """Return a file that reads or writes ``file`` in the compression of that suffix."""
    if suffix == ".gz":
        import gzip

        return gzip.GzipFile(filename="", fileobj=file, mode=mode, mtime=0)
    if suffix == ".bz2":
        import bz2

        return bz2.BZ2File(file, mode)
    import lzma

    return lzma.LZMAFile(file, mode)


def _blocks_of_lines(stream: IO[bytes], source: str) -> Iterator[bytes]:
    """Yield blocks of whole lines, with the line ends of Windows converted."""
    import lzma

    unfinished: list[bytes] = []
    at_the_top = True
    while True:
        try:
            block = stream.read(_BLOCK_BYTES)
        except EOFError as problem:
            raise DataError(
                f"{source}: the compressed file is truncated, its end is missing. Copy it again."
            ) from problem
        except (lzma.LZMAError, zlib.error, OSError) as problem:
            raise DataError(f"{source}: the file is damaged and cannot be read ({problem}).") from problem
        if at_the_top:
            block, at_the_top = block.removeprefix(_BYTE_ORDER_MARK), False
        if not block:
            break
        cut = block.rfind(b"\n") + 1
        if cut:
            yield _plain_line_ends(b"".join([*unfinished, block[:cut]]))
            unfinished = []
        unfinished.append(block[cut:])
    if any(unfinished):
        yield _plain_line_ends(b"".join(unfinished))


def _plain_line_ends(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def _parsed_blocks(
    stream: IO[bytes], source: str, n_features: int | None, dtype: Any, zero_based: bool
) -> Iterator[Rows]:
    line = 1
    for text in _blocks_of_lines(stream, source):
        rows = parse(text, source=source, first_line=line)
        line += text.count(b"\n")
        if len(rows.labels):
            yield _checked(rows, source, n_features, dtype, zero_based)


def _checked(rows: Rows, source: str, n_features: int | None, dtype: Any, zero_based: bool) -> Rows:
    """Return columns from 0, sorted, within range; values in `dtype`; labels that a float holds exactly."""
    first = 0 if zero_based else 1
    columns = rows.indices - first
    row_of = np.repeat(np.arange(len(rows.counts)), rows.counts)

    def line(entry: int) -> int:
        return int(rows.lines[row_of[entry]])

    if (columns < 0).any():
        entry = int(np.argmax(columns < 0))
        index = int(rows.indices[entry])
        advice = "zero-based: read it with read_libsvm(..., zero_based=True), or add 1 to every index"
        raise DataError(
            f"{source}, line {line(entry)}: index {index} is below {first}, the first column. "
            + (f"The file seems to be {advice}." if index == 0 else "An index cannot be negative.")
        )
    if n_features is not None and (columns >= n_features).any():
        entry = int(np.argmax(columns >= n_features))
        raise DataError(
            f"{source}, line {line(entry)}: index {rows.indices[entry]} is out of range; "
            f"n_features={n_features} columns were asked for. Raise n_features, or leave it out."
        )
    with np.errstate(over="ignore"):
        values = rows.values.astype(dtype)
    if values.dtype.itemsize < rows.values.dtype.itemsize and not np.isfinite(values).all():
        entry = int(np.argmin(np.isfinite(values)))
        raise DataError(
            f"{source}, line {line(entry)}: value {rows.values[entry]!r} is too large for {values.dtype}. "
            "Read it with dtype=float64, or scale the features."
        )
    if (np.abs(rows.labels) > LARGEST_EXACT).any():
        row = int(np.argmax(np.abs(rows.labels) > LARGEST_EXACT))
        raise DataError(
            f"{source}, line {rows.lines[row]}: label {rows.labels[row]:.17g} is beyond 2**53, where whole "
            "numbers run together. Number the classes, 1, 2, 3, ..."
        )
    is_first_of_row = np.ones(len(columns), dtype=bool)
    is_first_of_row[1:] = row_of[1:] != row_of[:-1]
    if not (is_first_of_row[1:] | (columns[1:] > columns[:-1])).all():
        order = np.lexsort((columns, row_of))
        columns, values = columns[order], values[order]
        is_repeated = ~is_first_of_row[1:] & (columns[1:] == columns[:-1])
        if is_repeated.any():
            entry = int(np.argmax(is_repeated)) + 1
            raise DataError(
                f"{source}, line {line(entry)}: index {columns[entry] + first} appears twice in one row. "
                "Keep one of the two."
            )
    if columns.max(initial=0) < np.iinfo(np.int32).max:
        columns = columns.astype(np.int32)
    return rows._replace(indices=columns, values=values)


def _assemble(blocks: list[Rows], n_features: int | None, source: str) -> tuple[Any, np.ndarray]:
    from scipy.sparse import csr_matrix

    indices = np.concatenate([rows.indices for rows in blocks])
    values = np.concatenate([rows.values for rows in blocks])
    if n_features is None:
        if not len(indices):
            raise DataError(f"{source}: no row has an entry, so the number of columns is unknown. Give n_features.")
        n_features = int(indices.max()) + 1
    ends = np.cumsum(np.concatenate([[0], *(rows.counts for rows in blocks)]))
    if len(indices) <= np.iinfo(np.int32).max:
        ends = ends.astype(indices.dtype)
    X = csr_matrix((values, indices, ends), shape=(len(ends) - 1, n_features))
    labels = np.concatenate([rows.labels for rows in blocks])
    whole = labels.astype(np.int64)
    return X, whole if (whole == labels).all() else labels


def write_libsvm(path: str | os.PathLike[str], X: Any, y: Any) -> None:
    """Write a LIBSVM file, whole or not at all; ``.gz``, ``.bz2`` and ``.xz`` names are compressed.

    Numbers have the fewest digits that read back as the same number. All entries stored in a sparse `X` are written,
    also zeros; of a dense `X` only the nonzero ones. The file does not hold the number of columns: read it with
    `n_features` where the last ones are empty.

    Parameters
    ----------
    path : path-like
    X : array or sparse matrix, shape (n, d)
    y : array, shape (n,)
        Numbers.
    """
    from scipy.sparse import csr_matrix

    rows = csr_matrix(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    labels = np.asarray(y)
    if labels.shape != (rows.shape[0],):
        raise DataError(f"y has shape {labels.shape}; X has {rows.shape[0]} rows. Give one label per row.")
    if labels.dtype.kind not in "biuf":
        raise DataError(f"labels of type {labels.dtype} cannot be written to a LIBSVM file. Number the classes.")
    if rows.dtype.kind not in "biuf":
        raise DataError(f"values of type {rows.dtype} cannot be written to a LIBSVM file. Use real numbers.")
    if not (np.isfinite(rows.data).all() and np.isfinite(labels).all()):
        raise DataError("X or y holds NaN or infinity, which a LIBSVM file cannot. Fill in or drop these rows.")
    suffix = next((suffix for suffix in _COMPRESSIONS.values() if os.fspath(path).endswith(suffix)), None)
    with contextlib.ExitStack() as stack:
        out: Any = stack.enter_context(atomic_write(path, error=DataError))
        if suffix is not None:
            out = stack.enter_context(_compressed(out, suffix, "wb"))
        for start in range(0, rows.shape[0], _ROWS_PER_WRITE):
            part = slice(start, min(start + _ROWS_PER_WRITE, rows.shape[0]))
            out.write("".join(_lines(rows[part], _numbers(labels[part]))).encode("ascii"))


def _numbers(array: np.ndarray) -> list[str]:
    """Return the shortest text of each number that reads back the same."""
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    # tolist() makes Python floats: 0.1 as float32 would get 17 digits.
    texts = map(repr, array.tolist()) if array.dtype.kind in "iu" or array.dtype == np.float64 else array.astype(str)
    return [str(text).removesuffix(".0") for text in texts]


def _lines(rows: Any, labels: list[str]) -> Iterator[str]:
    columns = (rows.indices.astype(np.int64) + 1).tolist()
    values = _numbers(rows.data)
    for label, start, stop in zip(labels, rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
        entries = (f" {columns[at]}:{values[at]}" for at in range(start, stop))
        yield "".join(chain((label,), entries, "\n"))
