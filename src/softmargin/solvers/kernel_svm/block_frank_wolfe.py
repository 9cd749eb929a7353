"""Frank-Wolfe on the dual of a kernel multiclass SVM, one row at a time.

    visit sample i:   s = the corner of row i that minimises <s, G_i>,   G = K alpha - Y;   alpha_i += g (s - alpha_i)
    g = min(1, gap_i / (K_ii |s - alpha_i|^2))     "optimal": the dual value rises as far as it can, never falls
    g = 2 n / (t + 2 n)                            "oblivious": t counts the steps; Theorem 1 is about this one

One pass visits every sample once, in a fresh random order.

    paper 000       here                shape
    alpha           alpha               (n, k)     paper 004 has the opposite sign
    K alpha         scores              (k, n)     updated after every step
    t (and k)       state.n_done        ()         the paper writes two counters for one
    p               len(state.index)    ()         number of blocks: samples whose row can move

Source: paper 000, Algorithm 3; maths: kernel SVM, section 3; maths: errata 000.8. We differ: the paper draws samples
with replacement; the best step is 1 where K_ii |d|^2 <= gap_i, d = s - alpha_i.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from softmargin.core.parameters import OneOf
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._row_loop import CORNER_RULES, RowSolver

__all__ = ["BlockFrankWolfe"]

_STEPS = ("optimal", "oblivious")


@dataclass(frozen=True)
class BlockFrankWolfe(RowSolver):
    """Settings of block Frank-Wolfe.

    Parameters
    ----------
    step_rule : {"optimal", "oblivious"}
        How far a row goes towards its corner.
    """

    step_rule: str = "optimal"

    allowed: ClassVar = {"step_rule": (OneOf(*_STEPS),)}

    def rule(self, problem: KernelBlockProblem) -> Any:
        """Return the step towards the best corner."""
        return CORNER_RULES[problem.multiclass](self.step_rule == "oblivious")
