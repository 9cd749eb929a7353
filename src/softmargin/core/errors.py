"""The errors of softmargin: every message says what was required, what was found and what to do."""

import re

__all__ = ["DataError", "IncompatibleError", "ModelFileError", "SoftmarginError", "one_line", "visible"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return text whose control characters are written out: names of files may hold commands for terminals."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Return text as one line that a terminal shows as it is."""
    return visible(" ".join(text.split()))


class SoftmarginError(Exception):
    """Base of everything softmargin raises on purpose; the command line prints it in one line."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(visible(text) if isinstance(text, str) else text for text in args))


class DataError(SoftmarginError, ValueError):
    """The data cannot be used as they are: wrong shape, NaN, one class, a damaged file."""


class IncompatibleError(SoftmarginError, ValueError):
    """A solver, problem or setting does not fit the others."""


class ModelFileError(SoftmarginError, ValueError):
    """A model or checkpoint file is damaged, truncated or of another format."""
