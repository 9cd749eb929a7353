"""The objective of classification over the l1 ball: paper 001's problem, with the smooth hinge and no intercept.

minimise over |w|_1 <= radius:   (1/n) sum_i h(y_i <w, x_i>) + l2 / 2 |w|^2 ,     l2 = ridge / n
"""

from typing import Any

import numpy as np

from benchmark_utils.ball_objective import BallObjective
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import Constrained
from softmargin.sets import L1Ball


class Objective(BallObjective):
    """Relative duality gap, primal value, bound, and how many weights are not zero."""

    name = "l1_ball"
    parameters = {"radius": [300.0], "ridge": ["10", "1", "100"], "loss": ["smooth_hinge"]}
    test_dataset_name = "blobs"

    def set_data(self, X: Any, y: np.ndarray, X_test: Any = None, y_test: np.ndarray | None = None) -> None:
        """State the problem: the second class is +1."""
        signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
        self.problem = Constrained(
            X, signs, loss=ENTRYWISE[self.loss], ball=L1Ball(self.radius), l2=float(self.ridge) / len(y)
        )
