"""``check_block``: the minimiser of one sample's dual row, from any start, at any price."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.blocks import minimise_block

__all__ = ["check_block"]

Array = NDArray[Any]
EPS = float(np.finfo(np.float64).eps)
PRICES = (0.0, 1e-10, 0.25, 1.0, 3.0, 1e8)
N_ROWS = 60
SHARE = 1e-13  # of C: the gap that a block may leave of a row that it starts at


def check_block(block: Any, multiclass: str, *, seed: int = 0) -> None:
    """Hold a block to its contract: see ``softmargin.blocks``.

    Weston-Watkins:  b minimises 1/2 b'(I + 11')b - v'b  over 0 <= b <= C
    Crammer-Singer:  b minimises the same  over b >= 0, 1'b <= C

    The optimality conditions hold to rounding: from zero, from any feasible start (but for a gap of 1e-13 C, which it
    may leave), with ties, with prices from 0 to 1e8, and with a price per class where ``per_class_C`` says so.

    Parameters
    ----------
    block : struct
        With ``block_step`` and ``within_bounds``; see ``softmargin.blocks``.
    multiclass : {"weston_watkins", "crammer_singer"}
        The set it minimises over.
    seed : int, default=0
        Of the rows.
    """
    rng = np.random.default_rng(seed)
    for i in range(N_ROWS):
        m = int(rng.integers(1, 14))
        v = rng.choice([-1.0, 0.0, 0.25, 0.5, 1.0, 1.25, 2.0], m) if i % 2 else 3.0 * rng.standard_normal(m)
        for C in PRICES:
            _check_optimal(block, multiclass, v, C, minimise_block(block, v, C), 0.0)
            share = rng.random(m)
            start = C * (share if multiclass == "weston_watkins" else share / max(share.sum(), 1.0))
            if C <= 1e3:
                left = np.sqrt(2.0 * SHARE * C) * (1.0 + m)
                _check_optimal(block, multiclass, v, C, minimise_block(block, v, C, start=start), left)
        if block.per_class_C:
            prices = rng.choice(np.array(PRICES[:-1]), m)
            _check_optimal(block, multiclass, v, prices, minimise_block(block, v, prices), 0.0)


def _check_optimal(block: Any, multiclass: str, v: Array, C: Any, b: Array, left: float) -> None:
    largest = float(np.max(C)) if np.max(C) < 1e3 else 0.0
    slack = 20.0 * 64.0 * EPS * (1.0 + float(np.abs(v).max()) + largest) * len(v) + left
    if multiclass == "crammer_singer":
        slack += 160.0 * EPS * float(C)  # the projection works on numbers of the size of C
    found = _violation(multiclass, v, b, C)
    if not found <= slack:
        raise AssertionError(f"{block!r}: v={v}, C={C} gives {b}, which violates its optimality conditions by {found}.")


def _violation(multiclass: str, v: Array, b: Array, C: Any) -> float:
    """Return the largest violation of feasibility or optimality, in units of v."""
    gradient = b + b.sum() - v
    if multiclass == "weston_watkins":
        return float(np.abs(b - np.clip(b - gradient, 0.0, C)).max())
    outside = max(-float(b.min()), float(b.sum()) - float(C))
    theta = max(-float(gradient.min()), 0.0)  # the multiplier of the sum constraint
    slack = theta * (float(C) - float(b.sum())) + float(b @ (gradient + theta))
    return max(outside, slack / max(float(np.max(b)), 1e-300) if slack > 0.0 else 0.0)
