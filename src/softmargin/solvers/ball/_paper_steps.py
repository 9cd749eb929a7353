"""The step sizes of paper 001's theorems, for a ridge mu / 2 |W|^2, whose smoothness L is mu.

    eta = mu / (2 L) = 1/2
    delta = 1 / (k (L / (mu n beta) + 5 beta R (1 + m L / mu) / (2 alpha mu n^2)))        m = 4: Theorem 4.1, m = 8: 4.3

beta bounds f'', 1 / alpha the second derivative of f*, k is the number of rows that move. With alpha = beta = 1, m = 4
is the delta of Corollary 4.1.1. R is max_i |a_i|^2 for Algorithm 1, and for Algorithm 2 the largest square of the norm
of k rows, for which we take min(k max_i |a_i|^2, |A|_2^2).
"""

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import ConstrainedProblem

ETA = 0.5


def paper_delta(problem: ConstrainedProblem, k: int, R: float, *, factor: float) -> float:
    """Return delta; ``factor`` is the m of the theorem."""
    loss, n, mu = problem.loss, len(problem.target), problem.l2
    if not loss.dual_curvature < np.inf:
        raise IncompatibleError(
            f"steps='paper' needs a loss whose conjugate is smooth; that of {loss!r} is not. Use steps='search'."
        )
    beta, inverse_alpha = loss.curvature, loss.dual_curvature
    hindrance = 2.5 * beta * R * (1.0 + factor) * inverse_alpha / (mu * n)
    return n / (k * (1.0 / beta + hindrance))


def check_steps(steps: str, name: str, **own: float | None) -> None:
    """Refuse step sizes of one's own beside those of the paper."""
    given = [setting for setting, value in own.items() if value is not None]
    if steps == "paper" and given:
        raise IncompatibleError(f"{name}: steps='paper' sets {' and '.join(given)} itself; leave one of them out.")
