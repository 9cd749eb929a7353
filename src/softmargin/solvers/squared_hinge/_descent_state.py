"""The iterate of coordinate descent on binary SVMs of the same rows, what its passes see, and its constants."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, padded, zeros
from softmargin.core.errors import IncompatibleError
from softmargin.matrices.operator import row_squares
from softmargin.matrices.rows import as_rows
from softmargin.solvers.squared_hinge._descent_loop import Duals, Visits

__all__ = [
    "DescentState",
    "DescentTuning",
    "active_in",
    "enliven",
    "inverse_of",
    "n_words",
    "stacked",
    "structs",
    "theta_of",
]

Array = NDArray[Any]


class DescentTuning(NamedTuple):
    """The constants of the descent."""

    rho_share: float = 0.1  # rho as a share of a sample's curvature, as in softmax dual descent: by hand
    beyond: float = 0.1  # of the largest violation: gradients beyond it leave the set; 1, 0.3, 0.1, 0.03 tried on text
    set_target: float = 0.1  # share of its first gap at which a shrunken set is done: by hand
    max_set_passes: int = 30  # visits of a shrunken set, in passes over everything: by hand
    slow: float = 0.85  # share of the gap that a step over the set leaves: from then on, class by class; by hand
    max_class_steps: int = 12  # of one class before the next one: copies of its column cost less; 4 and 12 tried
    step_share: float = 0.25  # of a pass's visits, in a step over a shrunken set; more would come late to tol
    # Numbers of X that a step over a set reads at least: fewer take less time than its calls. By hand.
    least_numbers: float = 50_000.0
    # Passes of one step, until they have read so many numbers: further ones take less time than what a run adds to a
    # step. By hand.
    passes_of_step: int = 8
    numbers_of_step: float = 300_000.0
    visit: float = 16.0  # numbers in the time of a visit, beside those of its row; by hand
    span_every: int = 8  # steps between two in the span of their moves; on news20 12 took longer


@dataclass
class DescentState:
    """Arrays and plain numbers, which a checkpoint holds, and scratch; k is padded to whole tiles, or 1."""

    alpha: Array  # (n * k,)
    weights: Array  # ((d + 1) * k,)
    bias: Array  # (k,) b
    multiplier: Array  # (k,) beta
    rho: Array  # (k,)
    gaps: Array  # (k,) gap found in the last pass
    steepest: Array  # (k,) the largest gradient with which a variable at a bound stays in the set
    order: Array  # (n,) samples; the first n_open have a price, the first n_active are in the set
    live: Array  # (n * words,) bit t of a sample: tile t is in the set; empty where there is one class
    random: Array  # (1,) state of the shuffle
    moves: Array  # (1 + r, alpha and weights): their values after the last step in the span of the moves, r moves
    damping: Array  # (k,) of the next such step
    n_open: int
    dual: float  # sum of the dual values
    n_active: int = 0  # 0: the next pass is over everything
    visits_left: int = 0
    target: float = 0.0  # gap of the set at which it is done
    gap: float = math.inf  # of the last pass
    is_slow: bool = False  # sets are visited class by class
    last_gap: float = math.inf  # of the pass before it, or of the last pass of the step before
    work: float = 0.0  # of all steps, in those over a set where rows are many
    passes_left: int = 0  # steps before the next one in the span of the moves (``common.span``)
    interval: int = 0
    n_useless: int = 0
    n_spans: int = 0
    span_dual: float = 0.0
    loop: tuple[Duals, Visits] | None = field(default=None, init=False, repr=False)  # made by the first step

    positions: ClassVar[dict[str, str]] = {"order": "order", "n_open": "order", "n_active": "order"}
    tiles: ClassVar[dict[str, tuple[str, str]]] = {"live": ("order", "alpha")}
    grows: ClassVar[dict[str, tuple[str, int]]] = {"moves": ("moves", 0)}


def stacked(parts: list[Any]) -> tuple[Any, Array, Array]:
    """Return what the parts share, their labels (n, k), int8, and their prices, (n, k) or (n, 1) where all agree."""
    binaries = [part.as_binary() for part in parts]
    first = binaries[0]
    if not all(binary.X is first.X and binary[3:] == first[3:] for binary in binaries):
        raise IncompatibleError(
            "OneVsRestDescent needs classes of the same rows, loss and intercept; these differ. Use EachClass."
        )
    k = padded(len(parts)) if len(parts) > 1 else 1
    signs = np.ones((len(first.y), k), dtype=np.int8)
    for c, binary in enumerate(binaries):
        signs[:, c] = binary.y
    if all(np.array_equal(binary.C, first.C) for binary in binaries):
        return first, signs, first.C[:, None]
    prices = np.zeros(signs.shape)
    for c, binary in enumerate(binaries):
        prices[:, c] = binary.C
    return first, signs, prices


def structs(parts: list[Any], state: DescentState, beyond: float) -> tuple[Duals, Visits]:
    """Return the arguments of the compiled passes that stay the same."""
    binary, signs, prices = stacked(parts)
    rows, k = as_rows(binary.X), signs.shape[1]
    squares = row_squares(binary.X)
    theta, point = theta_of(binary, state.rho), (state.alpha, state.weights, state.bias, state.multiplier)
    duals = Duals(rows, squares, signs.ravel(), prices.ravel(), binary.is_squared, *point, theta, theta * state.rho)
    found = (state.order, state.live, state.steepest, state.gaps, state.random)
    return duals, Visits(*found, beyond, zeros(3 * k), np.zeros(3 * -(-k // WIDTH), dtype=np.int64))


def theta_of(binary: Any, rho: Array) -> Array:
    """Return theta of the bias: 1 where it is free, 0 where there is none; (k,)."""
    if binary.has_free_bias:
        return np.ones_like(rho)
    square = float(binary.constant) ** 2
    theta: Array = np.divide(square, square + rho, out=np.zeros_like(rho), where=square + rho > 0.0)
    return theta


def inverse_of(prices: Array, is_squared: bool) -> Array:
    """Return r, zero where the price is."""
    return np.divide(1.0, prices, out=np.zeros_like(prices), where=(prices > 0.0) & is_squared)


def active_in(state: DescentState, c: int) -> Array:
    """Return the samples of the set in which the tile of class c is, an array of the caller's own."""
    active, tile = state.order[: state.n_active], c // WIDTH
    words = state.live.reshape(len(state.order), -1)[active, tile // 64]
    return np.asarray(active[(words >> np.uint64(tile % 64)) & np.uint64(1) == 1])


def n_words(k: int) -> int:
    """Return how many words hold a bit for every tile."""
    return -(-k // (64 * WIDTH)) if k > 1 else 0


def enliven(state: DescentState, k: int) -> None:
    """Set the bits of all tiles."""
    n_tiles = k // WIDTH
    for word in range(n_words(k)):
        bits = min(n_tiles - 64 * word, 64)
        state.live.reshape(len(state.order), -1)[:, word] = np.uint64((1 << bits) - 1)
