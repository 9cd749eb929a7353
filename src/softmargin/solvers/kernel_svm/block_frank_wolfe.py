"""Frank-Wolfe on the dual of a kernel multiclass SVM, one row at a time.

    visit sample i:   s = the corner of row i that minimises <s, G_i>,   G = K alpha - Y;   alpha_i += g (s - alpha_i)
    g = min(1, gap_i / (K_ii |s - alpha_i|^2))     "optimal": the dual value rises as far as it can, never falls
    g = 2 n / (t + 2 n)                            "oblivious": t counts the steps; Theorem 1 is about this one

One pass visits every sample once, in a fresh random order.

    paper 000       here                shape
    alpha           alpha               (n, k)     paper 004 has the opposite sign
    K alpha         scores              (k, n)     kept up to date
    t (and k)       state.n_done        ()         the paper writes two counters for one
    p               len(state.index)    ()         number of blocks: samples whose row can move

Source: paper 000, Algorithm 3; maths: kernel SVM, section 3; maths: errata 000.8. We differ: the paper draws samples
with replacement; the best step is 1 where K_ii |d|^2 <= gap_i, d = s - alpha_i.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._row_loop import CORNER_RULES, RowState, pass_over_rows, start_rows

__all__ = ["BlockFrankWolfe"]

_STEPS = ("optimal", "oblivious")


@dataclass(frozen=True)
class BlockFrankWolfe:
    """Settings of block Frank-Wolfe.

    Parameters
    ----------
    step_rule : {"optimal", "oblivious"}
        How far a row goes towards its corner.
    """

    step_rule: str = "optimal"

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that do not exist."""
        if self.step_rule not in _STEPS:
            raise IncompatibleError(f"step_rule={self.step_rule!r} is unknown; choose {' or '.join(_STEPS)}.")

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> RowState:
        """Allocate, from a first point or from nothing."""
        return start_rows(problem, init, rng)

    def step(self, problem: KernelBlockProblem, state: RowState) -> RowState:
        """Visit every sample once."""
        rule = CORNER_RULES[problem.multiclass](self.step_rule == "oblivious")
        return pass_over_rows(problem, state, rule)

    def point(self, problem: KernelBlockProblem, state: RowState) -> Any:
        """Return the dual rows."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: KernelBlockProblem, state: RowState) -> float:
        """Return the relative gap by the scores that were kept."""
        return float(problem.relative_gap(state.alpha, state.scores.T))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> RowState:
        """Rebuild the state from a checkpoint."""
        return RowState(**arrays, **plain)
