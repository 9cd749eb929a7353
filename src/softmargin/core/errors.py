"""The errors of softmargin: every message says what was required, what was found and what to do."""

__all__ = ["DataError", "IncompatibleError", "ModelFileError", "SoftmarginError"]


class SoftmarginError(Exception):
    """Base of everything softmargin raises on purpose; the command line prints it in one line."""


class DataError(SoftmarginError, ValueError):
    """The data cannot be used as they are: wrong shape, NaN, one class, a damaged file."""


class IncompatibleError(SoftmarginError, ValueError):
    """A solver, problem or setting does not fit the others."""


class ModelFileError(SoftmarginError, ValueError):
    """A model or checkpoint file is damaged, truncated or of another format."""
