"""Compiled products with X that skip zeros, for any number of classes, and count their work.

    add_rows(rows, D, k, out)        out += X' D, skipping zeros of D; returns the number of products made

D and out are flat, row-major, float64. ``add_rows`` on the rows of X' adds X D. A tile is four classes of a sample.
Where k is no multiple of four, the last tile overlaps the one before, so that nothing is padded. Fewer than four
classes are visited one by one.
"""

from typing import Any

import numpy as np

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, any_nonzero, load, pointer, splat, store
from softmargin.core.protocols import Array

_FRESH = np.repeat([0.0, 1.0], WIDTH)


@inline
def tile_at(c: int, k: int) -> int:
    """Return where the tile of class c begins: earlier for the last one, if k is no multiple of four."""
    return min(c, k - WIDTH)


@inline
def fresh_lanes(c: int, k: int) -> Any:
    """Return 1 in the lanes of that tile that no earlier tile holds, else 0."""
    return load(pointer(_FRESH), WIDTH + min(k - WIDTH - c, 0))


@jit
def add_rows(rows: Any, D: Array, k: int, out: Array) -> int:
    """Add X' D by the non-zero tiles of D; return how many products the non-zero entries of D need."""
    bare, D_, out_ = rows.bare(), pointer(D), pointer(out)
    touched = 0
    for i in range(D.shape[0] // k):
        begin, end = bare.entries(i)
        for c in range(k):
            touched += (end - begin) * (D[i * k + c] != 0.0)
        if k < WIDTH:
            for c in range(k):
                step = D[i * k + c]
                if step != 0.0:
                    for p in range(begin, end):
                        out[bare.column(i, p) * k + c] += step * bare.value(p)
        else:
            for c in range(0, k, WIDTH):
                o = tile_at(c, k)
                steps = fresh_lanes(c, k) * load(D_, i * k + o)
                if any_nonzero(steps):
                    for p in range(begin, end):
                        q = bare.column(i, p) * k + o
                        store(out_, q, load(out_, q) + splat(bare.value(p)) * steps)
    return touched
