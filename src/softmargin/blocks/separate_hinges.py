"""The block of one-vs-rest hinges: every class has a dual variable of its own, and none asks another.

    minimise over alpha_i:  1/2 q |alpha_i - old|^2 + <alpha_i, h>,   h_c = s_c + 1 (c != y),  h_y = s_y - 1,  s = W'x_i
    over                    -C <= alpha_ic <= 0 (c != y),   0 <= alpha_iy <= C
    solution                alpha_i = clip(old - h / q)

The gap of the row is sum_c C [h_c]_+ + alpha_ic h_c for the wrong classes; h_y changes its sign in the first term.
"""

from typing import Any, NamedTuple

from softmargin.backends.jit import compiled_struct
from softmargin.backends.lanes import WIDTH, any_nonzero, largest, load, maximum, splat, store, total, where_greater
from softmargin.blocks.weston_watkins import ROUNDING

__all__ = ["SeparateHinges"]


@compiled_struct("block_step")
class SeparateHinges(NamedTuple):
    """Clipped steps of every class at once."""

    per_class_C: bool = False  # may C differ by class?

    def block_step(
        self, G: Any, y: int, q: float, C: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
    ) -> tuple[float, int, int]:
        """Clip; see ``softmargin.blocks`` for the arguments."""
        zero, one, price, inverse = splat(0.0), splat(1.0), splat(C), splat(1.0 / q)
        old, h = alpha[first + y], G[y]
        gap_lanes = zero
        for t in range(m):
            above = load(G, tiles[t]) + one
            gap_lanes = gap_lanes + (price * maximum(above, zero) + load(alpha, first + tiles[t]) * above)
        # The lanes took the label for a wrong class, with h = s_y.
        gap = total(gap_lanes) - C * max(h + 1.0, 0.0) - old + C * max(-h, 0.0)
        if gap <= ROUNDING * C:
            return max(gap, 0.0), 0, 0

        new = min(max(old - h / q, 0.0), C)
        home, n_changed, n_kept = y - y % WIDTH, 0, 0
        for t in range(m):
            o = tiles[t]
            a, above = load(alpha, first + o), load(G, o) + one
            moved = maximum(a - above * inverse, zero - price)
            moved = where_greater(moved, zero, zero, moved)
            store(alpha, first + o, moved)
            store(work.step, o, moved - a)
            if o == home:
                alpha[first + y], work.step[y] = new, new - old
            if any_nonzero(load(work.step, o)):
                work.changed[n_changed] = o
                n_changed += 1
            if o == home or any_nonzero(moved) or largest(above) > -slack:
                work.kept[n_kept] = o
                n_kept += 1
        return gap, n_changed, n_kept
