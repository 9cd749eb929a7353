"""Kernels: similarity of two samples. Values come one block of pairs at a time, by GEMM, in the precision of X.

A kernel is a frozen dataclass with ``name``, ``is_psd``, ``block(left, right)`` and ``diagonal(points)``.
"""

import math
from typing import Any

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.parameters import POSITIVE, Given, Number, OneOf, Whole, checked
from softmargin.kernels.formulas import CallableKernel, Laplacian, Linear, Polynomial, Precomputed, Rbf, Sigmoid
from softmargin.kernels.points import Points, slices

__all__ = [
    "GAMMA",
    "KERNEL",
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
    "scaled_gamma",
]

KERNELS: dict[str, Any] = {kernel.name: kernel for kernel in (Linear, Rbf, Laplacian, Polynomial, Sigmoid, Precomputed)}
_ENTRIES = 1 << 17  # entries of X whose squares are summed at once
_SHORT = {"poly": "polynomial"}  # scikit-learn's SVC says "poly"


def _is_kernel(value: Any) -> bool:
    """Say whether a value is a kernel object or a function; a class is neither."""
    is_object = hasattr(value, "block") and hasattr(value, "diagonal")
    return (is_object or callable(value)) and not isinstance(value, type)


GAMMA = (OneOf("scale", "auto"), POSITIVE)
KERNEL = (OneOf(*KERNELS, *_SHORT), Given("a callable", _is_kernel))
_NUMBERS = {"gamma": POSITIVE, "degree": Whole(1), "coef0": Number()}


def make_kernel(kernel: Any, *, gamma: float = 1.0, degree: int = 3, coef0: float = 0.0) -> Any:
    """Return the kernel of that name with its settings; a callable, or a kernel object, is taken as it is.

    Parameters
    ----------
    kernel : str, callable or kernel object
    gamma : float
        A number; ``find_gamma`` makes one of "scale" and "auto".
    degree, coef0
        Settings of the polynomial (both) and sigmoid (coef0) kernels.

    Examples
    --------
    >>> from softmargin import make_kernel
    >>> make_kernel("polynomial", gamma=0.5, degree=2)
    Polynomial(gamma=0.5, degree=2, coef0=0.0)
    """
    checked("kernel", kernel, *KERNEL)
    if not isinstance(kernel, str):
        return kernel if hasattr(kernel, "block") and hasattr(kernel, "diagonal") else CallableKernel(kernel)
    name = _SHORT.get(kernel, kernel)
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    fields = [key for key in given if key in KERNELS[name].__dataclass_fields__]
    return KERNELS[name](**{key: checked(key, given[key], _NUMBERS[key]) for key in fields})


def find_gamma(gamma: Any, X: Any) -> float:
    """Return gamma as a number: "scale" is 1 / (d var(X)), "auto" is 1 / d, as in scikit-learn."""
    gamma = checked("gamma", gamma, *GAMMA)
    if not isinstance(gamma, str):
        return float(gamma)
    d = int(X.shape[1])
    if gamma == "auto":
        return 1.0 / d
    entries = X.ravel(order="K") if isinstance(X, np.ndarray) else X.data
    n_entries = float(X.shape[0]) * d
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.float64(entries.sum(dtype=np.float64)) / n_entries
        # Two passes, as the difference of two large means would lose every digit of a small variance.
        blocks = (entries[block].astype(np.float64) - mean for block in slices(entries.size, _ENTRIES))
        spread = sum((block @ block for block in blocks), np.float64(0.0))
        variance = (spread + (n_entries - entries.size) * mean**2) / n_entries
    return scaled_gamma(d, float(variance))


def scaled_gamma(d: int, variance: float) -> float:
    """Return 1 / (d variance), 1 where all entries are equal; refuse a variance that a float cannot hold."""
    gamma = 1.0 / (d * variance) if variance > 0.0 else 1.0
    if not (math.isfinite(variance) and 0.0 < gamma < math.inf):
        raise DataError(
            f"gamma='scale' is 1 / (d var(X)), and the variance of X is {variance:g}: beyond what a number can hold. "
            "Scale the features, or give gamma as a number."
        )
    return gamma
