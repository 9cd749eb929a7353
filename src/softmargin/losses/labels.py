"""Where the labels' entries are in an array with one row for every sample."""

import numpy as np

from softmargin.core.pieces import Array

__all__ = ["at_labels"]


def at_labels(P: Array, y: Array) -> tuple[Array, Array]:
    """Return the entries of a contiguous array (n, k) as a flat view, and where in it those of the labels are; (n,).

    NumPy finds them there several times as fast as by two indices.
    """
    n, k = P.shape
    if P.flags.f_contiguous:
        return P.T.reshape(-1), np.multiply(y, n, dtype=np.int64) + np.arange(n)
    return P.reshape(-1), np.arange(0, n * k, k) + y
