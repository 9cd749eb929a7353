"""A joint SVM with linear scores, or some rows of it, posed with the inner products of its rows."""

from typing import Any

from softmargin.core.protocols import BlockDualProblem
from softmargin.kernels import Linear
from softmargin.matrices.gram import Gram
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM

__all__ = ["with_inner_products"]


def with_inner_products(problem: BlockDualProblem, X: Any, rows: Any, cache_size: float) -> KernelMulticlassSVM:
    """Return the problem of the rows X, which are those at ``rows``; cache_size is in megabytes."""
    gram = Gram(Linear(), X, bias=problem.bias, cache_size=cache_size)
    return KernelMulticlassSVM(
        gram, problem.y[rows], C=problem.C[rows], multiclass=problem.multiclass, n_classes=problem.n_classes
    )
