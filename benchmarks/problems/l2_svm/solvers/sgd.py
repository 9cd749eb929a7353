"""scikit-learn's ``SGDClassifier`` with squared hinge loss: linear, with a free bias.

    ours / (C n / 2):   (1/n) sum_i xi_i^2 + alpha / 2 |w|^2 ,     alpha = 2 / (C n)

It has no rule that ends near the optimum, so that it is given passes: 1, 2, 3, 4, 6, 8, 11, ... until the gap will do;
eps is one over their number. Its weights are measured against a bound that it need not prove
(``benchmark_utils.primal_answers``).

    optimal         its default, eta = 1 / (alpha (t0 + t)): the first steps may be so long that it never comes back
    invscaling      eta0 / t^0.25 with eta0 = 1 / L, L = 2 max_i (|x_i|^2 + 1)
"""

from typing import Any

from sklearn.linear_model import SGDClassifier

from benchmark_utils.primal_answers import evaluated, proven_dual
from benchmark_utils.racing import EpsSolver
from softmargin.matrices.operator import row_squares

_CURVATURE = 2.0  # of xi^2
_LONGEST = 32  # half powers of two: 65,536 passes


class Solver(EpsSolver):
    """Stochastic gradient, a sample at a time."""

    name = "sgd"
    requirements = ["pip::scikit-learn"]
    parameters = {"schedule": ["optimal", "invscaling"]}
    leans_on_bound = False
    eps_grid = (1.0, *(1.0 / round(2.0 ** (power / 2)) for power in range(2, _LONGEST + 1)))
    test_config = {"objective": {"kernel": "linear"}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        return (False, None) if problem.gram.is_linear else (True, "SGDClassifier has no kernels")

    def set_objective(self, problem: Any, C: float) -> None:
        """Find the bound now, not in a child that forgets it, and the longest step that no sample is too long for."""
        self.problem, self.C = problem, C
        self.step = 1.0 / (_CURVATURE * (float(row_squares(problem.gram.X).max()) + 1.0))
        proven_dual(problem)

    def warm_up(self) -> None:
        """Import what is needed."""
        self.run(self.eps_grid[0])

    def run(self, eps: float) -> None:
        problem = self.problem
        model = SGDClassifier(
            loss="squared_hinge",
            alpha=2.0 / (self.C * problem.gram.n),
            learning_rate=self.schedule,
            eta0=self.step,
            power_t=0.25,
            max_iter=round(1.0 / min(eps, self.eps_grid[0])),
            tol=None,
            random_state=self.seed,
        )
        self.model = model.fit(problem.gram.X, problem.y)

    def get_result(self) -> dict[str, Any]:
        return evaluated(self.problem, self.model.coef_[0].astype(float), float(self.model.intercept_[0]))
