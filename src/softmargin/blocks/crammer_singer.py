"""The Crammer-Singer block: projection onto a simplex.

    minimise over alpha_i:  1/2 q |alpha_i - old|^2 + <alpha_i, G>,  G = W'x_i - e_y,  q = |x_i|^2           spec 2.5
    with p = C e_y - alpha_i:   p >= 0, sum p = C,   p = [z - tau]_+,   z = p_old + G / q

tau solves f(tau) = sum [z - tau]_+ - C = 0: convex, decreasing, piecewise linear. A Newton step from any tau with
f(tau) >= 0 moves right without overshooting (Michelot 1986), and both of these are such points: the tau of the old
support (a warm start) and max z - C. The gap of the row is C max G - <p, G>.
"""

from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct
from softmargin.backends.lanes import (
    WIDTH,
    any_nonzero,
    largest,
    load,
    maximum,
    splat,
    store,
    total,
    where_greater,
)

__all__ = ["CrammerSingerProjection"]

ROUNDING = 1e-15  # a gap below this share of C is zero but for rounding


@compiled_struct("block_step")
class CrammerSingerProjection(NamedTuple):
    """Exact projection onto {p >= 0, sum p = C}, without sorting."""

    accuracy: float = 0.0  # exact: unused, every block has one field

    @property
    def per_class_C(self) -> bool:
        """Say whether C may differ by class."""
        return False

    def block_step(
        self,
        G: Any,
        y: int,
        q: float,
        C: float,
        alpha: Any,
        first: int,
        tiles: Any,
        m: int,
        work: Any,
        slack: float,
    ) -> tuple[float, int, int]:
        """Project; see ``softmargin.blocks`` for the arguments."""
        zero = splat(0.0)
        one = splat(1.0)
        inverse = splat(1.0 / q)
        corner = work.bound  # C e_y
        z = work.step
        corner[y] = C
        inner = zero
        support = zero
        count = zero
        top_score = splat(-np.inf)
        top_z = top_score
        for t in range(m):
            o = tiles[t]
            g = load(G, o)
            p = load(corner, o) - load(alpha, first + o)
            z_tile = p + g * inverse
            store(z, o, z_tile)
            inner = inner + p * g
            support = support + where_greater(p, zero, z_tile, zero)
            count = count + where_greater(p, zero, one, zero)
            top_score = maximum(top_score, g)
            top_z = maximum(top_z, z_tile)
        gap = C * largest(top_score) - total(inner)
        if gap <= ROUNDING * C:
            corner[y] = 0.0
            return gap, 0, 0

        tau = max((total(support) - C) / total(count), largest(top_z) - C)
        while True:
            threshold = splat(tau)
            support = zero
            count = zero
            for t in range(m):
                z_tile = load(z, tiles[t])
                support = support + where_greater(z_tile, threshold, z_tile, zero)
                count = count + where_greater(z_tile, threshold, one, zero)
            new = (total(support) - C) / total(count)
            if not new > tau:
                break
            tau = new

        threshold = splat(tau)
        own = y - y % WIDTH
        n_changed = 0
        n_kept = 0
        for t in range(m):
            o = tiles[t]
            over = load(z, o) - threshold
            new_row = load(corner, o) - maximum(over, zero)
            step = new_row - load(alpha, first + o)
            store(work.step, o, step)
            store(alpha, first + o, new_row)
            if any_nonzero(step):
                work.changed[n_changed] = o
                n_changed += 1
            if o == own or largest(over) * q > -slack:
                work.kept[n_kept] = o
                n_kept += 1
        corner[y] = 0.0
        return gap, n_changed, n_kept
