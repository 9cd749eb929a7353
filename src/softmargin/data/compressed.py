"""Compressed files, recognised by their first bytes."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from typing import IO, Any, cast

from softmargin.core.errors import DataError

__all__ = ["COMPRESSIONS", "READ_ERRORS", "compressed", "decompressed", "peekable"]

COMPRESSIONS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz"}
READ_ERRORS = (EOFError, lzma.LZMAError, zlib.error, OSError, MemoryError)  # of a damaged or truncated file


def peekable(file: Any, source: str) -> Any:
    """Return a binary file whose first bytes can be looked at without reading them."""
    if hasattr(file, "peek"):
        return file
    content = file.read()
    if isinstance(content, str):
        raise DataError(f"{source}: opened as text. Open it in binary mode, open(path, 'rb').")
    return io.BufferedReader(io.BytesIO(content))


def decompressed(file: Any) -> IO[bytes]:
    """Return a file that reads what is in a peekable ``file``, compressed or not; the caller closes ``file``."""
    magic = file.peek(8)[:8]
    suffix = next((suffix for start, suffix in COMPRESSIONS.items() if magic.startswith(start)), None)
    return file if suffix is None else cast("IO[bytes]", compressed(file, suffix, "rb"))


def compressed(file: Any, suffix: str | None, mode: Any) -> Any:
    """Return a file that reads or writes ``file`` in the compression of that suffix; the caller closes ``file``."""
    if suffix is None:
        return contextlib.nullcontext(file)
    if suffix == ".gz":
        return gzip.GzipFile(filename="", fileobj=file, mode=mode, mtime=0)
    return (bz2.BZ2File if suffix == ".bz2" else lzma.LZMAFile)(file, mode)
