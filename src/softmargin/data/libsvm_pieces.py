"""Pieces of LIBSVM files that can be read apart: ranges of bytes with whole lines; a compressed file is one piece."""

import io
import os
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.files import open_binary
from softmargin.data.compressed import COMPRESSIONS
from softmargin.data.libsvm import LONGEST_LINE, assembled, parsed_blocks
from softmargin.data.libsvm_text import Rows

__all__ = ["LookedPiece", "Piece", "pieces"]

_COUNTED_BYTES = 1 << 20  # read at once where lines are counted


class LookedPiece(NamedTuple):
    """What the rows of a piece are like."""

    n: int
    width: int  # highest index
    labels: np.ndarray  # none, of the type that they have


class Piece(NamedTuple):
    """Whole lines of a file."""

    name: str
    low: int = 0
    high: int | None = None  # None: all of the file

    def look(self, n_features: int | None) -> LookedPiece:
        """Read the rows, and tell what they are like; there may be none."""
        blocks = self._blocks(n_features)
        if not blocks:
            return LookedPiece(0, 0, np.empty(0))
        width = max(int(rows.indices.max(initial=-1)) + 1 for rows in blocks)
        return LookedPiece(sum(len(rows.labels) for rows in blocks), width, assembled(blocks, width, self.name)[1][:0])

    def read(self, n_features: int, kind: Any) -> tuple[Any, np.ndarray]:
        """Return X and y, the labels in a type that those of all pieces have."""
        X, y = assembled(self._blocks(n_features), n_features, self.name)
        return X, y.astype(kind, copy=False)

    def _blocks(self, n_features: int | None) -> list[Rows]:
        if self.high is None:
            return list(parsed_blocks(self.name, n_features))
        with open_binary(self.name, error=DataError) as file:
            file.seek(self.low)
            text = file.read(self.high - self.low)
        try:
            return list(parsed_blocks(_Text(text, self.name), n_features))
        except DataError:
            if self.low == 0:
                raise
        # Once more, for an error that names the line of the file.
        return list(parsed_blocks(_Text(text, self.name), n_features, first_line=1 + self._lines_before()))

    def _lines_before(self) -> int:
        n, left = 0, self.low
        with open_binary(self.name, error=DataError) as file:
            while left and (text := file.read(min(_COUNTED_BYTES, left))):
                n, left = n + text.count(b"\n"), left - len(text)
        return n


class _Text(io.BytesIO):
    """A part of a file, under its name."""

    def __init__(self, text: bytes, name: str) -> None:
        super().__init__(text)
        self.name = name


def pieces(path: str | os.PathLike[str], n_bytes: int) -> list[Piece]:
    """Cut a file of plain text into pieces of about ``n_bytes``."""
    name = os.fspath(path)
    with open_binary(name, error=DataError) as file:
        magic, size, cuts = file.read(8), file.seek(0, os.SEEK_END), [0]
        if size <= n_bytes or magic.startswith(tuple(COMPRESSIONS)):
            return [Piece(name)]
        while cuts[-1] + n_bytes < size:
            file.seek(cuts[-1] + n_bytes)
            if not file.readline(LONGEST_LINE).endswith(b"\n"):  # the last line, or one that the reader refuses
                break
            cuts.append(file.tell())
    return [Piece(name, low, high) for low, high in pairwise([*cuts, size]) if low < high]
