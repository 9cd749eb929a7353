"""A set of matrices whose points are vectors: for scores <A_i, W>, one number for a whole matrix of weights.

With rows vec(A_i) of X and weights vec(W), (d k, 1), these are the linear scores of one target; the set sees W itself.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.protocols import Array
from softmargin.core.rounding import Rounded

__all__ = ["Shaped"]


@dataclass(frozen=True)
class _Flat:
    """A corner as a vector."""

    corner: Any  # of the set of matrices
    matrix: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """(d k, 1)."""
        return math.prod(self.matrix), 1

    def toarray(self) -> Array:
        """Return it as an array."""
        return np.asarray(self.corner.toarray().reshape(-1, 1))

    def times(self, X: Any) -> Array:
        """Return X W."""
        return np.asarray(X @ self.toarray())

    def inner(self, G: Array) -> float:
        """Return <W, G>."""
        return float(self.corner.inner(G.reshape(self.matrix)))

    def sqnorm(self) -> float:
        """Return |W|^2."""
        return float(self.corner.sqnorm())

    def add_to(self, W: Array, step: float) -> None:
        """Add a multiple of it to an array."""
        self.corner.add_to(W.reshape(self.matrix), step)


@dataclass(frozen=True)
class Shaped:
    """A set of matrices of a shape, of one ``ball`` such as the trace ball; its points are vectors (d k, 1)."""

    ball: Any
    shape: tuple[int, int]

    @property
    def radius(self) -> float:
        """The radius of the ball."""
        return float(self.ball.radius)

    def _matrix(self, V: Array) -> Array:
        if V.size != math.prod(self.shape) or V.shape[1] != 1:
            raise DataError(
                f"weights of shape {V.shape} are no matrices of shape {self.shape}; X needs {math.prod(self.shape)} "
                "columns, one for each entry, and there must be one target."
            )
        return np.ascontiguousarray(V).reshape(self.shape)

    def project(self, V: Array) -> Array:
        """Return the nearest point."""
        return np.asarray(self.ball.project(self._matrix(V)).reshape(-1, 1))

    def lmo(self, G: Array) -> _Flat:
        """Return a corner that minimises <W, G>."""
        return _Flat(self.ball.lmo(self._matrix(G)), self.shape)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>."""
        return float(self.ball.least(self._matrix(Z), l2))

    def size(self, W: Array) -> float:
        """Return how much of the ball W uses."""
        return float(self.ball.size(self._matrix(W)))

    def excess(self, W: Array) -> float:
        """Return by which share W is outside, at most; inf beyond rounding."""
        return float(self.ball.excess(self._matrix(W)))

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value, for a Z within this Euclidean distance of an exact one; (1,).

        No column is further away than the whole, nor are all of them together: sets use only the largest error and
        the norm of all, so the whole is charged to one column.
        """
        spread = np.zeros(self.shape[1])
        spread[0] = errors[0]
        least: Rounded = self.ball.least_below(self._matrix(Z), l2, spread)
        return least

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return float(self.ball.squared_diameter(self.shape))
