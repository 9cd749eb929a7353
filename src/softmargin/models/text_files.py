"""What the text files of LIBLINEAR and LIBSVM share: a first word, a header of named values, a body of numbers."""

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from softmargin.core.errors import IncompatibleError, ModelFileError
from softmargin.core.files import open_binary

__all__ = ["TextFormat", "checked_classes", "last_line"]


class TextFormat(NamedTuple):
    """How the text files of a library begin."""

    library: str
    kind: str
    """The first word: the entry that says how a model was trained."""
    body: str
    """The line after which the numbers come."""
    numbers: str
    """What they are."""
    required: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def _magic(self) -> bytes:
        return f"{self.kind} ".encode("ascii")

    def is_start_of(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether the file at `path` starts as such a model does; False if it cannot be read."""
        try:
            with open(path, "rb") as file:
                return file.read(len(self._magic)) == self._magic
        except OSError:
            return False

    def read_lines(self, path: str | os.PathLike[str]) -> list[str]:
        """Return all lines of a file; ModelFileError if it does not start as such a model does."""
        with open_binary(path) as file:
            start = file.read(len(self._magic))
            if start != self._magic:
                start += file.read(40).partition(b"\n")[0]
                raise ModelFileError(
                    f"{os.fspath(path)!r} is not a {self.library} model: it starts with {start[:40]!r}."
                )
            return (start + file.read()).decode("utf-8", "replace").split("\n")

    def writable_labels(self, classes: np.ndarray) -> list[int]:
        """Return labels for a file; refuse those that are no integers of C."""
        bounds = np.iinfo(np.int32)
        if classes.dtype.kind not in "iu" or classes.min() < bounds.min or classes.max() > bounds.max:
            raise IncompatibleError(
                f"{self.library} files hold integer labels of 32 bits; this model has labels such as "
                f"{classes[-1].item()!r}. Number the classes, or use model.save."
            )
        return list(classes.tolist())

    def read_header(
        self, lines: Sequence[str], known: Collection[str], refusal: str, shown: str
    ) -> tuple[dict[str, str], int]:
        """Return the header of a classifier, and how many lines it has.

        ``known`` are the ways to train one; ``refusal`` says that another one is none.
        """
        header: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            key, _, value = line.strip().partition(" ")
            if key == self.body:
                break
            if key not in (*self.required, *self.others, ""):
                raise ModelFileError(f"{shown!r}, line {number}: unknown entry {key[:40]!r} before {self.body!r}.")
            header[key] = value.strip()
        else:
            raise ModelFileError(f"{shown!r} is truncated: the line {self.body!r} and the {self.numbers} are missing.")
        if header[self.kind] not in known:
            raise ModelFileError(
                f"{shown!r}: {self.kind} {header[self.kind][:40]} is {refusal}; it reads {', '.join(known)}."
            )
        missing = [key for key in self.required if key not in header]
        if missing:
            raise ModelFileError(f"{shown!r}: the header lacks {', '.join(missing)}.")
        return header, number


def checked_classes(labels: np.ndarray, k: int, shown: str) -> None:
    """Refuse labels that are not k different ones."""
    if len(labels) != k or len(np.unique(labels)) != k or k < 2:
        raise ModelFileError(
            f"{shown!r}: nr_class is {k} and the labels are {str(labels.tolist())[:200]}; "
            "a classifier has at least 2 classes and a different label for each."
        )


def last_line(lines: Sequence[str], first: int) -> int:
    """Return where the body ends that starts at ``first``: empty lines at the end do not count."""
    last = len(lines)
    while last > first and not lines[last - 1].strip():
        last -= 1
    return last
