"""scikit-learn's ``SGDClassifier`` with logistic loss: two classes, every penalty, a free intercept.

It has no rule that ends near the optimum, so that it is given passes: 1, 2, 3, 4, 6, 8, 11, ... until the level is met;
eps is one over their number.

    optimal         its default, eta = 1 / (alpha (t0 + t)): the intercept, which is not penalised, comes slowly
    invscaling      eta0 / t^0.25 with eta0 = 1 / L, L = max_i (|x_i|^2 + 1) / 4
"""

from typing import Any

from sklearn.linear_model import SGDClassifier

from benchmark_utils.estimator_peers import EstimatorPeer
from softmargin.matrices.operator import row_squares

_CURVATURE = 0.25  # of the logistic loss
_LONGEST = 32  # half powers of two: 65,536 passes


class Solver(EstimatorPeer):
    """Stochastic gradient, a sample at a time."""

    name = "sgd"
    requirements = ["pip::scikit-learn"]
    parameters = {"schedule": ["optimal", "invscaling"]}
    eps_grid = (1.0, *(1.0 / round(2.0 ** (power / 2)) for power in range(2, _LONGEST + 1)))
    test_config = {"dataset": {"k": 2}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.n_classes > 2:
            return True, "SGDClassifier's model of many classes is one against the rest"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        """Find the longest step that no sample is too long for."""
        super().set_objective(problem, C)
        self.step = 1.0 / (_CURVATURE * (float(row_squares(problem.X).max()) + 1.0))

    def estimator(self, eps: float) -> SGDClassifier:
        return SGDClassifier(
            loss="log_loss",
            penalty="elasticnet",
            alpha=self.strength,
            l1_ratio=self.l1_ratio,
            fit_intercept=self.problem.fit_intercept,
            learning_rate=self.schedule,
            eta0=self.step,
            power_t=0.25,
            max_iter=round(1.0 / eps),
            tol=None,
            random_state=self.seed,
        )
