"""Block descent on the inner products of the rows, for a joint multiclass SVM with linear scores.

    K = X X' + bias^2,   F = K alpha = [X, bias] W;   kernel block descent (``kernel_svm.block_descent``) on K

A visit to a row on X costs 2 d k multiplications, and sees every other row through W. On the square of K over a working
set a visit costs k for each of its rows, rows are visited again and again before others, and Newton steps end what
crawls. It pays where C |x|^2 is large and rows are not many times as many as weights. No more of K than the square is
ever in memory.                                                                        maths: linear SVM, section 13
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from softmargin.core.parameters import POSITIVE, is_instance
from softmargin.core.protocols import BlockDualProblem
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent, KernelDescentState
from softmargin.solvers.linear_svm._block_loop import demand_finite
from softmargin.solvers.linear_svm._inner_products import with_inner_products

__all__ = ["GramDescent", "GramDescentState"]


@dataclass
class GramDescentState(KernelDescentState):
    """That of the descent on K, and the problem with this K."""

    twin: KernelMulticlassSVM | None = field(default=None, init=False, repr=False)


@dataclass(frozen=True)
class GramDescent(Resumable):
    """Settings of the descent.

    Parameters
    ----------
    descent : KernelBlockDescent
        On the inner products.
    cache_size : float
        Megabytes for the square of a working set, and for what is made of it.
    """

    descent: KernelBlockDescent = KernelBlockDescent()
    cache_size: float = 1000.0

    allowed: ClassVar = {"descent": (is_instance(KernelBlockDescent),), "cache_size": (POSITIVE,)}
    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)
    state_type = GramDescentState

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> GramDescentState:
        """Begin at the dual rows of a first point, or at zero."""
        twin = self._twin(problem)
        demand_finite(twin.gram.diagonal)
        state = GramDescentState(**vars(self.descent.start(twin, init, rng)))
        state.twin = twin
        return state

    def step(self, problem: BlockDualProblem, state: GramDescentState) -> GramDescentState:
        """Make one round on a working set."""
        self.descent.step(self._known_twin(problem, state), state)
        return state

    def point(self, problem: BlockDualProblem, state: GramDescentState) -> DualPoint:
        """Return the dual rows, and the weights: a multiple of those that they imply."""
        alpha, weights = problem.point(state.alpha.copy())
        return DualPoint(alpha, state.scale * weights)

    def estimate(self, problem: BlockDualProblem, state: GramDescentState) -> float:
        """Return the relative gap, by the updated scores."""
        return self.descent.estimate(self._known_twin(problem, state), state)

    def work_done(self, state: GramDescentState) -> float:
        """Count the multiplications so far, those as fast as of BLAS: steps are not alike."""
        return state.work

    def _known_twin(self, problem: BlockDualProblem, state: GramDescentState) -> KernelMulticlassSVM:
        if state.twin is None:
            state.twin = self._twin(problem)
        return state.twin

    def _twin(self, problem: BlockDualProblem) -> KernelMulticlassSVM:
        return with_inner_products(problem, problem.X, slice(None), self.cache_size)
