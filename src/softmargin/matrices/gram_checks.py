"""Checks of a given kernel matrix, and of kernels of unknown kind: square, finite, symmetric."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.kernels.points import TILE_NUMBERS, slices

__all__ = ["ROUNDING", "check_symmetric", "checked_matrix"]

Array = NDArray[Any]
ROUNDING = 1e-6  # eigenvalues and asymmetries below this share of the largest entry may be rounding


def check_symmetric(K: Array, index: Array) -> None:
    """Refuse a matrix whose entries (i, j) and (j, i) differ by more than rounding; ``index`` names its rows."""
    largest = max(float(K.max(initial=0.0)), -float(K.min(initial=0.0)))
    for rows in slices(len(K), max(1, TILE_NUMBERS // max(1, len(K)))):
        distance = np.abs(K[rows] - K[:, rows].T)
        if distance.max(initial=0.0) > ROUNDING * largest:
            i, j = np.unravel_index(int(distance.argmax()), distance.shape)
            i += rows.start
            raise DataError(
                f"the kernel is not symmetric: K[{index[i]}, {index[j]}] = {K[i, j]:.6g} but "
                f"K[{index[j]}, {index[i]}] = {K[j, i]:.6g}. Pass a symmetric one, such as (K + K') / 2."
            )


def checked_matrix(K: Any) -> Array:
    """Return a precomputed kernel matrix: square, finite and symmetric."""
    if not isinstance(K, np.ndarray):
        K = K.toarray()
    if K.shape[0] != K.shape[1]:
        raise DataError(
            f"a precomputed kernel needs the square matrix of all training samples; found shape {K.shape}. "
            "Pass K(X_train, X_train) to fit, K(X_test, X_train) to predict."
        )
    if not np.isfinite([K.min(initial=0.0), K.max(initial=0.0)]).all():  # min and max keep NaN
        i, j = np.argwhere(~np.isfinite(K))[0]
        raise DataError(f"the precomputed kernel has K[{i}, {j}] = {K[i, j]}; every entry must be a finite number.")
    check_symmetric(K, np.arange(len(K)))
    return np.asarray(K)
