"""The best dual point in the span of the last moves: what block descent cannot see from one row at a time.

Block descent crawls along directions in which rows hold each other back, such as texts that are nearly the same but
have other labels. Its moves over some passes point along them. The dual is a quadratic, so that the best sum of such
moves is known:

    maximise over t:   D(alpha + sum_j t_j U_j) - damping / 2 |sum_j t_j U_j|^2                                     (1)

Entries that are zero stay so, others stop at their bounds. The point is taken where D rises, and the damping falls;
else it grows: it holds the sum near to alpha, where fewer entries meet their bounds. Where some steps
in a row bring less than one pass does, the next ones come after more passes.              maths: linear SVM, section 8

    maths       here
    U_j, X'U_j  moves[j]        (n * k + (d + 1) * k,), k padded: of the passes between two such steps, and the step
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, any_nonzero, load, pointer, store
from softmargin.core.protocols import BlockDualProblem
from softmargin.solvers.common.span import best_combination

__all__ = ["add_changes", "best_sum", "spanned_rows"]

Array = NDArray[Any]


def best_sum(U: Array, V: Array, slopes: Array, damping: float, rank: float) -> Array:
    """Return the t of (1), given the moves as rows of U, V = X'U, and the slopes of D along them."""
    H = V @ V.T
    if damping > 0.0:
        H += damping * (U @ U.T)
    return best_combination(H, slopes, rank)


def spanned_rows(
    problem: BlockDualProblem, alpha: Array, weights: Array, moves: Array, damping: float, rank: float
) -> Array:
    """Return the rows of the point of (1), made feasible; they and alpha are (n, k padded), padding stays zero.

    Two classes have one column, the label's (``_two_classes``).
    """
    n, k, size = len(problem.y), problem.n_classes, alpha.shape[1]
    U, V = moves[:, : n * size], moves[:, n * size :]
    own = U.sum(axis=1) if size == 1 else U[:, size * np.arange(n) + problem.y].sum(axis=1)
    t = best_sum(U, V, own - V @ weights, damping, rank)
    wanted = alpha + (t @ U).reshape(n, size)
    wanted *= alpha != 0.0
    if size == 1:
        return np.asarray(np.clip(wanted, 0.0, problem.C[:, None]))
    new = np.zeros_like(alpha)
    new[:, :k] = problem.feasible(wanted[:, :k])
    return new


@jit
def add_changes(rows: Any, changes: Array, work: Any, weights: Array) -> None:
    """Add X'changes to the weights; changes is (n * k,), and most of its rows may be zero."""
    rows_, w, c_, W_ = rows.bare(), work.bare_workspace(), pointer(changes), pointer(weights)
    k = work.numbers.shape[1]
    if k == 1:
        for i in range(changes.shape[0]):
            if c_[i] != 0.0:
                w.step[0] = c_[i]
                rows_.add(i, w.step, w.tiles, 1, W_, k)
        return
    for first in range(0, changes.shape[0], k):
        m = 0
        for o in range(0, k, WIDTH):
            step = load(c_, first + o)
            if any_nonzero(step):
                store(w.step, o, step)
                w.changed[m] = o
                m += 1
        if m > 0:
            rows_.add(first // k, w.step, w.changed, m, W_, k)
