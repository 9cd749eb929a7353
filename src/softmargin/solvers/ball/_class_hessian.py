"""The Hessian of the losses of one column of scores, with the best intercept for every w."""

from typing import Any

import numpy as np

from softmargin.core.deadline import check_time
from softmargin.core.protocols import Array
from softmargin.core.threads import wide_blas
from softmargin.matrices.forms import FEW
from softmargin.matrices.operator import adjoint_product

__all__ = ["class_hessian"]


def class_hessian(A: Any, h: Array, *, is_centred: bool) -> Array:
    """Return A' (diag h - h h' / sum h) A from the rows with curvature; A' diag h A where it is not centred.

    The mean is subtracted from the rows: the difference of two sums of squares would leave rounding where features are
    far from zero.
    """
    r, curved = A.shape[1], np.flatnonzero(h)
    check_time(len(curved) * float(r) ** 2)
    H, rows = np.zeros((r, r)), max(FEW // max(r, 1), 1)
    mean = adjoint_product(A, h[:, None])[:, 0] / h.sum() if is_centred and len(curved) else np.zeros(r)
    for first in range(0, len(curved), rows):
        part = curved[first : first + rows]
        block = A[part]
        Z = (block if isinstance(block, np.ndarray) else block.toarray()) - mean
        Z *= np.sqrt(h[part])[:, None]
        with wide_blas(Z.size * float(r)):
            H += Z.T @ Z
    return H
