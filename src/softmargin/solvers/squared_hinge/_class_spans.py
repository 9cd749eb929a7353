"""The best dual point of every class in the span of the last moves of all, for hinges whose intercept has a price.

    D_c(a) = sum a - 1/2 |w|^2 - v^2 / 2 (y'a)^2 ,   w = sum_i a_i y_i x_i                 maths: linear SVM, section 8

Each class has its own sum of its own moves, and takes it where its D rises.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.core.deadline import has_time_for
from softmargin.matrices.operator import SCATTERED, rmatmul
from softmargin.solvers.common.span import (
    SpanTuning,
    best_combination,
    due_moves,
    more_damping,
    next_span,
    note_move,
    note_point,
)

__all__ = ["go_to_span"]

Array = NDArray[Any]


def go_to_span(binary: Any, state: Any, every: int, tuning: SpanTuning) -> None:
    """After some steps on hinges, go to the best point of every class in the span of the last moves."""
    if binary.is_squared or binary.has_free_bias or state.passes_left > 0:
        return
    (duals, _), most = state.loop, due_moves(state.moves.shape[1], tuning)
    if most == 0 or not has_time_for(SCATTERED * tuning.moves * state.moves.shape[1]):
        return
    net = net_duals(duals, state.alpha)
    dual = state.dual - 0.5 * binary.constant**2 * float(net @ net)
    if len(state.moves) == 0:
        state.moves = np.empty((1, state.moves.shape[1]))
        note_point(state)
        state.interval, state.passes_left, state.span_dual = every, every - 1, dual
        return
    move, k = note_move(state, most), len(state.bias)
    new, added, pulled, plain, gains = spanned(binary, duals, state.moves[1:], state.damping, tuning.rank)
    is_better = gains > 0.0
    alpha = state.alpha.reshape(-1, k)
    move[0].reshape(-1, k)[:, is_better] += (new - alpha)[:, is_better]
    move[1].reshape(-1, k)[:, is_better] += added[:, is_better]
    np.copyto(alpha, new, where=is_better)
    state.weights += (added * is_better).reshape(-1)
    state.bias += duals.pull * pulled * is_better
    state.dual += float(plain[is_better].sum())
    larger = more_damping(state.damping, duals.squares, tuning)
    state.damping[:] = np.where(is_better, tuning.fall * state.damping, larger)
    note_point(state)
    next_span(state, every, float(gains[is_better].sum()), dual, tuning)


def spanned(binary: Any, duals: Any, moves: Array, damping: Array, rank: float) -> tuple[Array, ...]:
    """Return new rows (n, k), the weights they add (d + 1, k), y' of the change, and the rises of D, (k,) each.

    The first rise is that of sum a - 1/2 |w|^2 alone.
    """
    k, price = len(duals.bias), binary.constant**2
    alpha, signs = duals.alpha.reshape(-1, k), duals.signs.reshape(-1, k)
    U, V = moves[:, : alpha.size], moves[:, alpha.size :]
    net, nets = net_duals(duals, duals.alpha), [net_duals(duals, u) for u in U]
    H, slopes = np.empty((k, len(U), len(U))), np.empty((k, len(U)))
    for p in range(len(U)):
        slopes[:, p] = U[p].reshape(-1, k).sum(axis=0) - by_class(V[p], duals.weights, k) - price * net * nets[p]
        for q in range(p + 1):
            bend = by_class(V[p], V[q], k) + price * nets[p] * nets[q] + damping * by_class(U[p], U[q], k)
            H[:, p, q] = H[:, q, p] = bend
    t = best_combination(H, slopes, rank)
    new = alpha.copy()
    for p in range(len(U)):
        new += t[:, p] * U[p].reshape(-1, k)
    new *= alpha != 0.0
    np.clip(new, 0.0, duals.C.reshape(len(alpha), -1), out=new)
    change = new - alpha
    rows = np.flatnonzero(change.any(axis=1))  # few: most variables are zero
    signed = signs[rows] * change[rows]
    added, pulled = rmatmul(binary.X[rows], signed, 0.0), signed.sum(axis=0)
    flat = added.reshape(-1)
    plain = change.sum(axis=0) - by_class(duals.weights + 0.5 * flat, flat, k)
    return new, added, pulled, plain, plain - price * pulled * (net + 0.5 * pulled)


def net_duals(duals: Any, alpha: Array) -> Array:
    """Return y'a of every class; (k,)."""
    return by_class(duals.signs, alpha, len(duals.bias))


def by_class(a: Array, b: Array, k: int) -> Array:
    """Return the inner products of the columns of two flat arrays of k columns."""
    out = np.zeros(k)
    _add_products(a, b, out)
    return out


@jit
def _add_products(a: Array, b: Array, out: Array) -> None:
    k = out.shape[0]
    for first in range(0, a.shape[0], k):
        for c in range(k):
            out[c] += a[first + c] * b[first + c]
