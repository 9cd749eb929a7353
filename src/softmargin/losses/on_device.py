"""Gaps of dual rows by the array API standard, for arrays on a device.

The formulas are those of ``multiclass_hinge``, in whole arrays: labels are a mask (m, k), as arrays of some libraries
can be neither indexed by lists nor written to.
"""

from typing import Any

__all__ = ["row_gaps"]


def row_gaps(xp: Any, multiclass: str, alpha: Any, scores: Any, labels: Any, C: Any) -> Any:
    """Return <alpha_i, s_i> - alpha_iy + C_i l_i(s_i) of every row, (m, 1); labels (m, k) and C (m, 1) are float64."""
    # maths: linear SVM, eq. 9.
    own = xp.sum(scores * labels, axis=1, keepdims=True)
    h = scores - own + 1.0 - labels
    if multiclass == "crammer_singer":
        losses = xp.max(h, axis=1, keepdims=True)
    else:
        losses = xp.sum(xp.maximum(h, xp.zeros_like(h)), axis=1, keepdims=True)
    return xp.sum(alpha * (scores - labels), axis=1, keepdims=True) + C * losses
