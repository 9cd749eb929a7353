"""Steps to the best dual point in the span of the last moves: their constants, their moves, and when they come.

A state has alpha and weights, both flat, and beside them

    moves           (1 + r, both)   the point after the last such step, and r moves; or none
    passes_left     before the next one
    interval        passes between two of them
    n_useless       in a row, that brought less than a pass does
    n_spans         made
    span_dual       the dual value after the last one
                                                                                           maths: linear SVM, section 8
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SpanTuning", "best_combination", "due_moves", "more_damping", "next_span", "note_move", "note_point"]

Array = NDArray[Any]


class SpanTuning(NamedTuple):
    """The constants of the steps."""

    moves: int = 3  # at most; on news20 5 were as fast and 8 slower, on made-up data 2 and 5 took more passes
    share: float = 6.0  # passes between two steps take at least so many times as long: on news20 3 and 8 took longer
    entry: float = 740.0  # multiplications of BLAS in the time that a step takes for each entry of alpha: a timing
    patience: int = 4  # steps in a row that bring less than a pass does, before they become rarer; by hand
    rarest: int = 4  # so many times as many passes then, at most: few enough to notice when steps help again; by hand
    after: int = 64  # passes before the first: fits that need few shall not pay; with 32 wine paid 15 to 30 %
    least_damping: float = 1e-6  # of the first after none, relative to the mean |x_i|^2; by hand
    most_damping: float = 1e12  # the same: beyond as much for every row nothing moves, and without end it overflows
    growth: float = 16.0  # of the damping where D did not rise; by hand
    fall: float = 0.25  # of the damping where it did; by hand
    rank: float = 1e-10  # relative: moves that are sums of others up to this do not count; by hand
    most_numbers: float = 1.25e8  # float64 numbers that all moves may hold, else there are fewer: 1 GB; by hand


def due_moves(n_numbers: int, tuning: SpanTuning) -> int:
    """Return how many moves of so many numbers are kept, beside one point; 0 where there is no room for any."""
    return max(min(tuning.moves, int(tuning.most_numbers // n_numbers) - 1), 0)


def best_combination(H: Array, slopes: Array, rank: float) -> Array:
    """Return the t with the largest <slopes, t> - t'H t / 2 of each problem; H is (..., r, r), slopes (..., r)."""
    scale = np.sqrt(np.einsum("...jj->...j", H))
    scale[scale == 0.0] = 1.0
    values, vectors = np.linalg.eigh(H / scale[..., None, :] / scale[..., None])
    is_kept = values > rank * values[..., -1:]
    along = np.einsum("...ij,...i->...j", vectors, slopes / scale)
    t = np.divide(along, values, out=np.zeros_like(along), where=is_kept)
    return np.asarray(np.einsum("...ij,...j->...i", vectors, t) / scale)


def more_damping(damping: Any, squares: Array, tuning: SpanTuning) -> Any:
    """Return the damping after a step that brought nothing, a number or one per problem; ``squares`` are |x_i|^2."""
    mean = float(squares.mean())
    return np.clip(tuning.growth * damping, tuning.least_damping * mean, tuning.most_damping * mean)


def note_point(state: Any) -> None:
    """Keep the point from which moves begin."""
    np.concatenate([state.alpha, state.weights], out=state.moves[0])


def note_move(state: Any, most: int) -> tuple[Array, Array]:
    """Keep the move since the last step, in the place of the oldest of ``most``; return its two parts."""
    if len(state.moves) <= most:
        state.moves = np.concatenate([state.moves, state.moves[:1]])
        place = len(state.moves) - 1
    else:
        place = 1 + state.n_spans % most
    state.n_spans += 1
    m = len(state.alpha)
    last, move = state.moves[0], state.moves[place]
    np.subtract(state.alpha, last[:m], out=move[:m])
    np.subtract(state.weights, last[m:], out=move[m:])
    return move[:m], move[m:]


def next_span(state: Any, every: int, gain: float, dual: float, tuning: SpanTuning) -> None:
    """Say when the next step comes, given what this one has added to the dual value."""
    state.n_useless = 0 if gain * state.interval > dual - state.span_dual else state.n_useless + 1
    if state.n_useless == 0:
        state.interval = every
    elif state.n_useless % tuning.patience == 0:
        state.interval = min(2 * state.interval, tuning.rarest * every)
    state.passes_left, state.span_dual = state.interval - 1, dual + gain
