"""The direction of L-BFGS: Nocedal's two loops over pairs of a move and the change of the gradient along it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.solvers.common.conjugate_gradients import Metric

__all__ = ["two_loops"]

Array = NDArray[Any]


def two_loops(gradient: Array, metric: Metric, moves: Array, changes: Array, products: Array, n_pairs: int) -> Array:
    """Return -H G, with H made of the last pairs and of a first guess, ``metric``, scaled to agree with the last one.

    ``moves`` and ``changes`` are rings, (memory, size): pair t lies at t mod memory. ``products`` are <s, y>.
    """
    memory = len(moves)
    D = -gradient
    slots = [t % memory for t in range(max(0, n_pairs - memory), n_pairs)]
    shares = np.zeros(memory)
    for slot in reversed(slots):
        shares[slot] = float(moves[slot] @ D) / products[slot]
        D -= shares[slot] * changes[slot]
    D = metric(D)
    if slots:
        last = changes[slots[-1]]
        size = float(last @ metric(last))
        D = D * (products[slots[-1]] / size if size > 0.0 else 1.0)
    for slot in slots:
        D += (shares[slot] - float(changes[slot] @ D) / products[slot]) * moves[slot]
    return D
