"""Cyanure's ``Classifier``: multinomial logistic loss, or the logistic one for two classes; its intercept is free.

    auto            its own choice, an incremental method with quasi-Newton acceleration
    auto-dense      the same on X as an array, made off the clock, where memory allows it
    qning-ista      quasi-Newton acceleration of the proximal gradient method

With many classes and sparse X the incremental methods of Cyanure 1.2.2 go away from the optimum or end the process:
there, ``auto`` is left out. tol is the relative duality gap at which it stops.
"""

from typing import Any

import numpy as np
from cyanure.estimators import Classifier
from scipy.sparse import issparse

from benchmark_utils.estimator_peers import EstimatorPeer

_ENDLESS = 10**5  # passes: tol alone ends a fit
_DENSE = "-dense"
_LARGEST_ARRAY = 10**8  # numbers


class Solver(EstimatorPeer):
    """The estimator on one thread."""

    name = "cyanure"
    requirements = ["pip::cyanure"]
    parameters = {"solver": ["auto", "auto-dense", "qning-ista"]}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        is_sparse = issparse(problem.X)
        if self.solver == "auto" and is_sparse and problem.n_classes > 2:
            return True, "Cyanure's incremental methods fail on sparse X with many classes"
        if self.solver.endswith(_DENSE) and (not is_sparse or np.prod(problem.X.shape) > _LARGEST_ARRAY):
            return True, "X is an array, or too large to be one"
        return False, None

    def data(self, X: Any) -> Any:
        return X.toarray() if self.solver.endswith(_DENSE) else X

    def estimator(self, eps: float) -> Classifier:
        l1 = self.strength * self.l1_ratio
        l2 = self.strength - l1
        penalty = "l2" if l1 == 0.0 else "l1" if l2 == 0.0 else "elasticnet"
        return Classifier(
            loss="logistic" if self.problem.is_pinned else "multiclass-logistic",
            penalty=penalty,
            lambda_1=l2 if penalty == "l2" else l1,
            lambda_2=l2 if penalty == "elasticnet" else 0.0,
            fit_intercept=self.problem.fit_intercept,
            solver=self.solver.removesuffix(_DENSE),
            tol=eps,
            max_iter=_ENDLESS,
            random_state=self.seed,
            n_threads=1,
            verbose=False,
        )

    def weights(self, model: Classifier) -> np.ndarray:
        """Its weights have one row a feature already."""
        return model.coef_.reshape(self.problem.X.shape[1], -1)
