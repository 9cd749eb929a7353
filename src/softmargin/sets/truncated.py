"""The leading singular triples of a matrix that is known by its products, for a ball that keeps only these.

Block subspace iteration (maths: ball, eq. 13): Q = orth(M V), B = M' Q, and the singular triples of B' are those of M
within span Q. It starts from the right basis of an earlier, similar matrix: one sweep is often enough. Two tests:

    enough columns     the least singular value computed is at most theta, the threshold of those computed: then all
                       others would be shrunk to zero; else the columns double
    enough sweeps      M' u - s v is small for all triples above theta, with u and v from the start of the sweep; where
                       close values keep this from happening, more columns help

From half of all triples on, M is formed and decomposed in full.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.linalg import qr, svd

from softmargin.core.deadline import check_time
from softmargin.core.protocols import Array
from softmargin.sets.atoms import LowRank

__all__ = ["Matrix", "Triples", "TruncationTuning", "first_basis", "is_whole", "leading", "svd_work", "values_work"]

SVD_COST = 20.0  # multiplications for all triples of a (d, k) matrix over d k^2, those of a product; by timings
VALUES_COST = 5.0  # the same for the singular values alone; by timings
_ROUNDING = 1e-13  # singular values and errors below this share of the largest value are zero


class TruncationTuning(NamedTuple):
    """Constants of the subspace iteration."""

    spare: int = 8  # columns beyond the rank: they let the rank grow and speed up the sweeps; maths: ball, section 9
    max_sweeps: int = 10  # before the columns double; by hand
    whole: float = 0.5  # from this share of all triples on, decompose in full; maths: ball, section 9


_TUNING = TruncationTuning()


class Matrix(Protocol):
    """A matrix (d, k) known by its products."""

    shape: tuple[int, int]

    def times(self, V: Array) -> Array:
        """Return M V; (d, b)."""

    def adjoint(self, Q: Array) -> Array:
        """Return M' Q; (k, b)."""

    def toarray(self) -> Array:
        """Return M."""


class Triples(NamedTuple):
    """The leading singular triples, the largest first; U = Q rotation for the last argument Q of ``adjoint``."""

    U: Array  # (d, b)
    s: Array  # (b,)
    V: Array  # (k, b)
    rotation: Array | None  # (b, b); None after a full decomposition


def is_whole(columns: int, shape: tuple[int, int], tuning: TruncationTuning = _TUNING) -> bool:
    """Say whether a full decomposition gives so many triples at a lower cost."""
    return columns >= tuning.whole * min(shape)


def first_basis(W: LowRank, tuning: TruncationTuning = _TUNING) -> Array:
    """Return a first right basis: V of a first guess, and spare columns where there is room."""
    return _more_columns(W.V, min(W.rank + tuning.spare, *W.shape))


def leading(
    matrix: Matrix,
    basis: Array,
    theta: Callable[[Array], float],
    *,
    accuracy: float = 0.0,
    most: int | None = None,
    tuning: TruncationTuning = _TUNING,
) -> Triples:
    """Return all singular triples of M above the threshold, and a few more.

    ``basis`` is (k, b), with orthonormal columns near the right singular vectors where these are known; ``theta`` gives
    the threshold for singular values; ``accuracy`` bounds |M' u - s v| over all triples above it. The columns do not
    double beyond ``most``: then the least value may stay above the threshold.
    """
    V = basis
    while not is_whole(V.shape[1], matrix.shape, tuning):
        is_exact = False
        for _ in range(tuning.max_sweeps):
            check_time()
            Q, R = qr(matrix.times(V))
            B = matrix.adjoint(Q)
            right, s, rotation = svd(B, full_matrices=False)
            rotation = rotation.T
            level = max(theta(s), _ROUNDING * float(s[0]))
            if s[-1] > level:
                break
            change = (B - V @ R.T) @ rotation[:, s > level]
            V = right
            is_exact = not np.linalg.norm(change) > accuracy + _ROUNDING * float(s[0])
            if is_exact:
                break
        columns = len(s)
        if is_exact or (most is not None and columns >= most):
            return Triples(Q @ rotation, s, right, rotation)
        V = _more_columns(right, min(2 * columns, *matrix.shape))
    check_time(svd_work(matrix.shape))
    U, s, Vt = svd(matrix.toarray(), full_matrices=False)
    return Triples(U, s, Vt.T, None)


def svd_work(shape: tuple[int, int]) -> float:
    """Return about how many multiplications of a product take as long as all singular triples."""
    return SVD_COST * max(shape) * float(min(shape)) ** 2


def values_work(shape: tuple[int, int]) -> float:
    """Return the same for the singular values alone."""
    return VALUES_COST * max(shape) * float(min(shape)) ** 2


def _more_columns(V: Array, columns: int) -> Array:
    """Return an orthonormal basis whose first columns are those of V; the others are random with a fixed seed."""
    k, b = V.shape
    new = np.random.default_rng(columns).standard_normal((k, columns - b))
    return np.asarray(qr(np.hstack([V, new]))[0])
