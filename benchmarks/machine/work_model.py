"""The work that a fit needs, counted: a model for ``profiles.py``, not a hardware counter.

``COUNTED`` names functions of the library, each with one that runs it and adds up the operations and bytes that its
arguments, and what it changed, ask for: count(call, arguments, add, classes). ``roofline.counting`` puts them to work.

    product with X        2 operations for every entry and class; an entry is read once (value, and index where X is
                          sparse); weights are read, and those that change written, for every entry of a sparse X, once
                          in all for a dense one
    visit of a sample     its scores in the classes in play, an update of the weights in the classes that moved, and 2
                          operations a class for the block itself (2 exponentials with softmax)
    kernel values         2 d operations (sparse: 2 an entry) and an exponential each
    sum over K            2 operations a value and class that moved; K is read once, sums are read and written
    update of SMO         12 operations a sample: the search for a partner, and S; 20 where any pair may move
    decompositions        n d^2 for X'X, d^3 / 3 for Cholesky, 4 m b^2 for QR, 6 m b^2 + 20 b^3 for singular values

An exponential counts as ``EXP`` operations; padding counts nothing. Bytes are what loops ask for, whether memory or a
cache has it. What is not in ``COUNTED`` (checks, choices, sorting) is no useful work here; its time counts.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from softmargin.solvers.kernel_svm._piece_loop import KernelPiece, sweep

EXP = 20
_TILE = 4  # classes


class Work(NamedTuple):
    """Operations and bytes."""

    flops: float
    bytes: float


def entries_of(X: Any) -> tuple[float, float]:
    """Return the number of entries of X (a matrix, or rows of one), and the bytes of each."""
    if isinstance(X, np.ndarray):
        return X.size, X.itemsize
    if hasattr(X, "indptr"):
        return len(X.indices), X.data.itemsize + X.indices.itemsize
    return X.X.size, X.X.itemsize


def lengths_of(rows: Any) -> Callable[[Any], Any]:
    """Return a function from samples to their numbers of entries."""
    if hasattr(rows, "indptr"):
        lengths = np.diff(rows.indptr)
        return lambda index: lengths[index]
    return lambda index: np.full(len(index), rows.d)


def _product(X: Any, k: float, is_adjoint: bool) -> Work:
    """Return the work of X W, or of X' U."""
    nnz, size = entries_of(X)
    n, d = X.shape if hasattr(X, "shape") else (0, 0)
    if isinstance(X, np.ndarray):
        return Work(2.0 * nnz * k, nnz * size + 8.0 * (n + d) * k)
    return Work(2.0 * nnz * k, nnz * (size + 8.0 * k * (2 if is_adjoint else 1)) + 8.0 * n * k)


def _simply(cost: Callable[[Any, int], Iterable[float]]) -> Callable[..., Any]:
    """Count what arguments alone tell."""

    def count(call: Any, a: Any, add: Any, k: int) -> Any:
        add(*cost(a, k))
        return call()

    return count


def _padded_product(is_adjoint: bool) -> Callable[..., Any]:
    return _simply(lambda a, k: _product(a.X, min(a.k, k), is_adjoint))


def _by_weights(name: str, is_adjoint: bool) -> Callable[..., Any]:
    return _simply(lambda a, k: _product(a.X, np.size(getattr(a, name)[0]), is_adjoint))


def _add_rows(call: Any, a: Any, add: Any, k: int) -> Any:
    touched = call()
    add(2.0 * touched, touched * (entries_of(a.rows)[1] / a.k + 16.0))
    return touched


def _visits(call: Any, a: Any, add: Any, k: int) -> Any:
    """Count ``descend`` of the linear SVM a pass at a time: what one pass does is seen in what it changed."""
    lengths, size = lengths_of(a.dual.rows), entries_of(a.dual.rows)[1]
    is_softmax = type(a.dual.block).__name__ in ("SoftmaxBlock", "LogisticBlock")
    alpha, live = a.dual.alpha.reshape(len(a.dual.y), -1), a.visits.live
    m, visits = a.m, 0
    while True:
        rows = a.visits.order[:m].copy()
        mine, before = lengths(rows), alpha[rows]
        inside = np.full(m, k)
        if len(live) > 0 and not a.is_full:
            tiles = np.bitwise_count(live.reshape(len(alpha), -1)[rows]).sum(axis=1)
            inside = np.minimum(_TILE * tiles, k)
        total, m, more = call(m=m, budget=0)
        moved = (alpha[rows] != before).sum(axis=1)
        visits += more
        own = (EXP if is_softmax else 1) * 2.0 * inside.sum()
        numbers = mine @ (inside + 2.0 * moved)
        add(2.0 * (mine @ (inside + moved)) + own, mine.sum() * size + 8.0 * numbers + 16.0 * inside.sum())
        if total <= a.target or visits >= a.budget or m == 0:
            return total, m, visits


def _sweeps(call: Any, a: Any, add: Any, k: int) -> tuple[float, int]:
    """Do what ``sweep_piece`` of the kernel SVM does, and count it a pass at a time."""
    rows, whole, met = a.rows, a.whole, None
    m, k = len(rows), whole.alpha.shape[1]
    alpha = np.zeros((m, a.work.numbers.shape[1]))
    alpha[:, :k] = first = whole.alpha[rows]
    own = (whole.y[rows], whole.C[rows], whole.diagonal[rows], alpha.reshape(-1))
    piece = KernelPiece(a.K, *own, whole.F[:, rows].reshape(-1), np.zeros(k * m, a.change.dtype), np.arange(m))
    for _ in range(a.max_sweeps):
        before = alpha.copy()
        total = sweep(piece, a.block, k, a.work, a.random, a.target, 1, a.alarm)
        moved = alpha != before
        n_moves = float(moved.sum())
        size = a.K.itemsize * float(moved.any(axis=1).sum())
        add(2.0 * m * (n_moves + k), m * (size + 2.0 * a.change.itemsize * n_moves + 24.0 * k))
        met = total if met is None else met
        if total <= a.target * met:
            break
    whole.alpha[rows] = alpha[:, :k]
    a.change[:] = (alpha[:, :k] - first).reshape(-1)
    return float(met or 0.0), int(np.count_nonzero(a.change))


def _moved_rows(call: Any, a: Any, add: Any, k: int) -> Any:
    moved, width = a.change.reshape(-1, a.k) != 0.0, float(a.end - a.begin)
    n_moves, n_rows = float(moved.sum()), float(moved.any(axis=1).sum())
    add(2.0 * width * n_moves, width * (a.K.itemsize * n_rows + 2.0 * a.change.itemsize * n_moves))
    return call()


def _pairs(call: Any, a: Any, add: Any, k: int) -> Any:
    """Count an update as a search (8 operations a sample, five arrays) and a change of S (4, three of them)."""
    done, n = call(), a.variables.n
    add(12.0 * n * done, done * n * (3.0 * a.variables.K.itemsize + 8.0 * 8.0))
    return done


def _free_pairs(call: Any, a: Any, add: Any, k: int) -> Any:
    """Count an update as a change of S with the gains of all samples alone, and their gains beside the first."""
    done, m = call(), len(a.square.K)
    add(20.0 * m * done, done * m * (3.0 * a.square.K.itemsize + 10.0 * 8.0))
    return done


def _inner(call: Any, a: Any, add: Any, k: int) -> Any:
    m, n = len(a.left), len(a.right)
    (left, size), (right, _) = entries_of(a.left.X), entries_of(a.right.X)
    per_value = a.left.X.shape[1] if not a.left.is_sparse else left / max(m, 1)
    add(m * n * (2.0 * per_value + EXP + 4.0), size * (left + right) + 2.0 * m * n * a.left.X.dtype.itemsize)
    return call()


def _by_features(a: Any, k: int) -> Work:
    """Return the work of X'X over the rows of I: by BLAS, or entry by entry."""
    rows = a.state.X[a.piece.prices > 0.0]
    m, d = rows.shape
    if isinstance(rows, np.ndarray):
        return Work(m * d * (d + 1.0), 8.0 * (m * d + d * d))
    pairs = float(np.square(np.diff(rows.indptr), dtype=float).sum())
    return Work(pairs, 8.0 * pairs)


def _rows_once(rows: Any, m: float) -> Work:
    """Return the work of one product with m rows of average length."""
    nnz, size = entries_of(rows)
    n = len(rows.indptr) - 1 if hasattr(rows, "indptr") else nnz / max(rows.d, 1)
    return Work(2.0 * nnz * m / n, (size + 8.0) * nnz * m / n)


def _piece(call: Any, a: Any, add: Any, k: int) -> Any:
    """Count three sums over the rows of I in one pass."""
    result = call()
    work = _rows_once(a.samples.rows, np.count_nonzero(a.out.prices))
    add(3.0 * work.flops, work.bytes)
    return result


def _small_step(a: Any, k: int) -> Work:
    """Return the work of the first of several compiled steps: squares, a factor, and four passes over the rows."""
    m, d = float(np.count_nonzero(a.sums.prices)), len(a.iterate.weights)
    passes = _rows_once(a.samples.rows, 4.0 * len(a.iterate.slack))
    return Work(m * d * (d + 1.0) + d**3 / 3.0 + passes.flops, 8.0 * (m * d + d * d) + passes.bytes)


def _by_samples(a: Any, k: int) -> Work:
    m, d = float(np.count_nonzero(a.piece.prices)), len(a.state.weights)
    return Work(m * m * d + m**3 / 3.0, 8.0 * (m * d + m * m))


def _products_of_rows(call: Any, a: Any, add: Any, k: int) -> Any:
    """Count conjugate gradients: X and X' once each for every product."""
    rows = inspect.getclosurevars(a.product).nonlocals["rows"]
    forth, back = _product(rows, 1, False), _product(rows, 1, True)

    def product(v: Any, out: Any) -> None:
        add(forth.flops + back.flops + 10.0 * len(v), forth.bytes + back.bytes + 80.0 * len(v))
        a.product(v, out)

    return call(product=product)


def _passes(is_by_rows: bool) -> Callable[..., Any]:
    """Count a pass over a quadratic model: the slope of every listed block, and the answer to those that moved."""

    def count(call: Any, a: Any, add: Any, k: int) -> Any:
        columns, n, V = a.terms.columns, len(a.terms.C), a.point.V
        lengths, size = lengths_of(columns), entries_of(columns)[1]
        if is_by_rows:
            listed = a.rows.features[: a.rows.ends[0]].copy()
            before = V.reshape(-1, a.point.k)[listed]
            result = call()
            moved = listed[(V.reshape(-1, a.point.k)[listed] != before).any(axis=1)]
            width, alone = k, 0.0
        else:
            bounds = zip(a.entries.starts, a.entries.ends, strict=True)
            parts = [a.entries.features[begin:end] for begin, end in bounds]
            listed, before = np.concatenate(parts), V.copy()
            result = call()
            moved = np.flatnonzero(before != V) // a.point.k
            width, alone = 1, 8.0 * n * len(parts)
        listed_entries, moved_entries = float(lengths(listed).sum()), float(lengths(moved).sum())
        flops = width * (2.0 * listed_entries + 5.0 * moved_entries) + alone
        add(flops, listed_entries * (size + 8.0 * width) + moved_entries * (size + 32.0 * width) + 6.0 * alone)
        return result

    return count


def _row_times(a: Any, k: int) -> Work:
    nnz, size = entries_of(a.rows)
    return Work(2.0 * nnz * a.k, nnz * (size + 8.0 * a.k))


def _curvatures(a: Any, k: int) -> Work:
    columns = a.terms.columns
    listed_entries, size = float(lengths_of(columns)(a.features).sum()), entries_of(columns)[1]
    width = k if hasattr(a, "k") else 1
    return Work(4.0 * width * listed_entries, listed_entries * (size + 8.0 * width))


def _kept_sums(a: Any, k: int) -> Work:
    numbers = float(len(a.place) * a.K.shape[1])
    return Work(2.0 * numbers * a.weights.shape[1], numbers * a.K.itemsize)


def _dense_hessian(a: Any, k: int) -> Work:
    m, n = len(a.self.features), len(a.self.samples.C)
    return Work(n * m * (m + m / k), 16.0 * n * m)


def _step_product(name: str) -> Callable[..., Any]:
    """Count a product of M = W - step X' R with some columns, by R, X and the factors of W."""

    def cost(a: Any, k: int) -> Work:
        M, b = a.self, getattr(a, name).shape[1]
        of_X, factors = _product(M.X, b, name == "V"), 2.0 * M.W.rank * sum(M.shape) * b
        return Work(of_X.flops + 2.0 * M.R.size * b + factors, of_X.bytes + 8.0 * (M.R.size + len(M.R) * b))

    return _simply(cost)


def _gram_factor(a: Any, k: int) -> Work:
    m, d = len(a.weights), a.X.shape[1] + 1.0
    return Work(m * d**2 + d**3 / 3.0, 4.0 * (m * d + d * d))


def _entrywise(flops: float, arrays: int, name: str) -> Callable[..., Any]:
    """Count so many operations and arrays for every entry of an argument, padding left out."""

    def cost(a: Any, k: int) -> Work:
        size = getattr(a, name).size * min(k / a.k if hasattr(a, "k") else 1.0, 1.0)
        return Work(flops * size, 8.0 * arrays * size)

    return _simply(cost)


def _searches(call: Any, a: Any, add: Any, k: int) -> int:
    """Count the passes that a search for intercepts makes over the scores."""
    passes: int = call()
    size = passes * (a.S.size + a.last_S.size)
    add(8.0 * size, 16.0 * size)
    return passes


def _decomposition(square: float, cube: float) -> Callable[..., Any]:
    def cost(a: Any, k: int) -> Work:
        b, m = sorted(a.a.shape)
        return Work(square * m * b**2 + cube * b**3, 16.0 * m * b)

    return _simply(cost)


COUNTED: dict[str, Callable[..., Any]] = {
    "matrices.products:times": _padded_product(False),
    "matrices.products:adjoint": _padded_product(True),
    "matrices.operator:matmul": _by_weights("W", False),
    "matrices.operator:product": _by_weights("W", False),
    "matrices.operator:rmatmul": _by_weights("alpha", True),
    "matrices.operator:adjoint_product": _by_weights("U", True),
    "matrices.sparse_products:fill_scores": _simply(_row_times),
    "solvers.ball._products:add_rows": _add_rows,
    "solvers.linear_svm._block_loop:descend": _visits,
    "matrices.row_store:gather": _simply(lambda a, k: (0.0, 2.0 * a.K.itemsize * len(a.rows) * len(a.columns))),
    "matrices.row_store:sum_rows": _simply(_kept_sums),
    "solvers.kernel_svm._working_square:sweep_piece": _sweeps,
    "solvers.kernel_svm._working_square:add_rows": _moved_rows,
    "solvers.common.smo_loop:descend_pairs": _pairs,
    "solvers.kernel_svm._pair_loop:descend_free_pairs": _free_pairs,
    "kernels.points:products": _inner,
    "kernels.points:add_product": _simply(
        lambda a, k: (2.0 * a.tile.size * a.weights.shape[1], a.tile.nbytes + 2.0 * a.out.nbytes)
    ),
    "solvers.squared_hinge._newton_systems:_solve_dense": _simply(_by_features),
    "solvers.squared_hinge._newton_systems:solve_positive": _simply(
        lambda a, k: (len(a.right) ** 3 / 3.0, 8.0 * len(a.right) ** 2)
    ),
    "solvers.squared_hinge._newton_systems:_solve_by_samples": _simply(_by_samples),
    "solvers.squared_hinge.newton:evaluate_piece": _piece,
    "solvers.squared_hinge.newton:make_steps": _simply(_small_step),
    "solvers.squared_hinge.newton:go": _simply(lambda a, k: _rows_once(a.samples.rows, len(a.iterate.slack))),
    "solvers.squared_hinge._newton_systems:conjugate_gradients": _products_of_rows,
    "solvers.softmax.newton:fill_hessian": _simply(
        lambda a, k: (
            a.objective.n * len(a.H) ** 2 + len(a.H) ** 3 / 3.0,
            8.0 * (a.objective.n * len(a.H) + 2.0 * a.H.size),
        )
    ),
    "solvers.softmax._preconditioner:_shared_factor": _simply(_gram_factor),
    "solvers.softmax._preconditioner:_solve_shared": _simply(
        lambda a, k: (2.0 * k * len(a.scales) ** 2, 4.0 * len(a.scales) ** 2)
    ),
    "solvers.softmax.quadratic_model.loops:entry_pass": _passes(is_by_rows=False),
    "solvers.softmax.quadratic_model.loops:row_pass": _passes(is_by_rows=True),
    "solvers.softmax.quadratic_model.loops:entry_curvatures": _simply(_curvatures),
    "solvers.softmax.quadratic_model.loops:row_curvatures": _simply(_curvatures),
    "solvers.softmax._losses:softmax_rows": _entrywise(EXP + 4.0, 2, "S"),
    "solvers.softmax._losses:loss_along": _entrywise(EXP + 8.0, 4, "S"),
    "solvers.softmax._losses:logistic_along": _entrywise(EXP + 40.0, 5, "S"),
    "solvers.softmax._losses:residuals": _entrywise(2.0, 2, "P"),
    "solvers.softmax._losses:curvature_times": _entrywise(5.0, 3, "P"),
    "solvers.ball._intercept:search": _searches,
    "solvers.ball._objective:_slopes": _entrywise(5.0, 3, "S"),
    "solvers.ball._objective:_slope_rise": _entrywise(8.0, 4, "S"),
    "solvers.ball._objective:_loss_sums": _entrywise(8.0, 2, "S"),
    "solvers.softmax.quadratic_model.dense:DenseModel.hessian": _simply(_dense_hessian),
    "losses.entrywise:SmoothHinge.slope": _entrywise(4.0, 3, "scores"),
    "losses.entrywise:SmoothHinge.value": _entrywise(4.0, 3, "scores"),
    "losses.entrywise:SmoothHinge.bend": _entrywise(2.0, 3, "scores"),
    "losses.entrywise:Squared.slope": _entrywise(1.0, 3, "scores"),
    "losses.entrywise:Squared.value": _entrywise(3.0, 3, "scores"),
    "solvers.ball._low_rank:StepMatrix.times": _step_product("V"),
    "solvers.ball._low_rank:StepMatrix.adjoint": _step_product("Q"),
    "solvers.ball._low_rank:StepMatrix.toarray": _simply(lambda a, k: _product(a.self.X, k, True)),
    "solvers.ball._low_rank:StepMatrix.scores": _simply(lambda a, k: (2.0 * a.out.size * a.W.rank, a.out.nbytes)),
    "sets.truncated:qr": _decomposition(4.0, 0.0),
    "sets.truncated:svd": _decomposition(6.0, 20.0),
    "solvers.sampled_kernel._direction:SubgradientMethod.update_direction": _simply(
        lambda a, k: (2.0 * len(a.state.index) ** 2, 8.0 * len(a.state.index) ** 2)
    ),
}
