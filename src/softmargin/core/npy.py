r"""NumPy's array format, read without evaluating anything and without believing it.

    \x93NUMPY  major minor  length of the header  {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }  numbers

NumPy reads the header as a Python expression (``ast.literal_eval``) and makes room for the shape that it names: a
file of 200 bytes can take 745 GiB, or end in a TokenError. Here the header must have the form that NumPy writes, and
the numbers must be there before room is made for them.
"""

from __future__ import annotations

import math
import re
from typing import IO, NamedTuple

import numpy as np

__all__ = ["MAGIC", "Header", "read_array", "read_header"]

MAGIC = b"\x93NUMPY"
# NumPy's own limit for headers that it does not trust; ours of numbers and text have some 100 bytes.
_LONGEST_HEADER = 10_000
_MOST_AXES = 32
_PIECE_BYTES = 1 << 20
_LARGEST_CHARACTER = 0x10FFFF
_ENTRY = re.compile(
    r"""\s*(?:'descr'\s*:\s*'(?P<descr>[^'\\]{1,20})'
    |'fortran_order'\s*:\s*(?P<fortran>True|False)
    |'shape'\s*:\s*\((?P<shape>[0-9,\sL]{0,1000})\))\s*(?:,|(?=\}))""",
    re.VERBOSE,
)
_SIZES = re.compile(r"\s*(?:[0-9]{1,19}L?\s*,\s*)*(?:[0-9]{1,19}L?\s*)?")
_TYPE = re.compile(r"[<>|=]?[biufcSU][0-9]{1,9}")


class Header(NamedTuple):
    """What an array is, and how many bytes its numbers take."""

    dtype: np.dtype
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def n_bytes(self) -> int:
        """Return the bytes after the header, exactly: no product of sizes overflows."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header, up to the first number; ValueError where it is not as NumPy writes it."""
    start = file.read(8)
    if start[:6] != MAGIC or len(start) < 8:
        raise ValueError("it does not start as NumPy arrays do")
    if start[6] not in (1, 2, 3):
        raise ValueError(f"its format is version {start[6]}.{start[7]}, which is unknown")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes; at most {_LONGEST_HEADER} are read")
    content = file.read(length)
    if len(content) < length:
        raise ValueError("it ends within its header")
    return _parsed(content.decode("utf-8" if start[6] == 3 else "latin-1"))


def _parsed(text: str) -> Header:
    fields: dict[str, str] = {}
    text, at = text.rstrip(" \n\0"), 1
    while entry := _ENTRY.match(text, at):
        fields |= {name: value for name, value in entry.groupdict().items() if value is not None}
        at = entry.end()
    if text[:1] != "{" or text[at:].strip() != "}" or len(fields) < 3 or not _SIZES.fullmatch(fields["shape"]):
        if "[(" in text:
            raise ValueError("it holds records; numbers and text are read")
        raise ValueError(f"its header is not one that NumPy writes: {text[:60]!r}")
    shape = tuple(int(size.strip().rstrip("L")) for size in fields["shape"].split(",") if size.strip())
    if len(shape) > _MOST_AXES:
        raise ValueError(f"it has {len(shape)} axes; at most {_MOST_AXES} are read")
    return Header(_type(fields["descr"]), shape, fields["fortran"] == "True")


def _type(descr: str) -> np.dtype:
    if "O" in descr:
        raise ValueError(
            "it is an object array, which needs a pickle and is not opened: save numbers, or text as dtype=str"
        )
    if not _TYPE.fullmatch(descr):
        raise ValueError(f"its type is {descr!r}; numbers and text are read")
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ValueError(f"its type is {descr!r}, which NumPy does not know ({problem})") from problem
    if not dtype.itemsize:
        raise ValueError(f"its type is {descr!r}, which holds nothing")
    return dtype


def read_array(file: IO[bytes], n_bytes: int) -> np.ndarray:
    """Read the array at the start of ``file``, of which ``n_bytes`` can be read at most; ValueError with the reason.

    No room is made for numbers that are not there.
    """
    header = read_header(file)
    if header.n_bytes > n_bytes:
        shape = " x ".join(map(str, header.shape))
        raise ValueError(f"its header tells of {shape} numbers, {header.n_bytes} bytes; at most {n_bytes} are there")
    numbers = np.empty(math.prod(header.shape), dtype=header.dtype)
    room, done = numbers.view(np.uint8), 0
    while done < len(room):
        piece = file.read(min(_PIECE_BYTES, len(room) - done))
        if not piece:
            raise ValueError(f"it ends after {done} of {len(room)} bytes")
        room[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    check_text(numbers)
    return numbers.reshape(header.shape, order="F" if header.is_fortran else "C")


def check_text(array: np.ndarray) -> None:
    """Refuse text with numbers that are no characters: Python cannot hold it."""
    if array.dtype.kind == "U" and array.size:
        codes = array.reshape(-1).view(np.uint32)
        codes = codes if array.dtype.isnative else codes.byteswap()
        if codes.max() > _LARGEST_CHARACTER:
            raise ValueError("its text holds numbers that are no characters")
