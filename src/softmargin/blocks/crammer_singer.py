"""The Crammer-Singer block: projection onto a simplex.

    minimise over alpha_i:  1/2 q |alpha_i - old|^2 + <alpha_i, G>,  G = W'x_i - e_y,  q = |x_i|^2
                                                                                               maths: linear SVM, eq. 14
    over                    alpha_i <= C e_y,  sum alpha_i = 0
    solution                alpha_i = min(C e_y, u + tau),   u = old + (max G - G) / q,   sum alpha_i = 0

f(tau) = sum min(C e_y, u + tau) is concave, increasing and piecewise linear. A Newton step from any tau with
f(tau) <= 0 moves right without overshooting (Michelot 1986), and both of these are such points: the tau of the old
support (a warm start) and the largest one at which a single class reaches all of C. The gap of the row is
sum (C e_y - alpha_i) (max G - G), a sum of terms >= 0, so that nothing cancels even where C is huge.
"""

from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct
from softmargin.backends.lanes import largest, load, maximum, splat, store, total, where_greater
from softmargin.blocks.weston_watkins import ROUNDING, write_tile

__all__ = ["CrammerSingerProjection"]


@compiled_struct("block_step")
class CrammerSingerProjection(NamedTuple):
    """Exact projection onto {p >= 0, sum p = C}, without sorting."""

    per_class_C: bool = False  # may C differ by class?

    def block_step(
        self, G: Any, y: int, q: float, C: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
    ) -> tuple[float, int, int]:
        """Project; see ``softmargin.blocks`` for the arguments."""
        zero = splat(0.0)
        one = splat(1.0)
        inverse = splat(1.0 / q)
        corner = work.bound  # C e_y
        u = work.step
        corner[y] = C
        top = splat(-np.inf)
        for t in range(m):
            top = maximum(top, load(G, tiles[t]))
        top = splat(largest(top))
        gap_lanes = zero
        support = zero
        count = zero
        lowest = splat(-np.inf)
        for t in range(m):
            o = tiles[t]
            below = top - load(G, o)
            a = load(alpha, first + o)
            c = load(corner, o)
            u_tile = a + below * inverse
            store(u, o, u_tile)
            gap_lanes = gap_lanes + (c - a) * below
            support = support + where_greater(c, a, u_tile, c)
            count = count + where_greater(c, a, one, zero)
            lowest = maximum(lowest, (c - splat(C)) - u_tile)
        gap = total(gap_lanes)
        if gap <= ROUNDING * alpha[first + y]:
            corner[y] = 0.0
            return gap, 0, 0

        tau = max(-total(support) / total(count), largest(lowest)) if total(count) > 0 else largest(lowest)
        while True:
            shift = splat(tau)
            support = zero
            count = zero
            for t in range(m):
                c = load(corner, tiles[t])
                u_tile = load(u, tiles[t])
                moved = u_tile + shift
                support = support + where_greater(c, moved, u_tile, c)
                count = count + where_greater(c, moved, one, zero)
            if not total(count) > 0:
                break
            new = -total(support) / total(count)
            if not new > tau:
                break
            tau = new

        shift = splat(tau)
        old_own = alpha[first + y]
        mass = zero
        n_changed = 0
        n_kept = 0
        for t in range(m):
            o = tiles[t]
            c = load(corner, o)
            moved = load(u, o) + shift
            new_row = where_greater(c, moved, moved, c)
            mass = mass + new_row
            is_near = largest(c - moved) * q > -slack
            n_changed, n_kept = write_tile(o, new_row, is_near, y, alpha, first, work, n_changed, n_kept)
        # The label's entry takes what rounding left, so that the row sums to zero.
        alpha[first + y] -= total(mass)
        work.step[y] = alpha[first + y] - old_own
        corner[y] = 0.0
        return gap, n_changed, n_kept
