"""The best split of what equal samples of different labels add to W, for the dual of ridge multinomial regression.

    keep       sum_i C_i q_i over each set of equal samples: W stays the same
    maximise   sum_i C_i H(q_i) ,  which is concave: q_i is the same for the whole set            maths: softmax, eq. 39

One row at a time gets there in C |x|^2 / ridge passes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.blocks.softmax import SURE
from softmargin.losses.multinomial import softmax
from softmargin.solvers.softmax._losses import SoftmaxLosses

__all__ = ["level", "probabilities"]

Array = NDArray[Any]


def level(losses: SoftmaxLosses, alpha: Array, samples: Array, sets: Array) -> None:
    """Give the rows log q of samples, in sets 0, 1, ... of equal ones, the mean of their probabilities, in place."""
    if len(samples) == 0:
        return
    q, C = probabilities(losses, alpha, samples), losses.problem.C[samples, None]
    n_sets = int(sets.max()) + 1
    sums, prices = np.zeros((n_sets, q.shape[1])), np.zeros((n_sets, 1))
    np.add.at(sums, sets, C * q)
    np.add.at(prices, sets, C)
    means = np.divide(sums[sets], prices[sets], out=q, where=prices[sets] > 0.0)
    logs = np.full_like(means, SURE)
    np.log(means, out=logs, where=means > 0.0)
    losses.matrix(alpha)[samples] = logs[:, 1:] - logs[:, :1] if losses.problem.is_pinned else logs


def probabilities(losses: SoftmaxLosses, alpha: Array, samples: Any = slice(None)) -> Array:
    """Return q of some samples, of all classes, from the rows log q."""
    logs = losses.matrix(alpha)[samples]
    return softmax(np.hstack([np.zeros_like(logs), logs]) if losses.problem.is_pinned else logs)
