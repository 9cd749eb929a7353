"""Pieces of compiled loops that several families of solvers use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline
from softmargin.backends.lanes import WIDTH, largest, load, maximum

__all__ = ["CHUNK", "in_chunks", "keep_tiles", "largest_of", "shuffle", "tiles_of"]

CHUNK = 128  # samples; a multiple of 4 WIDTH


def in_chunks(values: NDArray[Any], fill: float) -> NDArray[np.float64]:
    """Copy a vector, padded to whole chunks."""
    wide = np.full(-(-len(values) // CHUNK) * CHUNK, fill)
    wide[: len(values)] = values
    return wide


@inline
def shuffle(order: Any, m: int, random: Any) -> None:
    """Fisher-Yates with Marsaglia's xorshift: a permutation in place, the same on every machine.

    The upper half of a number times t + 1, without its lower half, is a place up to t: a remainder takes five times as
    long.
    """
    x = random[0]
    for t in range(m - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        j = np.int64(((x >> np.uint64(32)) * np.uint64(t + 1)) >> np.uint64(32))
        order[t], order[j] = order[j], order[t]
    random[0] = x


@inline
def largest_of(values: Any, first: int) -> float:
    """Return the largest number of a chunk."""
    a0, a1 = load(values, first), load(values, first + WIDTH)
    a2, a3 = load(values, first + 2 * WIDTH), load(values, first + 3 * WIDTH)
    p = first + 4 * WIDTH
    while p < first + CHUNK:
        a0, a1 = maximum(a0, load(values, p)), maximum(a1, load(values, p + WIDTH))
        a2, a3 = maximum(a2, load(values, p + 2 * WIDTH)), maximum(a3, load(values, p + 3 * WIDTH))
        p += 4 * WIDTH
    return largest(maximum(maximum(a0, a1), maximum(a2, a3)))


@inline
def tiles_of(live: Any, first: int, words: int, tiles: Any) -> int:
    """List the tiles whose bits are set; return how many."""
    m = 0
    for word in range(words):
        bits = live[first + word]
        tile = word * 64
        while bits != np.uint64(0):
            if bits & np.uint64(1):
                tiles[m] = tile * WIDTH
                m += 1
            bits >>= np.uint64(1)
            tile += 1
    return m


@inline
def keep_tiles(live: Any, first: int, words: int, tiles: Any, m: int) -> None:
    """Set the bits of these tiles, clear all others."""
    for word in range(words):
        live[first + word] = np.uint64(0)
    for t in range(m):
        tile = tiles[t] // WIDTH
        live[first + tile // 64] |= np.uint64(1) << np.uint64(tile % 64)
