"""Labels of classes that no classifier can take, named for whoever brought them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from softmargin.core.errors import DataError

__all__ = ["naming_bad_labels"]


@contextmanager
def naming_bad_labels(y: Any, name: str = "y") -> Iterator[None]:
    """Where checks stumble over labels of this name, say which are missing, or that they cannot be sorted together."""
    try:
        yield
    except (TypeError, ValueError) as error:
        labels = np.asarray(y)
        if isinstance(error, DataError) or labels.dtype != object or labels.ndim != 1:
            raise
        missing = [i for i, label in enumerate(labels) if _is_missing(label)]
        if missing:
            raise DataError(
                f"{name} has no label in {len(missing)} of {len(labels)} samples, the first at {missing[0]} "
                f"({labels[missing[0]]!r}). Drop these samples, or give them a label of their own."
            ) from error
        kinds = sorted({type(label).__name__ for label in labels})
        if len(kinds) > 1:
            raise DataError(
                f"{name} holds labels of several types: {', '.join(kinds)}. Give all as text, astype(str), or all as "
                "whole numbers."
            ) from error
        raise


def _is_missing(label: Any) -> bool:
    """Say whether a label is None, NaN or NA: no such value equals itself, or None."""
    is_itself = label == label
    return label is None or not (isinstance(is_itself, bool | np.bool_) and is_itself)
