"""Kernels: similarity of two samples. Values come one block of pairs at a time, by GEMM, in the precision of X.

A kernel is a frozen dataclass with ``name``, ``is_psd``, ``block(left, right)`` and ``diagonal(points)``.
"""

import math
from typing import Any

import numpy as np

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.kernels.formulas import CallableKernel, Laplacian, Linear, Polynomial, Precomputed, Rbf, Sigmoid
from softmargin.kernels.points import Points, slices

__all__ = [
    "KERNELS",
    "CallableKernel",
    "Laplacian",
    "Linear",
    "Points",
    "Polynomial",
    "Precomputed",
    "Rbf",
    "Sigmoid",
    "find_gamma",
    "make_kernel",
]

KERNELS: dict[str, Any] = {kernel.name: kernel for kernel in (Linear, Rbf, Laplacian, Polynomial, Sigmoid, Precomputed)}
_ENTRIES = 1 << 17  # entries of X whose squares are summed at once
_SHORT = {"poly": "polynomial"}  # scikit-learn's SVC says "poly"


def make_kernel(kernel: Any, *, gamma: float = 1.0, degree: int = 3, coef0: float = 0.0) -> Any:
    """Return the kernel of that name with its settings; a callable, or a kernel object, is taken as it is.

    Parameters
    ----------
    kernel : str, callable or kernel object
    gamma : float
        A number; ``find_gamma`` makes one of "scale" and "auto".
    degree, coef0
        Settings of the polynomial (both) and sigmoid (coef0) kernels.
    """
    if not isinstance(kernel, str):
        if hasattr(kernel, "block") and hasattr(kernel, "diagonal"):
            return kernel
        if callable(kernel):
            return CallableKernel(kernel)
        raise IncompatibleError(f"kernel must be a name, a callable or a kernel object; found {kernel!r}.")
    name = _SHORT.get(kernel, kernel)
    if name not in KERNELS:
        raise IncompatibleError(f"kernel={kernel!r} is unknown; choose one of {', '.join(KERNELS)}, or a callable.")
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    fields = KERNELS[name].__dataclass_fields__
    if "gamma" in fields and not (_is_finite(gamma) and gamma > 0):
        raise DataError(f"gamma must be a finite number > 0; found {gamma!r}. find_gamma reads 'scale' and 'auto'.")
    if "coef0" in fields and not _is_finite(coef0):
        raise DataError(f"coef0 must be a finite number; found {coef0!r}.")
    if "degree" in fields and not (isinstance(degree, int | np.integer) and degree >= 1):
        raise DataError(f"degree must be an integer >= 1; found {degree!r}.")
    return KERNELS[name](**{key: value for key, value in given.items() if key in fields})


def find_gamma(gamma: Any, X: Any) -> float:
    """Return gamma as a number: "scale" is 1 / (d var(X)), "auto" is 1 / d, as in scikit-learn."""
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise DataError(f"gamma={gamma!r} is unknown; use 'scale', 'auto' or a number > 0.")
        d = int(X.shape[1])
        if gamma == "auto":
            return 1.0 / d
        entries = X.ravel(order="K") if isinstance(X, np.ndarray) else X.data
        n_entries = float(X.shape[0]) * d
        mean = float(entries.sum(dtype=np.float64)) / n_entries
        # Two passes, as the difference of two large means would lose every digit of a small variance.
        blocks = (entries[block].astype(np.float64) - mean for block in slices(entries.size, _ENTRIES))
        variance = (sum(float(block @ block) for block in blocks) + (n_entries - entries.size) * mean**2) / n_entries
        return 1.0 / (d * variance) if variance > 0 else 1.0
    if not (_is_finite(gamma) and gamma > 0):
        raise DataError(f"gamma must be 'scale', 'auto' or a finite number > 0; found {gamma!r}.")
    return float(gamma)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)
