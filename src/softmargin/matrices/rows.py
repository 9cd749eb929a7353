"""X one sample at a time in compiled loops: dense and CSR rows with the same verbs.

    verb                                        meaning                                             cost
    rows.scores(i, W, k, start, tiles, m, out)  out = start + W' x_i on m tiles of classes          nnz(x_i) m
    rows.add(i, step, tiles, m, W, k)           W += x_i step'       on m tiles of classes          nnz(x_i) m
    rows.dot(i, w)                              <w, x_i> for one column w of d + 1 numbers          nnz(x_i)
    rows.product(i, W, k, c)                    the same for column c of W, without the constant    nnz(x_i)
    rows.centred(i, mean, w)                    <x_i - mean, w>; CSR rows are never centred         nnz(x_i)
    rows.push(i, step, w)                       w += step x_i                                       nnz(x_i)
    rows.sqnorm(i)                              |x_i|^2                                             nnz(x_i)
    rows.fetch_ahead(i, p, W, k, tiles)         asks memory for what entries after p need, where rows of W lie apart
    rows.bare()                                 the same rows as bare pointers, for a loop

A tile is ``lanes.WIDTH`` consecutive classes, named by the position of its first class. W is (d + 1, k) row-major and
flat, k padded to whole tiles, so that one feature uses one contiguous row; its last row belongs to the constant feature
``bias`` of every sample (0 where there is no intercept). X is used without conversion: float32 or float64, int32 or
int64 indices, read-only memory maps; W and all sums are float64.

The verbs are written once, on the entries of a row: entry p of sample i has ``column(i, p)`` and ``value(p)``; but for
products with one column: sums over an array are free to vectorise, those over a CSR row keep their order.

The columns of X are the rows of X' (``transposed``), with the same verbs on (n + 1, k) arrays: their
last row stands for the constant feature, which columns do not have.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct, inline, inline_in_order, jit
from softmargin.backends.lanes import WIDTH, fetch, load, pointer, splat, store

__all__ = [
    "CsrRows",
    "DenseRows",
    "add_row_times",
    "add_squares",
    "are_ascending",
    "as_rows",
    "fill_scaled",
    "some_rows",
    "squared_norms",
    "transposed",
    "weighted_squares",
]

Array = NDArray[Any]
AHEAD = 8  # entries of a sparse row between the request for its row of W and the use: 4 to 32 are alike
FAR = 1 << 16  # numbers of W, half a megabyte, from which its rows are asked for: smaller ones stay in the caches


@inline
def add_row_times(rows: Any, i: int, W: Any, k: int, tiles: Any, sums: Any) -> Any:
    """Return sums + W' x_i on four tiles, which stay in registers during the loop over features."""
    o0, o1, o2, o3 = tiles
    a0, a1, a2, a3 = sums
    begin, end = rows.entries(i)
    for p in range(begin, end):
        value = splat(rows.value(p))
        rows.fetch_ahead(i, p, W, k, tiles)
        row = rows.column(i, p) * k
        a0 = a0 + value * load(W, row + o0)
        a1 = a1 + value * load(W, row + o1)
        a2 = a2 + value * load(W, row + o2)
        a3 = a3 + value * load(W, row + o3)
    return a0, a1, a2, a3


def _scores(self: Any, i: int, W: Array, k: int, start: Array, tiles: Array, m: int, out: Array) -> None:
    """Write start + W' x_i into ``out``, on the given tiles."""
    begin, end = self.entries(i)
    last = self.d * k
    bias = splat(self.bias)
    t = 0
    while t < m:
        if m - t > 1:
            # Up to four tiles stay in registers during the loop over features; a missing one repeats the last.
            o0, o1 = tiles[t], tiles[t + 1]
            o2, o3 = tiles[min(t + 2, m - 1)], tiles[min(t + 3, m - 1)]
            a0 = load(start, o0) + bias * load(W, last + o0)
            a1 = load(start, o1) + bias * load(W, last + o1)
            a2 = load(start, o2) + bias * load(W, last + o2)
            a3 = load(start, o3) + bias * load(W, last + o3)
            a0, a1, a2, a3 = add_row_times(self, i, W, k, (o0, o1, o2, o3), (a0, a1, a2, a3))
            store(out, o0, a0)
            store(out, o1, a1)
            store(out, o2, a2)
            store(out, o3, a3)
        else:
            # One tile: four independent sums over the features, so that none waits for the one before.
            o0 = tiles[t]
            a0 = load(start, o0) + bias * load(W, last + o0)
            a1 = splat(0.0)
            a2 = splat(0.0)
            a3 = splat(0.0)
            p = begin
            while p + 4 <= end:
                a0 = a0 + splat(self.value(p)) * load(W, self.column(i, p) * k + o0)
                a1 = a1 + splat(self.value(p + 1)) * load(W, self.column(i, p + 1) * k + o0)
                a2 = a2 + splat(self.value(p + 2)) * load(W, self.column(i, p + 2) * k + o0)
                a3 = a3 + splat(self.value(p + 3)) * load(W, self.column(i, p + 3) * k + o0)
                p += 4
            while p < end:
                a0 = a0 + splat(self.value(p)) * load(W, self.column(i, p) * k + o0)
                p += 1
            store(out, o0, (a0 + a1) + (a2 + a3))
        t += 4


def _add(self: Any, i: int, step: Array, tiles: Array, m: int, W: Array, k: int) -> None:
    """Add x_i step' to W, on the given tiles."""
    begin, end = self.entries(i)
    for t in range(m):
        o = tiles[t]
        s = load(step, o)
        for p in range(begin, end):
            q = self.column(i, p) * k + o
            store(W, q, load(W, q) + splat(self.value(p)) * s)
        q = self.d * k + o
        store(W, q, load(W, q) + splat(self.bias) * s)


def _dot(self: Any, i: int, w: Any) -> float:
    """Return <w, x_i>, the constant feature included."""
    total: float = self.product(i, w, 1, 0) + self.bias * w[self.d]
    return total


def _push(self: Any, i: int, step: float, w: Any) -> None:
    """Add step x_i to w, the constant feature included."""
    begin, end = self.entries(i)
    for p in range(begin, end):
        w[self.column(i, p)] += step * self.value(p)
    w[self.d] += step * self.bias


def _sqnorm(self: Any, i: int) -> float:
    """Return |x_i|^2, the constant feature included."""
    begin, end = self.entries(i)
    total: float = self.bias * self.bias
    for p in range(begin, end):
        total += self.value(p) * self.value(p)
    return total


_VERBS: dict[str, Any] = {"scores": _scores, "add": _add, "dot": _dot, "push": _push, "sqnorm": _sqnorm}


@inline_in_order
def _gathered(values: Any, columns: Any, begin: int, end: int, W: Any, k: int, c: int) -> float:
    """Return the sum of sparse entries times numbers of W."""
    sum_ = 0.0
    for p in range(begin, end):
        sum_ += np.float64(values[p]) * W[np.int64(columns[p]) * k + c]
    return sum_


@compiled_struct("bare", "entries", "column", "value", "product", "centred", "fetch_ahead", **_VERBS)
class DenseRows(NamedTuple):
    """Rows of a C-ordered dense matrix: entry p of the flat array is column p - i d of its sample."""

    X: Array  # (n * d,)
    d: int
    bias: float

    def bare(self) -> "DenseRows":
        """Return the rows without reference counts."""
        return DenseRows(pointer(self.X), self.d, self.bias)

    def entries(self, i: int) -> tuple[Any, Any]:
        """Return where the entries of sample i begin and end."""
        return i * self.d, (i + 1) * self.d

    def column(self, i: int, p: int) -> Any:
        """Return the feature of entry p."""
        return p - i * self.d

    def value(self, p: int) -> float:
        """Return entry p as float64."""
        return np.float64(self.X[p])

    def product(self, i: int, W: Any, k: int, c: int) -> float:
        """Return the product with column c of W."""
        begin = i * self.d
        sum_ = 0.0
        for j in range(self.d):
            sum_ += np.float64(self.X[begin + j]) * W[j * k + c]
        return sum_

    def centred(self, i: int, mean: Any, w: Any) -> float:
        """Return the product of x_i - mean with w."""
        begin = i * self.d
        sum_ = 0.0
        for j in range(self.d):
            sum_ += (np.float64(self.X[begin + j]) - mean[j]) * w[j]
        return sum_

    def fetch_ahead(self, i: int, p: int, W: Any, k: int, tiles: Any) -> None:
        """Nothing: the features come in order, and the processor fetches them itself."""


@compiled_struct("bare", "entries", "column", "value", "product", "centred", "fetch_ahead", **_VERBS)
class CsrRows(NamedTuple):
    """Rows of a canonical CSR matrix (sorted, no duplicate)."""

    data: Array  # (nnz,)
    indices: Array  # (nnz,)
    indptr: Array  # (n + 1,)
    d: int
    bias: float

    def bare(self) -> "CsrRows":
        """Return the rows without reference counts."""
        return CsrRows(pointer(self.data), pointer(self.indices), pointer(self.indptr), self.d, self.bias)

    def entries(self, i: int) -> tuple[Any, Any]:
        """Return where the entries of sample i begin and end."""
        return np.int64(self.indptr[i]), np.int64(self.indptr[i + 1])

    def column(self, i: int, p: int) -> Any:
        """Return the feature of entry p."""
        return np.int64(self.indices[p])

    def value(self, p: int) -> float:
        """Return entry p as float64."""
        return np.float64(self.data[p])

    def product(self, i: int, W: Any, k: int, c: int) -> float:
        """Return the product with column c of W."""
        begin, end = self.entries(i)
        return _gathered(self.data, self.indices, begin, end, W, k, c)

    def centred(self, i: int, mean: Any, w: Any) -> float:
        """Return the product of x_i with w: sparse rows are never centred."""
        return self.product(i, w, 1, 0)

    def fetch_ahead(self, i: int, p: int, W: Any, k: int, tiles: Any) -> None:
        """Ask for the row of W of an entry some places behind entry p, on four tiles."""
        if self.d * k > FAR:
            _, end = self.entries(i)
            row = self.column(i, min(p + AHEAD, end - 1)) * k
            fetch(W, row + tiles[0])
            fetch(W, row + tiles[2])
            fetch(W, row + tiles[3] + WIDTH - 1)


def as_rows(X: Any, bias: float = 0.0) -> DenseRows | CsrRows:
    """View a C-ordered array or a canonical CSR matrix as rows, without a copy."""
    if isinstance(X, np.ndarray):
        return DenseRows(np.asarray(X).reshape(-1), X.shape[1], float(bias))
    return CsrRows(np.asarray(X.data), np.asarray(X.indices), np.asarray(X.indptr), X.shape[1], float(bias))


def some_rows(X: Any, rows: slice) -> CsrRows:
    """View some rows of a canonical CSR matrix, without a copy."""
    data, indices, indptr = np.asarray(X.data), np.asarray(X.indices), np.asarray(X.indptr)
    return CsrRows(data, indices, indptr[rows.start : rows.stop + 1], X.shape[1], 0.0)


def transposed(X: Any) -> Any:
    """Return X' in row-major order: one copy in the precision of X."""
    return np.ascontiguousarray(X.T) if isinstance(X, np.ndarray) else X.T.tocsr()


@jit
def are_ascending(indices: Array, indptr: Array) -> bool:
    """Say whether the columns of every CSR row ascend: as many falls as there are between rows.

    Counting has no branches, unlike SciPy's walk along every row: it takes less than half the time.
    """
    falls = 0
    for p in range(1, indptr[-1]):
        falls += 1 if indices[p] <= indices[p - 1] else 0
    for i in range(1, indptr.shape[0] - 1):
        p = indptr[i]
        if indptr[i - 1] < p < indptr[-1] and p > 0:
            falls -= 1 if indices[p] <= indices[p - 1] else 0
    return falls == 0


@jit
def squared_norms(rows: Any, out: Array) -> None:
    """out[i] = |x_i|^2, the constant feature included."""
    bare = rows.bare()
    for i in range(out.shape[0]):
        out[i] = bare.sqnorm(i)


@jit
def weighted_squares(rows: Any, weights: Array, out: Array) -> None:
    """out[j] = sum_i weights_i x_ij^2."""
    rows_ = rows.bare()
    out[:] = 0.0
    for i in range(weights.shape[0]):
        begin, end = rows_.entries(i)
        for p in range(begin, end):
            out[rows_.column(i, p)] += weights[i] * rows_.value(p) * rows_.value(p)


@jit
def add_squares(rows: Any, prices: Array, H: Array) -> None:
    """Add the upper triangle of sum_i c_i x_i x_i' to H, C-ordered, for rows whose columns ascend."""
    bare, H_, d = rows.bare(), pointer(H.reshape(-1)), H.shape[1]
    for i in range(prices.shape[0]):
        if prices[i] != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                scaled = prices[i] * bare.value(p)
                line = bare.column(i, p) * d
                for q in range(p, end):
                    H_[line + bare.column(i, q)] += scaled * bare.value(q)


@jit
def fill_scaled(rows: Any, which: Array, roots: Array, scales: Array, out: Array) -> None:
    """out[r, j] = roots_r x_ij scales_j for i = which_r, the constant feature included; out is zero before."""
    rows_ = rows.bare()
    for r in range(which.shape[0]):
        i, line = which[r], out[r]
        begin, end = rows_.entries(i)
        for p in range(begin, end):
            j = rows_.column(i, p)
            line[j] = roots[r] * rows_.value(p) * scales[j]
        line[rows_.d] = roots[r] * rows_.bias * scales[rows_.d]
