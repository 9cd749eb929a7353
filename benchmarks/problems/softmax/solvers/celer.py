"""Celer's ``LogisticRegression``: two classes, l1, no intercept.

``celer-pn`` is its prox-Newton method on a working set, ``celer`` coordinate descent there; tol bounds the duality gap
by tol n log 2.
"""

from typing import Any

from celer import LogisticRegression

from benchmark_utils.estimator_peers import EstimatorPeer

_ENDLESS = 10**4  # working sets: tol alone ends a fit


class Solver(EstimatorPeer):
    """The estimator as a user calls it."""

    name = "celer"
    requirements = ["pip::celer"]
    parameters = {"solver": ["celer-pn", "celer"]}
    test_config = {"objective": {"penalty": "l1", "fit_intercept": False}, "dataset": {"k": 2}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.n_classes > 2:
            return True, "Celer's model of many classes is one against the rest"
        if problem.penalty.l1 == 0.0 or problem.penalty.l2 > 0.0:
            return True, "Celer has the l1 penalty alone"
        if problem.fit_intercept:
            return True, "Celer fits no intercept"
        return False, None

    def estimator(self, eps: float) -> LogisticRegression:
        return LogisticRegression(
            C=self.C / self.problem.penalty.l1, solver=self.solver, tol=eps, max_iter=_ENDLESS, fit_intercept=False
        )
