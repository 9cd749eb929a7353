"""Compiled sums over all entries of the scores, for a loss that has a compiled form (``losses.compiled_entries``).

    intercept_sums    the sums over samples of p f', p |f'| and p f'', with which Newton's method finds the intercept
    slopes            p f'
    slope_rise        < p f' - U , S - S0 >
    loss_sums         the sums of p f and p f*(f')

f is taken at S + b. No array of the size of the scores is allocated. Arrays are flat; p holds one weight per row of S,
or one per entry. The tiles of a row are those of ``_l1_loops``; lanes that the last tile repeats have no weight in
sums. Sums run over blocks of rows: the best intercept is where a sum over all samples is zero up to rounding.
"""

from typing import Any

from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, load, maximum, pointer, splat, store, total
from softmargin.solvers.ball._l1_loops import fresh_lanes, tile_at

__all__ = ["intercept_sums", "loss_sums", "slope_rise", "slopes"]

Array = NDArray[Any]
_BLOCK = 4096  # entries of a block: its tiles share cache lines, which are read while they are still in the cache
_FEWEST = 4 * WIDTH  # rows of a block


@inline
def _weights(p: Any, i: int, o: int, k: int, is_by_entry: bool) -> Any:
    """Return the weights of a tile."""
    return load(p, i * k + o) if is_by_entry else splat(p[i])


@jit
def intercept_sums(loss: Any, b: Array, p: Array, T: Array, S: Array, out: Array) -> None:
    """Write the sums over rows of p f', p |f'| and p f'', one after the other; (3 * k,)."""
    p_, T_, S_, b_, out_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(out)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    n, rows = S.shape[0] // k, max(_BLOCK // k, _FEWEST)
    out[:] = 0.0
    for first in range(0, n, rows):
        for c in range(0, k, WIDTH):
            o, fresh = tile_at(c, k), fresh_lanes(c, k)
            shift = load(b_, o)
            sum_slopes, sum_sizes, sum_bends = splat(0.0), splat(0.0), splat(0.0)
            for i in range(first, min(first + rows, n)):
                slope, bend = loss.slope_and_bend(load(S_, i * k + o) + shift, load(T_, i * k + o))
                weight = fresh * _weights(p_, i, o, k, is_by_entry)
                slope = weight * slope
                sum_slopes = sum_slopes + slope
                sum_sizes = sum_sizes + maximum(slope, splat(0.0) - slope)
                sum_bends = sum_bends + weight * bend
            store(out_, o, load(out_, o) + sum_slopes)
            store(out_, k + o, load(out_, k + o) + sum_sizes)
            store(out_, 2 * k + o, load(out_, 2 * k + o) + sum_bends)


@jit
def slopes(loss: Any, b: Array, p: Array, T: Array, S: Array, out: Array) -> None:
    """Write p f'."""
    p_, T_, S_, b_, out_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(out)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    for i in range(S.shape[0] // k):
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            slope, _ = loss.slope_and_bend(load(S_, i * k + o) + load(b_, o), load(T_, i * k + o))
            store(out_, i * k + o, _weights(p_, i, o, k, is_by_entry) * slope)


@jit
def slope_rise(loss: Any, b: Array, p: Array, T: Array, S: Array, U: Array, S0: Array) -> float:
    """Return < p f' - U , S - S0 >."""
    p_, T_, S_, b_, U_, S0_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(U), pointer(S0)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    rise = 0.0
    for i in range(S.shape[0] // k):
        rises = splat(0.0)
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            s = load(S_, i * k + o)
            slope, _ = loss.slope_and_bend(s + load(b_, o), load(T_, i * k + o))
            change = _weights(p_, i, o, k, is_by_entry) * slope - load(U_, i * k + o)
            rises = rises + fresh_lanes(c, k) * change * (s - load(S0_, i * k + o))
        rise += total(rises)
    return rise


@jit
def loss_sums(loss: Any, b: Array, p: Array, T: Array, S: Array) -> tuple[float, float]:
    """Return the sums of p f and p f*(f')."""
    p_, T_, S_, b_ = pointer(p), pointer(T), pointer(S), pointer(b)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    losses, conjugates = 0.0, 0.0
    for i in range(S.shape[0] // k):
        row_losses, row_conjugates = splat(0.0), splat(0.0)
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            value, conjugate = loss.loss_and_conjugate(load(S_, i * k + o) + load(b_, o), load(T_, i * k + o))
            weight = fresh_lanes(c, k) * _weights(p_, i, o, k, is_by_entry)
            row_losses = row_losses + weight * value
            row_conjugates = row_conjugates + weight * conjugate
        losses += total(row_losses)
        conjugates += total(row_conjugates)
    return losses, conjugates
