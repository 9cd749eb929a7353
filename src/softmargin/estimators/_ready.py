"""Data that can be trained on as they come. Nothing is refused here: whoever hears no looks closer."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

__all__ = ["is_ready", "ready_labels"]

_EXACT = 2.0**53  # below it, a float64 without a fraction is one whole number and no other


def is_ready(X: Any) -> bool:
    """Say whether X needs no conversion: a C-ordered array or CSR matrix, not empty, of finite float32 or float64."""
    values: Any = X
    if type(X) is np.ndarray:
        is_plain = X.flags.c_contiguous
    else:
        is_plain = issparse(X) and X.format == "csr"
        values = X.data if is_plain else None
    if not is_plain or X.ndim != 2 or 0 in X.shape or X.dtype not in (np.float64, np.float32):
        return False
    # A sum needs no temporary array; one that overflows asks for a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def ready_labels(y: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the sorted classes of y and the code of every label; None where y may not be labels of a classifier.

    Labels are whole numbers or text, of at least two classes. More than two that are many for so few samples may be
    meant as numbers.
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "biufU":
        return None
    classes, codes = np.unique(y, return_inverse=True)
    if y.dtype.kind == "f":
        values = classes.astype(np.float64)
        if not ((np.abs(values) < _EXACT) & (np.floor(values) == values)).all():
            return None
    return (classes, codes) if len(classes) == 2 or 2 < len(classes) <= 0.5 * len(y) else None
