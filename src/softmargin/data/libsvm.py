"""LIBSVM (svmlight) text files: `label index:value index:value ...`, indices from 1, plain or compressed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.files import atomic_write, open_binary
from softmargin.core.sparse import checked_sparse
from softmargin.core.threads import n_threads, spread
from softmargin.data.compressed import COMPRESSIONS, READ_ERRORS, compressed, decompressed, peekable
from softmargin.data.libsvm_text import Rows, checked, is_text_label, parse

__all__ = ["assembled", "parsed_blocks", "read_libsvm", "read_libsvm_chunks", "read_libsvm_noted", "write_libsvm"]

_Source = str | os.PathLike[str] | IO[bytes]
# Small enough that the arrays of a block stay in the cache, large enough that the calls of NumPy cost nothing.
_BLOCK_BYTES = 1 << 19
# A million entries. Without a limit, a small compressed file of one line takes as many gigabytes as it likes.
LONGEST_LINE = 1 << 24
_ROWS_PER_WRITE = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
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
        int64 if every label is a whole number, else float64; text where all labels are text.

    Raises
    ------
    DataError
        With the line number, for a line that is not well-formed; for a truncated or damaged compressed file; for a
        file without rows.
    """
    return read_libsvm_noted(path_or_file, n_features, dtype, zero_based=zero_based)[:2]


def read_libsvm_noted(
    path_or_file: _Source, n_features: int | None = None, dtype: Any = np.float64, *, zero_based: bool = False
) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    """Read as `read_libsvm` does, and return also what a user should know of the file."""
    notes, source = list[str](), _name(path_or_file)
    blocks = list(parsed_blocks(path_or_file, n_features, dtype, zero_based, notes))
    return *assembled(blocks, n_features, source), tuple(dict.fromkeys(notes))


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
    source, waiting = _name(path_or_file), list[Rows]()
    n_waiting, n_seen, width = 0, 0, n_features or 1
    for block in parsed_blocks(path_or_file, n_features, dtype):
        for rows in _cut(block, n_rows - n_waiting, n_rows):
            waiting.append(rows)
            n_waiting += len(rows.labels)
            n_seen += len(rows.labels)
            width = max(width, int(rows.indices.max(initial=-1)) + 1)
            if n_waiting == n_rows:
                yield assembled(waiting, width, source)
                waiting, n_waiting = [], 0
    if waiting or not n_seen:
        yield assembled(waiting, width, source)


def _cut(rows: Rows, first: int, size: int) -> Iterator[Rows]:
    """Yield the first rows, then pieces of ``size``."""
    ends = np.concatenate([[0], np.cumsum(rows.counts)])
    labels, counts, indices, values, lines = rows
    low = 0
    for high in [*range(first, len(rows.labels), size), len(rows.labels)]:
        some, entries = slice(low, high), slice(ends[low], ends[high])
        yield Rows(labels[some], counts[some], indices[entries], values[entries], lines[some])
        low = high


def _name(path_or_file: _Source) -> str:
    if isinstance(path_or_file, str | os.PathLike):
        return os.fspath(path_or_file)
    return str(getattr(path_or_file, "name", "the file given"))


def _text_of(file: IO[bytes], source: str) -> IO[bytes]:
    """Return a file that reads the text; refuse what is known to be none."""
    buffered = peekable(file, source)
    magic = buffered.peek(8)[:8]
    for start, what in _NOT_TEXT.items():
        if magic.startswith(start):
            raise DataError(f"{source}: not a LIBSVM text file, but {what}.")
    return decompressed(buffered)


def _blocks_of_lines(stream: IO[bytes], source: str) -> Iterator[bytes]:
    """Yield blocks of whole lines; refuse a line that would take gigabytes to parse."""
    unfinished: list[bytes] = []
    at_the_top, n_lines, n_unfinished = True, 0, 0
    while True:
        try:
            block = stream.read(_BLOCK_BYTES)
        except EOFError as problem:
            what = "the compressed file is truncated, its end is missing"
            raise DataError(f"{source}: {what}. Copy it again.") from problem
        except READ_ERRORS as problem:
            raise DataError(f"{source}: the file is damaged and cannot be read ({problem}).") from problem
        if at_the_top:
            block, at_the_top = block.removeprefix(_BYTE_ORDER_MARK), False
        if not block:
            break
        # Lines of old Macs end in a carriage return alone; at the end of a block it may be half of a Windows line end.
        cut = (block.rfind(b"\n") + 1) or (block.rfind(b"\r", 0, -1) + 1)
        if cut:
            yield b"".join([*unfinished, block[:cut]])
            n_lines += block.count(b"\n", 0, cut)
            unfinished, n_unfinished = [], 0
        unfinished.append(block[cut:])
        n_unfinished += len(block) - cut
        if n_unfinished > LONGEST_LINE:
            raise DataError(
                f"{source}, line {n_lines + 1}: the line has more than {LONGEST_LINE >> 20} MiB. LIBSVM files have "
                "one row per line; save rows of so many entries with np.savez."
            )
    if any(unfinished):
        yield b"".join(unfinished)


def _numbered_blocks(stream: IO[bytes], source: str, line: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first line of every block, and the block with line ends of Unix."""
    for text in _blocks_of_lines(stream, source):
        if b"\r" in text:  # line ends of Windows
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        yield line, text
        line += text.count(b"\n")


def parsed_blocks(
    path_or_file: _Source,
    n_features: int | None,
    dtype: Any = np.float64,
    zero_based: bool = False,
    notes: list[str] | None = None,
    first_line: int = 1,
) -> Iterator[Rows]:
    """Yield the rows of a file, block by block; the text may begin at a later line of the file that it is named for."""
    source, kind = _name(path_or_file), ""
    opened: contextlib.AbstractContextManager[IO[bytes]] = (
        open_binary(path_or_file, error=DataError)
        if isinstance(path_or_file, str | os.PathLike)
        else contextlib.nullcontext(path_or_file)
    )
    with opened as file:
        texts = _numbered_blocks(_text_of(file, source), source, first_line)
        while some := list(islice(texts, n_threads())):
            if notes is not None and any(b" qid:" in text for _, text in some):
                notes.append(f"{source}: `qid:` groups are left out; nothing here ranks within groups.")
            for rows in spread(lambda block: parse(block[1], source=source, first_line=block[0]), some):
                if len(rows.labels):
                    if kind not in ("", rows.labels.dtype.kind):
                        raise DataError(
                            f"{source}, line {rows.lines[0]}: label {str(rows.labels[0])!r}, but before it some are "
                            f"{'numbers' if kind == 'f' else 'text'}. Use numbers only, or text only."
                        )
                    kind = rows.labels.dtype.kind
                    yield checked(rows, source, n_features, dtype, zero_based)


def assembled(blocks: list[Rows], n_features: int | None, source: str) -> tuple[Any, np.ndarray]:
    """Return X and y of the blocks of a file; without ``n_features``, X is as wide as the highest index."""
    if not blocks:
        raise DataError(f"{source}: no rows found; the file is empty or holds only comments.")
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
    if labels.dtype.kind == "U":
        return X, labels
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
        Numbers, or text without spaces, colons, commas and ``#``.
    """
    from scipy.sparse import csr_matrix

    rows = csr_matrix(checked_sparse(X))
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    labels = np.asarray(y)
    if labels.shape != (rows.shape[0],):
        raise DataError(f"y has shape {labels.shape}; X has {rows.shape[0]} rows. Give one label per row.")
    if labels.dtype.kind not in "biufU":
        raise DataError(f"labels of type {labels.dtype} cannot be written to a LIBSVM file. Number the classes.")
    if labels.dtype.kind == "U":
        strange = next((label for label in labels.tolist() if not is_text_label(label)), None)
        if strange is not None:
            raise DataError(
                f"the label {strange!r} cannot be written to a LIBSVM file: it is empty, a number, or holds a space, "
                "colon, comma or '#'. Number the classes."
            )
    if rows.dtype.kind not in "biuf":
        raise DataError(f"values of type {rows.dtype} cannot be written to a LIBSVM file. Use real numbers.")
    if not (np.isfinite(rows.data).all() and (labels.dtype.kind == "U" or np.isfinite(labels).all())):
        raise DataError("X or y holds NaN or infinity, which a LIBSVM file cannot. Fill in or drop these rows.")
    suffix = next((suffix for suffix in COMPRESSIONS.values() if os.fspath(path).endswith(suffix)), None)
    with atomic_write(path, error=DataError) as file, compressed(file, suffix, "wb") as out:
        for start in range(0, rows.shape[0], _ROWS_PER_WRITE):
            part = slice(start, min(start + _ROWS_PER_WRITE, rows.shape[0]))
            out.write("".join(_lines(rows[part], _numbers(labels[part]))).encode())


def _numbers(array: np.ndarray) -> list[str]:
    """Return the shortest text of each number that reads back the same."""
    if array.dtype.kind == "U":
        return [str(text) for text in array]
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    # tolist() makes Python floats: 0.1 as float32 would get 17 digits.
    texts = map(repr, array.tolist()) if array.dtype.kind in "iu" or array.dtype == np.float64 else array.astype(str)
    return [str(text).removesuffix(".0") for text in texts]


def _lines(rows: Any, labels: list[str]) -> Iterator[str]:
    columns = (rows.indices.astype(np.int64) + 1).tolist()
    values = _numbers(rows.data)
    for label, start, stop in zip(labels, rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
        yield label + "".join(f" {columns[at]}:{values[at]}" for at in range(start, stop)) + "\n"
