"""scikit-learn's ``LinearSVC(multi_class="crammer_singer")``: LIBLINEAR, with its own copy of the data."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmark_utils.racing import EpsSolver

_ENDLESS = 10**7  # its default of 1000 passes would end before tol does


class Solver(EpsSolver):
    """The estimator as a user calls it: conversion of X is part of ``fit``, so it is timed."""

    name = "sklearn_crammer_singer"
    requirements = ["pip::scikit-learn"]
    test_config = {"objective": {"multiclass": "crammer_singer"}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.multiclass != "crammer_singer":
            return True, f"scikit-learn has no {problem.multiclass} machine"
        if problem.n_classes < 3:
            return True, "scikit-learn merges the two columns of a two-class model"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        self.X, self.y, self.C = problem.X, problem.y, C

    def run(self, eps: float) -> None:
        self.model = LinearSVC(
            C=self.C,
            multi_class="crammer_singer",
            fit_intercept=False,
            tol=min(eps, 1e30),
            max_iter=_ENDLESS,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.X, self.y)

    def get_result(self) -> dict[str, Any]:
        return {"weights": self.model.coef_.T}
