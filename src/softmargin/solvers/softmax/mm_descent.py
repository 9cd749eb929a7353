"""Majorise, then minimise: block descent on a model with the same curvature in all scores of a sample.

    q(D) = <G, D> + 1/2 sum_i C_i c_i |D' x_i|^2 + g(W + D),      c_i = 2 max_c p_ic (1 - p_ic)   maths: softmax, eq. 31

J_i = diag(p_i) - p_i p_i' <= c_i times the identity, so the model does not couple the classes, and a pass costs two
fused operations for every number of X and class. All else is proximal Newton: working set, damping (added to c_i),
search. A model is coarser, so it is minimised less exactly.

    maths           here
    R               RowModel.response less its start, C (P - Y)
    c_i             _hessian; no least value, as damping keeps it from vanishing
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.solvers.softmax._losses import SoftmaxLosses
from softmargin.solvers.softmax.prox_newton import ProxNewton

__all__ = ["MMDescent"]

Array = NDArray[Any]
LARGEST = 0.5  # J_i <= 1 / 2 times the identity, whatever p_i: maths: softmax, eq. 11


@dataclass(frozen=True)
class MMDescent(ProxNewton):
    """Settings of the descent: those of ``ProxNewton``, with few passes over a model of all samples."""

    max_passes: int = 5
    per_feature: float = np.inf

    is_coupled: ClassVar[bool] = False

    def _hessian(self, losses: SoftmaxLosses, P: Array, damping: Array) -> tuple[Array, Array]:
        """Return no probabilities, and c_i for a damping."""
        rows = losses.matrix(P)
        largest = (rows * (1.0 - rows)).max(axis=1)
        bound = largest if losses.problem.is_pinned else 2.0 * largest
        return np.zeros_like(P), np.minimum(bound + damping, LARGEST)
