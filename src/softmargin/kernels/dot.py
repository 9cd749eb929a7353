"""Kernels of the inner product: linear, polynomial, sigmoid."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.kernels.points import Points, products

__all__ = ["Linear", "Polynomial", "Sigmoid"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Linear:
    """k(a, b) = <a, b>."""

    name: ClassVar[str] = "linear"
    is_psd: ClassVar[bool] = True

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs; shape (len(left), len(right))."""
        return products(left, right)

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a); shape (n,)."""
        return points.sqnorms.copy()


def _affine(left: Points, right: Points, gamma: float, coef0: float) -> Array:
    """Return gamma <a, b> + coef0 for all pairs."""
    inner = products(left, right)
    inner *= gamma
    inner += coef0
    return inner


@dataclass(frozen=True)
class Polynomial:
    """k(a, b) = (gamma <a, b> + coef0)^degree."""

    gamma: float
    degree: int = 3
    coef0: float = 0.0

    name: ClassVar[str] = "polynomial"

    @property
    def is_psd(self) -> bool:
        """Whether the kernel matrix is positive semi-definite for all data."""
        return self.coef0 >= 0 and self.gamma >= 0

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs; shape (len(left), len(right))."""
        inner = _affine(left, right, self.gamma, self.coef0)
        return np.power(inner, self.degree, out=inner)

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a); shape (n,)."""
        return (self.gamma * points.sqnorms + self.coef0) ** self.degree


@dataclass(frozen=True)
class Sigmoid:
    """k(a, b) = tanh(gamma <a, b> + coef0); rarely positive semi-definite."""

    gamma: float
    coef0: float = 0.0

    name: ClassVar[str] = "sigmoid"
    is_psd: ClassVar[bool] = False

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs; shape (len(left), len(right))."""
        inner = _affine(left, right, self.gamma, self.coef0)
        return np.tanh(inner, out=inner)

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a); shape (n,)."""
        return np.tanh(self.gamma * points.sqnorms + self.coef0)
