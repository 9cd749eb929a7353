"""Where dual descent starts: samples that are equal but for their labels are raised, without a change of the weights.

maths: linear SVM, section 11.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import BlockDualProblem, KernelBlockProblem
from softmargin.matrices.equal_rows import contradictions

__all__ = ["raise_contradictions", "slow_contradictions"]

Array = NDArray[Any]
_VISITS = 10.0  # C |x|^2, about the visits until a sample is at its price: fits that need few shall not pay; by hand


def slow_contradictions(X: Any, labels: Array, prices: Array, squares: Array) -> tuple[Array, Array]:
    """Return ``contradictions``, or none where single visits soon do the same; prices and squares |x|^2 are (n,)."""
    if not (prices * squares > _VISITS).any():
        none = np.zeros(0, dtype=np.int64)
        return none, none
    return contradictions(X, labels)


def raise_contradictions(problem: BlockDualProblem | KernelBlockProblem, X: Any, squares: Array, alpha: Array) -> None:
    """Raise the dual rows (n, k) of equal samples of different labels, in place; their sums stay the same.

    The problem is a joint SVM, linear or of a kernel, and squares are the |x|^2 or K_ii of its samples.
    """
    samples, sets = slow_contradictions(X, problem.y, problem.C, squares)
    if len(samples):
        alpha[samples] = problem.loss.raised(alpha[samples], problem.y[samples], problem.C[samples], sets)
