"""The Hessian of the losses of one column of scores, with the best intercept for every w."""

from typing import Any

import numpy as np

from softmargin.core.deadline import check_time
from softmargin.core.protocols import Array
from softmargin.core.threads import wide_blas
from softmargin.matrices.operator import FEW

__all__ = ["class_hessian"]


def class_hessian(A: Any, h: Array, *, is_centred: bool) -> Array:
    """Return A' (diag h - h h' / sum h) A from the rows with curvature; A' diag h A where it is not centred."""
    r, curved = A.shape[1], np.flatnonzero(h)
    check_time(len(curved) * float(r) ** 2)
    H, pull = np.zeros((r, r)), np.zeros(r)
    rows = max(FEW // max(r, 1), 1)
    for first in range(0, len(curved), rows):
        part = curved[first : first + rows]
        roots, block = np.sqrt(h[part]), A[part]
        Z = (block if isinstance(block, np.ndarray) else block.toarray()) * roots[:, None]
        with wide_blas(Z.size * float(r)):
            H += Z.T @ Z
        pull += roots @ Z
    if is_centred and len(curved):
        H -= np.outer(pull, pull) / h.sum()
    return H
