"""Warnings that point at the line of the user's program, whatever libraries its call has gone through."""

import sys
import warnings
from types import FrameType

__all__ = ["warn_caller"]

# Packages between a program and us: searches and pipelines, their threads, decorators.
_BETWEEN = {"softmargin", "sklearn", "joblib", "contextlib", "functools", "concurrent", "threading"}


def warn_caller(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn at the nearest line that is of none of these packages."""
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=2 if frame is None else level)  # a thread may have no such line
