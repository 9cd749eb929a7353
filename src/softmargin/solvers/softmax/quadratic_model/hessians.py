"""The Hessian of softmax losses on some entries of W, formed from samples in one of four ways.

    H[(j, c), (l, e)] = sum_i B_i[c, e] x_ij x_il ,      B_i[c, e] = C_i ([c = e] (p_ic + damping_i) - p_ic p_ie)

    fill_from_rows       one column of W: from pairs of nonzeros of every row, in a compiled loop
    hessian_by_classes   one product for what couples the classes, and one per class for the rest
    hessian_by_pairs     many entries: pair of classes by pair, from the samples that may confuse the two
    hessian_by_lists     the same for a sparse X: from pairs of nonzeros of a sample, in a compiled loop

A fifth, from all products of two features, is in _feature_pairs.
"""

from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.deadline import alarm, check_time
from softmargin.solvers.softmax.quadratic_model.samples import Samples

__all__ = ["LITTLE", "fill_from_rows", "hessian_by_classes", "hessian_by_lists", "hessian_by_pairs"]

Array = NDArray[Any]
BLOCK = 1 << 19  # numbers of Z at a time: 4 MB
LITTLE = 0.1  # multiply-adds of H by pairs of classes, as a share of n m^2: 0.1 to 0.2 on mnist


@jit
def fill_from_rows(rows: Any, place: Array, prices: Array, H: Array) -> None:
    """Write H = sum_i prices_i x_i x_i'; place[j] is the row of feature j in H, or m, its size, if not in the model.

    Places ascend; the last one is that of the constant feature. Rows of price zero are skipped.
    """
    bare, m, constant = rows.bare(), H.shape[0], place[place.shape[0] - 1]
    sums = np.zeros((m + 1) * (m + 1))  # the upper triangle, and a dummy row and column m: no branch inside
    sums_, place_ = pointer(sums), pointer(place)
    for i in range(prices.shape[0]):
        if prices[i] != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                at = place_[bare.column(i, p)]
                if at < m:
                    scaled, line = prices[i] * bare.value(p), at * (m + 1)
                    for q in range(p, end):
                        sums_[line + place_[bare.column(i, q)]] += scaled * bare.value(q)
                    sums_[line + constant] += scaled
            sums_[constant * (m + 2)] += prices[i]
    for a in range(m):
        for b in range(a, m):
            H[a, b] = H[b, a] = sums_[a * (m + 1) + b]
    keep(sums)


def hessian_by_classes(X: Array, row_of: Array, classes: Array, P: Array, samples: Samples) -> Array:
    """Return H of the entries (row_of, classes), ordered by class, in the precision of X, (r, n); P is (n, k).

    The squares of single classes are made of p (1 - p): a difference of sums would lose the digits of p next to 1.
    """
    m, root = len(classes), np.sqrt(samples.C)
    P = np.ascontiguousarray(P.T)
    coupling, roots = (W.astype(X.dtype) for W in (P * root, np.sqrt(P * (1.0 - P) + samples.damping) * root))
    ends = np.searchsorted(classes, np.arange(len(P) + 1)).tolist()
    parts = [slice(*pair) for pair in pairwise(ends)]
    H, squares = np.zeros((m, m), dtype=X.dtype), [np.zeros((len(row_of[part]),) * 2, dtype=X.dtype) for part in parts]
    size = max(BLOCK // m, m)  # no fewer numbers than H has, as each block adds to all of it
    for begin in range(0, len(root), size):
        check_time()
        block = slice(begin, begin + size)
        some = X[row_of, block]
        for c, part in enumerate(parts):
            Z = some[part] * roots[c, block]
            squares[c] += Z @ Z.T
        if samples.is_coupled:
            some *= coupling[classes, block]
            H -= some @ some.T
    for part, square in zip(parts, squares, strict=True):
        H[part, part] = square
    return H


def hessian_by_pairs(X: Array, row_of: Array, classes: Array, P: Array, samples: Samples, faint: float) -> Array:
    """Return the same from the samples that may confuse two classes; X is (n, r) here.

    diag p - p p' is the sum over pairs of classes of p_c p_e (e_c - e_e) (e_c - e_e)'. Near the optimum few samples
    give a pair more than a faint weight; without the others H is smaller, and still has no negative eigenvalue.
    """
    k, P = P.shape[1], np.ascontiguousarray(P.T)
    ends = np.searchsorted(classes, np.arange(k + 1)).tolist()
    parts, columns = [slice(*pair) for pair in pairwise(ends)], np.split(row_of, ends[1:-1])
    H, own = np.zeros((len(classes), len(classes)), dtype=X.dtype), np.tile(samples.C * samples.damping, (k, 1))
    if not samples.is_coupled:
        own += samples.C * P
    for c, e in combinations(range(k), 2) if samples.is_coupled else ():
        check_time()
        weights = samples.C * P[c] * P[e]
        both = np.flatnonzero(weights > faint * weights.max())
        weights = weights[both]
        own[c, both] += weights
        own[e, both] += weights
        some = X[both]
        Z = some[:, columns[c]] * weights.astype(X.dtype)[:, None]
        H[parts[c], parts[e]] = -Z.T @ some[:, columns[e]]
        H[parts[e], parts[c]] = H[parts[c], parts[e]].T
    for c, part in enumerate(parts):
        check_time()
        seen = np.flatnonzero(own[c])
        Z = X[seen][:, columns[c]] * np.sqrt(own[c, seen]).astype(X.dtype)[:, None]
        H[part, part] = Z.T @ Z
    return H


def hessian_by_lists(features: Array, classes: Array, places: Array, samples: Samples, faint: float) -> Array:
    """Return the lower triangle of H without damping, in single precision, of entries that are ordered by class.

    Entry e has row places[e] of H. ``samples`` has the columns of a sparse X. A sample is left out of a pair of classes
    to which it gives less than the share ``faint`` of the largest weight that either class has with itself.
    """
    columns, n, m = samples.columns, len(samples.C), len(classes)
    k = int(classes[-1]) + 1
    begins = np.searchsorted(classes, np.arange(k + 1))
    size = int(np.diff(columns.indptr)[features].sum())
    lists = SampleLists(np.zeros((k, n + 1), np.int64), np.empty(size, np.int32), np.empty(size, np.float32))
    _list_samples(columns, features, begins, places, lists)
    check_time()
    H = np.zeros((m, m), dtype=np.float32)
    P = samples.P.reshape(n, -1)
    largest = (samples.C[:, None] * P[:, :k] * (1.0 - P[:, :k])).max(axis=0)
    _fill_from_lists(P, samples.C, lists, faint * largest, H, alarm())
    check_time()
    return H


class SampleLists(NamedTuple):
    """The entries that samples have in every class: those of i in c are listed from ends[c, i] to ends[c, i + 1]."""

    ends: Array  # (k, n + 1)
    places: Array  # their rows of H
    values: Array  # of X


@jit
def _list_samples(columns: Any, features: Array, begins: Array, places: Array, lists: SampleLists) -> None:
    """Write the lists: entries of class c are those from begins[c] to begins[c + 1]."""
    ends, listed, values = lists.ends, lists.places, lists.values
    k, n, first = ends.shape[0], ends.shape[1] - 1, 0
    for c in range(k):
        counts = np.zeros(n, dtype=np.int64)
        for e in range(begins[c], begins[c + 1]):
            begin, end = columns.entries(features[e])
            for p in range(begin, end):
                counts[columns.column(features[e], p)] += 1
        ends[c, 0] = first
        for i in range(n):
            ends[c, i + 1] = ends[c, i] + counts[i]
        first = ends[c, n]
        counts[:] = ends[c, :n]
        for e in range(begins[c], begins[c + 1]):
            begin, end = columns.entries(features[e])
            for p in range(begin, end):
                i = columns.column(features[e], p)
                listed[counts[i]], values[counts[i]] = places[e], columns.value(p)
                counts[i] += 1


@jit
def _fill_from_lists(P: Array, C: Array, lists: SampleLists, least: Array, H: Array, alarm: Array) -> None:
    """Add up H, pair of classes by pair, until the alarm; ``least`` is the weight of a class that counts."""
    ends, places, values = lists.ends, lists.places, lists.values
    k, n = ends.shape[0], C.shape[0]
    weights = np.empty(n)
    for c in range(k):
        for e in range(c, k):
            if alarm[0] != 0:
                return
            for i in range(n):
                weights[i] = C[i] * P[i, c] * (1.0 - P[i, c] if c == e else -P[i, e])
            for i in range(n):
                if abs(weights[i]) > min(least[c], least[e]):
                    for a in range(ends[c, i], ends[c, i + 1]):
                        row, scaled = places[a], np.float32(weights[i] * values[a])
                        for b in range(a if c == e else ends[e, i], ends[e, i + 1]):
                            H[max(row, places[b]), min(row, places[b])] += scaled * values[b]
