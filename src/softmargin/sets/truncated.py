"""The leading singular triples of a matrix that is known by its products, for a ball that keeps only these. Spec 1.5.

Block subspace iteration: Q = orth(M V), B = M' Q, and the singular triples of B' are those of M within span Q. It
starts from the right basis of an earlier, similar matrix, so that one sweep is often enough. Two tests end it:

    enough columns     the least singular value computed is at most theta, the threshold of those computed: then all
                       that were not computed would be shrunk to zero; else the columns double
    enough sweeps      M' u - s v is small for all triples above theta, u and v being what the sweep began with; where
                       values are so close that many sweeps do not do, more columns will

Where half of all triples are asked for, M is formed and decomposed as a whole.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, svd

from softmargin.sets.atoms import LowRank

__all__ = ["SPARE", "Matrix", "Triples", "first_basis", "is_whole", "leading"]

Array = NDArray[Any]
SPARE = 8  # columns beyond the rank: they make room for a growing rank, and sweeps quick
MAX_SWEEPS = 10
WHOLE = 0.5  # from this share of all triples on, a whole decomposition is cheaper
ROUNDING = 1e-13  # singular values and errors below this share of the largest value are none


class Matrix(Protocol):
    """A matrix (d, k) known by its products."""

    shape: tuple[int, int]

    def times(self, V: Array) -> Array:
        """Return M V; (d, b)."""
        ...

    def adjoint(self, Q: Array) -> Array:
        """Return M' Q; (k, b)."""
        ...

    def toarray(self) -> Array:
        """Return M."""
        ...


class Triples(NamedTuple):
    """The leading singular triples, the largest first; U = Q rotation for the last Q that was given to ``adjoint``."""

    U: Array  # (d, b)
    s: Array  # (b,)
    V: Array  # (k, b)
    rotation: Array | None  # (b, b); None where M was decomposed as a whole


def is_whole(columns: int, shape: tuple[int, int]) -> bool:
    """Say whether so many triples are better had from a whole decomposition."""
    return columns >= WHOLE * min(shape)


def first_basis(W: LowRank) -> Array:
    """Return a right basis to begin with: V of a first guess, and SPARE columns more where there is room."""
    return _more_columns(W.V, min(W.rank + SPARE, *W.shape))


def leading(
    matrix: Matrix, basis: Array, theta: Callable[[Array], float], *, accuracy: float = 0.0, most: int | None = None
) -> Triples:
    """Return all singular triples above the threshold, and a few more.

    Parameters
    ----------
    matrix : Matrix
        M (d, k).
    basis : array of shape (k, b)
        Orthonormal columns, near the right singular vectors where these are known.
    theta : callable
        The threshold for given singular values, sorted.
    accuracy : float
        How small M' u - s v must be, all triples above the threshold together.
    most : int, optional
        The columns do not double beyond these, whatever the threshold: then the least value may stay above it.
    """
    V = basis
    while not is_whole(V.shape[1], matrix.shape):
        is_exact = False
        for _ in range(MAX_SWEEPS):
            Q, R = qr(matrix.times(V), mode="economic", check_finite=False)
            B = matrix.adjoint(Q)
            right, s, rotation = svd(B, full_matrices=False, check_finite=False)
            rotation = rotation.T
            level = max(theta(s), ROUNDING * float(s[0]))
            if s[-1] > level:
                break
            change = (B - V @ R.T) @ rotation[:, s > level]
            V = right
            is_exact = not np.linalg.norm(change) > accuracy + ROUNDING * float(s[0])
            if is_exact:
                break
        columns = len(s)
        if is_exact or (most is not None and columns >= most):
            return Triples(Q @ rotation, s, right, rotation)
        V = _more_columns(right, min(2 * columns, *matrix.shape))
    U, s, Vt = svd(matrix.toarray(), full_matrices=False, check_finite=False)
    return Triples(U, s, Vt.T, None)


def _more_columns(V: Array, columns: int) -> Array:
    """Return an orthonormal basis whose first columns are those of V, the others at random but always the same."""
    k, b = V.shape
    new = np.random.default_rng(columns).standard_normal((k, columns - b))
    return qr(np.hstack([V, new]), mode="economic", check_finite=False)[0]
