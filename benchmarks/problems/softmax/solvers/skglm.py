"""skglm's ``SparseLogisticRegression``: two classes, l1 or elastic net, with or without a free intercept.

Prox-Newton on a working set; tol bounds the largest violation of the optimality conditions.
"""

from typing import Any

from skglm import SparseLogisticRegression

from benchmark_utils.estimator_peers import EstimatorPeer

_ENDLESS = 10**4  # working sets: tol alone ends a fit


class Solver(EstimatorPeer):
    """The estimator as a user calls it, compiled beforehand."""

    name = "skglm"
    requirements = ["pip::skglm"]
    test_config = {"objective": {"penalty": "l1"}, "dataset": {"k": 2}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.n_classes > 2:
            return True, "skglm's model of many classes is one against the rest"
        if problem.penalty.l1 == 0.0:
            return True, "skglm's estimator is for penalties with an l1 part"
        return False, None

    def estimator(self, eps: float) -> SparseLogisticRegression:
        return SparseLogisticRegression(
            alpha=self.strength,
            l1_ratio=self.l1_ratio,
            tol=eps,
            max_iter=_ENDLESS,
            fit_intercept=self.problem.fit_intercept,
        )
