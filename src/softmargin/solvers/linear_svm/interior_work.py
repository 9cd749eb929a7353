"""What a step of the interior point takes, counted before the first one from the sizes of the problem.

Works are multiplications as fast as those of BLAS with squares. A Newton matrix and its factor take nearly all of a
step where there are many features; a solution with this factor takes little beside it, and corrections are solutions.

``step_work`` is the price of a step, for whoever may hand over to this solver: it counts the unknowns that are left,
squares as they are summed, and float32. How a step is made (corrections, lower targets, float32) is decided by a
simpler count, of all features and classes by BLAS, with which its thresholds were measured.
"""

from typing import NamedTuple

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.forms import is_thin
from softmargin.matrices.operator import SCATTERED
from softmargin.solvers.linear_svm._class_squares import scattered_weights
from softmargin.solvers.linear_svm._label_groups import STEEPEST, steepness, used_columns

__all__ = [
    "MAX_UNKNOWNS",
    "StepWork",
    "count_corrections",
    "count_unknowns",
    "demand_few_unknowns",
    "factor_products",
    "is_factor_dear",
    "is_joint",
    "is_single_worth",
    "step_work",
]

MAX_UNKNOWNS = 10_000  # by hand: a Newton matrix of so many takes 800 MB
ARRAYS = 24  # of the shape of all pairs, at most, at once
SOLUTIONS = 6  # with one factor, with those that a point implies: a predictor, a corrector and two corrections
SHARE = 0.5  # of the time of a factor that corrections may take; by hand
SLOWER = 4.0  # is a multiplication with a vector, or a few columns, than one of BLAS with squares; by timings
SAVING = 0.5  # of the time of a factor, by float32; timings: 0.5 on x86 and ARM
PRODUCTS = 3.0  # of a solution with a factor of float32, in the mean; measured: maths, section 7
READ = 30.0  # is a multiplication by a number from memory than one of BLAS with squares; by timings
DEAR = 30.0  # solutions in the time of a factor, from which it is used for lower targets; measured: sections 7 and 14
TOGETHER = 5.0  # BLAS multiplications in the time of one of ``add_squares_of_classes``; timings on mnist
SINGLE_STEPS = 0.5  # of all steps are made in float32, where it is worth while: 9 to 12 of 19 to 21 on mnist
PASSES = 300.0  # multiplications in the time of the passes of a solution over one pair; by timings: 40 ns


class StepWork(NamedTuple):
    """What one step takes."""

    multiplications: float
    numbers: float  # float64 numbers in memory
    unknowns: int  # of its system


def step_work(problem: BlockDualProblem) -> StepWork:
    """Count the work of one step of ``InteriorPoint``, in the mean: whoever asks decides whether to afford it.

    Corrections beyond the usual ones take as long as a share of the factor.
    """
    n, m = len(problem.y), problem.n_classes - 1
    blocks, width, is_steep = _shape(problem)
    D, entries = _widths(problem)
    unknowns = blocks * width
    factor = _squares_work(problem, blocks, width) + unknowns**3 / 3.0
    if is_single_worth(problem) and not is_steep:
        factor *= 1.0 - SAVING * SINGLE_STEPS
    if is_factor_dear(problem):
        factor *= 1.0 + SHARE
    products = 2.0 * SOLUTIONS * n * m * entries
    return StepWork(factor + products, unknowns**2.0 + n * (2.0 * D + ARRAYS * m), unknowns)


def _squares_work(problem: BlockDualProblem, blocks: int, width: int) -> float:
    """Count the multiplications for one Newton matrix, as ``LabelGroups`` makes it in float64."""
    n, k, entries = len(problem.y), problem.n_classes, _widths(problem)[1]
    if not isinstance(problem.X, np.ndarray):
        share = entries / max(problem.X.shape[1], 1)
        n_weights = scattered_weights(k, blocks, share, is_joint=is_joint(problem), dtype=np.float64)
        if n_weights:
            return TOGETHER * n * n_weights * entries**2
    square = SCATTERED * entries**2 if is_thin(problem.X) else float(width) ** 2
    return n * ((k - 1) * square + (float(blocks * width) ** 2 if is_joint(problem) else 0.0))


def count_corrections(problem: BlockDualProblem, few: int, most: int) -> int:
    """Return how many corrections a step may make, ``few`` to ``most``: they take a share of the time of its factor.

    A solution reads the factor once for each triangle, makes two products with X and some passes over all pairs.
    """
    affordable = SHARE * _factor_work(problem) / max(_solution_work(problem), 1.0)
    return int(max(min(affordable, most), few))


def is_factor_dear(problem: BlockDualProblem) -> bool:
    """Say whether a factor takes as long as dozens of solutions, each of which reads it and X from memory."""
    return _factor_work(problem) > DEAR * _reading_work(problem)


def factor_products(problem: BlockDualProblem) -> float:
    """Return how many products and solutions take as long as a Newton matrix and its factor, as they are made."""
    blocks, width, _ = _shape(problem)
    return (_squares_work(problem, blocks, width) + (blocks * width) ** 3 / 3.0) / max(_reading_work(problem), 1.0)


def _reading_work(problem: BlockDualProblem) -> float:
    """Count the work of a solution and a product, which read the factor and X from memory."""
    unknowns, pairs = float(_all_unknowns(problem)), len(problem.y) * (problem.n_classes - 1.0)
    return READ * (unknowns**2 + 2.0 * pairs * _widths(problem)[1])


def is_single_worth(problem: BlockDualProblem) -> bool:
    """Say whether a factor of float32 spares more than the products that its solutions need.

    It spares half of a factor; a product is about as much work as a solution.
    """
    return SAVING * _factor_work(problem) > SOLUTIONS * PRODUCTS * _solution_work(problem)


def _solution_work(problem: BlockDualProblem) -> float:
    """Count the work of a solution with a factor, its passes over all pairs included."""
    unknowns, pairs = float(_all_unknowns(problem)), len(problem.y) * (problem.n_classes - 1.0)
    return SLOWER * (unknowns**2 + pairs * _widths(problem)[1]) + PASSES * pairs


def count_unknowns(problem: BlockDualProblem) -> int:
    """Return the number of unknowns of the Newton system."""
    blocks, width, _ = _shape(problem)
    return blocks * width


def demand_few_unknowns(problem: BlockDualProblem, solver: str, most: int = MAX_UNKNOWNS) -> None:
    """Refuse a Newton matrix of too many unknowns."""
    unknowns = count_unknowns(problem)
    if unknowns > most:
        raise IncompatibleError(
            f"{solver} holds a Newton matrix of all unknowns, at most {most} of them; "
            f"this problem has {unknowns}. Use DualBlockDescent."
        )


def _shape(problem: BlockDualProblem) -> tuple[int, int, bool]:
    """Return how many columns are unknown, of how many features, and whether C |x|^2 leaves only float64 for them."""
    k, is_steep = problem.n_classes, steepness(problem) > STEEPEST
    return 1 if k == 2 else k - (not is_steep), len(used_columns(problem.X)) + int(problem.bias != 0.0), is_steep


def _all_unknowns(problem: BlockDualProblem) -> int:
    return (problem.n_classes if problem.n_classes > 2 else 1) * _widths(problem)[0]


def is_joint(problem: BlockDualProblem) -> bool:
    """Say whether the pairs of a row share their upper bound; with two classes each row is one pair."""
    return problem.multiclass == "crammer_singer" and problem.n_classes > 2


def _factor_work(problem: BlockDualProblem) -> float:
    """Count the multiplications for one Newton matrix of all features and its factor, as if by BLAS."""
    n, unknowns = len(problem.y), float(_all_unknowns(problem))
    D, entries = _widths(problem)
    square = SCATTERED * entries**2 if is_thin(problem.X) else float(D) ** 2
    making = n * (unknowns**2 if is_joint(problem) else (problem.n_classes - 1) * square)
    return float(making + unknowns**3 / 3.0)


def _widths(problem: BlockDualProblem) -> tuple[int, float]:
    """Return the number of features, the constant one included, and how many entries of a row are stored."""
    D = int(problem.X.shape[1]) + int(problem.bias != 0.0)
    return D, D if isinstance(problem.X, np.ndarray) else problem.X.nnz / max(len(problem.y), 1)
