"""The Hessian of several classes by products of two features, where there are few of them.

    H[(j, c), (l, e)] = sum_i x_ij x_il B_i[c, e] ,      B_i = C_i (diag p_i - p_i p_i' + damping_i)

The products x_ij x_il stay the same for all steps of a fit; those of two classes are made anew. Both are symmetric: one
product of matrices has a quarter of the multiplications that all entries of H would take.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.core.threads import wide_blas
from softmargin.matrices.forms import FEW

__all__ = ["fill_class_pairs", "fill_from_pairs", "has_few_pairs", "n_pairs", "pairs_of", "scatter"]

Array = NDArray[Any]


def n_pairs(size: int) -> int:
    """Return the number of pairs a <= b < size."""
    return size * (size + 1) // 2


def pairs_of(columns: Array) -> Array:
    """Return x_ij x_il for all features j <= l; (n_pairs, n) of (d, n)."""
    pairs, begin = np.empty((n_pairs(len(columns)), columns.shape[1]), dtype=columns.dtype), 0
    for j in range(len(columns)):
        end = begin + len(columns) - j
        np.multiply(columns[j], columns[j:], out=pairs[begin:end])
        begin = end
    return pairs


def has_few_pairs(X: Any, most: int) -> bool:
    """Say whether X is an array of at most ``most`` features whose products are few numbers."""
    return isinstance(X, np.ndarray) and X.shape[1] <= most and X.shape[0] * n_pairs(X.shape[1] + 1) <= FEW


def fill_from_pairs(pairs: Array, P: Array, C: Array, k: int, n_columns: int, H: Array) -> None:
    """Write the Hessian of all weights to H, class after class; P is (n * k,)."""
    products, size = np.empty((n_pairs(n_columns), len(C))), len(H) // n_columns
    fill_class_pairs(P.astype(np.float64, copy=False), C, np.zeros(len(C)), k, n_columns, products)
    features, classes = np.tile(np.arange(size), n_columns), np.repeat(np.arange(n_columns), size)
    with wide_blas(pairs.size * float(len(products))):
        sums = pairs @ products.T.astype(pairs.dtype, copy=False)
    scatter(sums.astype(np.float64, copy=False), features, classes, size, n_columns, H)


@jit
def fill_class_pairs(P: Array, C: Array, damping: Array, k: int, n_columns: int, out: Array) -> None:
    """Write B_i[c, e] of all classes c <= e, one pair after the other; out is (n_pairs, n), P is (n * k,)."""
    n = C.shape[0]
    by_class = np.empty((n_columns, n))
    for i in range(n):
        for c in range(n_columns):
            by_class[c, i] = P[i * k + c]
    b = 0
    for c in range(n_columns):
        p = by_class[c]
        for i in range(n):
            out[b, i] = C[i] * (p[i] * (1.0 - p[i]) + damping[i])
        for e in range(c + 1, n_columns):
            q = by_class[e]
            for i in range(n):
                out[b + e - c, i] = -C[i] * p[i] * q[i]
        b += n_columns - c


@jit
def scatter(sums: Array, features: Array, classes: Array, d: int, k: int, H: Array) -> None:
    """Write the sums, over pairs of d features and of k classes, to their places in H."""
    for a in range(H.shape[0]):
        for b in range(a + 1):
            i, j = min(features[a], features[b]), max(features[a], features[b])
            c, e = min(classes[a], classes[b]), max(classes[a], classes[b])
            H[a, b] = sums[i * d - i * (i - 1) // 2 + j - i, c * k - c * (c - 1) // 2 + e - c]
            H[b, a] = H[a, b]
