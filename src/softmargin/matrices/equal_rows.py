"""Samples with the same features and other labels.

The dual of an SVM sees equal samples through the sum of their variables alone, so that moves that cancel in this sum
change no score: a descent by single samples cannot make them (maths: linear SVM, section 11).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import keep, pointer
from softmargin.matrices.rows import as_rows

__all__ = ["contradictions"]

Array = NDArray[Any]
_START = 0x9E3779B97F4A7C15  # of the hashes: any number with mixed bits; the digits of the golden ratio


def contradictions(X: Any, labels: Array) -> tuple[Array, Array]:
    """Return the samples with an equal one of other labels, and a number 0, 1, ... of each set of equal ones.

    Parameters
    ----------
    X : array or canonical CSR matrix of shape (n, d)
    labels : array of shape (n,) or (n, k)

    Returns
    -------
    samples, sets : int arrays of shape (m,)
    """
    n = X.shape[0]
    first, hashes = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.uint64)
    fill_first(as_rows(X), first, hashes, np.full(1 << max(2 * n - 1, 1).bit_length(), -1))
    later = np.flatnonzero(first != np.arange(n))
    if not len(later):
        return later, later
    differs = labels[later] != labels[first[later]]
    is_mixed = np.zeros(n, dtype=bool)
    is_mixed[first[later[differs if labels.ndim == 1 else differs.any(axis=1)]]] = True
    samples = np.flatnonzero(is_mixed[first])
    return samples, np.unique(first[samples], return_inverse=True)[1]


@inline
def _is_equal(rows: Any, i: int, j: int) -> bool:
    """Say whether two samples have the same entries."""
    begin, end = rows.entries(i)
    other, stop = rows.entries(j)
    if end - begin != stop - other:
        return False
    for p in range(begin, end):
        q = other + (p - begin)
        if rows.column(i, p) != rows.column(j, q) or rows.value(p) != rows.value(q):
            return False
    return True


@jit
def fill_first(rows: Any, first: Array, hashes: Array, table: Array) -> None:
    """first[i] = the first sample that equals sample i; ``table`` holds -1, a power of two times, twice n at least."""
    rows_, first_, hashes_, table_ = rows.bare(), pointer(first), pointer(hashes), pointer(table)
    last = np.uint64(table.shape[0] - 1)
    number = np.empty(1)
    value_, bits_ = pointer(number), pointer(number.view(np.uint64))
    for i in range(first.shape[0]):
        h = np.uint64(_START)
        begin, end = rows_.entries(i)
        for p in range(begin, end):
            value_[0] = rows_.value(p)
            bits = bits_[0]
            if bits << np.uint64(1) == np.uint64(0):  # -0 is 0
                bits = np.uint64(0)
            h ^= bits ^ np.uint64(rows_.column(i, p))
            # Marsaglia's xorshift, as in backends.loops.
            h ^= h << np.uint64(13)
            h ^= h >> np.uint64(7)
            h ^= h << np.uint64(17)
        hashes_[i] = h
        place = (h ^ (h >> np.uint64(32))) & last
        while True:
            j = table_[place]
            if j < 0:
                table_[place] = i
                first_[i] = i
                break
            if hashes_[j] == h and _is_equal(rows_, i, j):
                first_[i] = first_[j]
                break
            place = (place + np.uint64(1)) & last
    keep(number)
