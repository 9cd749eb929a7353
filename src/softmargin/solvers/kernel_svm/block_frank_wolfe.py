"""Frank-Wolfe on the dual of a kernel multiclass SVM, one row at a time.

    visit sample i:   s = the corner of row i that minimises <s, G_i>,   G = K alpha - Y;   alpha_i += g (s - alpha_i)
    g = min(1, gap_i / (K_ii |s - alpha_i|^2))     "optimal": the dual value rises as far as it can, never falls
    g = 2 n / (t + 2 n)                            "oblivious": t counts the steps; Theorem 1 is about this one

One pass makes as many steps as there are samples: each once, in a fresh random order, or samples drawn one by one.

    paper 000       here                shape
    alpha           alpha               (n, k)     paper 004 has the opposite sign
    K alpha         scores              (k, n)     updated after every step
    t (and k)       state.n_done        ()         the paper writes two counters for one
    p               len(state.index)    ()         number of blocks: samples whose row can move

Source: paper 000, Algorithm 3; maths: kernel SVM, section 3; maths: errata 000.8. We differ: the best
step is 1 where K_ii |d|^2 <= gap_i, d = s - alpha_i; by default samples come in permutations, where the paper draws.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from softmargin.core.parameters import OneOf
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._row_loop import CORNER_RULES, ORDERS, RowSolver
from softmargin.solvers.kernel_svm.frank_wolfe import STEP_RULES

__all__ = ["BlockFrankWolfe"]


@dataclass(frozen=True)
class BlockFrankWolfe(RowSolver):
    """Settings of block Frank-Wolfe.

    Parameters
    ----------
    step_rule : {"optimal", "oblivious"}
        How far a row goes towards its corner.
    order : {"permutation", "uniform"}
        A pass visits every sample once, or draws samples with replacement, as Algorithm 3 does.
    """

    step_rule: str = "optimal"
    order: str = "permutation"

    allowed: ClassVar = {"step_rule": (OneOf(*STEP_RULES),), "order": (OneOf(*ORDERS),)}

    def rule(self, problem: KernelBlockProblem) -> Any:
        """Return the step towards the best corner."""
        return CORNER_RULES[problem.multiclass](self.step_rule == "oblivious")
