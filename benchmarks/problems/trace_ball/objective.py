"""The objective of matrix sensing over the trace-norm ball: paper 001's Figure 2.

    minimise over |W|_* <= radius:   (1/n) sum_i 1/2 |W' x_i - t_i|^2 + l2 / 2 |W|^2 ,     l2 = ridge / n

The paper's loss is twice ours, which is our problem with half the ridge. ``radius`` is a share of the trace norm of the
matrix that made the data.
"""

from typing import Any

import numpy as np

from benchmark_utils.ball_objective import BallObjective
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import Constrained
from softmargin.sets import LowRank, TraceBall


class Objective(BallObjective):
    """Relative duality gap, primal value, bound, and the rank."""

    name = "trace_ball"
    parameters = {"radius": [0.9], "ridge": ["10", "1", "100"]}
    test_dataset_name = "sensing"

    def set_data(self, X: Any, y: np.ndarray, trace_norm: float) -> None:
        """State the problem; y is the matrix of targets."""
        ball = TraceBall(self.radius * trace_norm)
        self.problem = Constrained(X, y, loss=ENTRYWISE["squared"], ball=ball, l2=float(self.ridge) / len(y))

    def in_use(self, weights: Any) -> float:
        """Return the rank."""
        return float(weights.rank if isinstance(weights, LowRank) else np.linalg.matrix_rank(weights))
