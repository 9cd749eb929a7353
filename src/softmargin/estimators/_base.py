"""The frame of every fit: validation, labels, prices, watchers, the run, and what is left of it."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from softmargin.core.errors import DataError
from softmargin.estimators._callbacks import CallbackBridge, CallbackSupportMixin
from softmargin.estimators._fit import fit_svm
from softmargin.estimators._problems import warm_point
from softmargin.estimators._warnings import NotCertifiedWarning, not_certified
from softmargin.estimators._weights import loss_prices
from softmargin.run import Status, Stop

__all__ = ["CertifiedClassifier"]

Array = NDArray[Any]
_X_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class CertifiedClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """A classifier that is trained to a certificate.

    A subclass stores the settings and says how a problem is built from data (``_problem``), which attributes a point
    gives (``_attributes``), and which model they are (``_predictor``).
    """

    # Are predictions made from the dual variables alone? Then these are what is judged.
    _dual_only = False

    def _problem(self, X: Any, codes: Array, n_classes: int, prices: Array, sample_weight: Array | None) -> Any:
        raise NotImplementedError

    def _attributes(self, problem: Any, point: Any, classes: Array, codes: Array) -> dict[str, Any]:
        raise NotImplementedError

    def _predictor(self, info: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _settings(self) -> dict[str, Any]:
        """Return what a model remembers of its training beside the settings all have."""
        return {}

    def __sklearn_tags__(self) -> Any:
        """Say that sparse X is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        X, y = validate_data(self, X, y, order="C", accept_large_sparse=True, **_X_KINDS)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"y has 1 class ({classes.tolist()[0]!r}) in {len(y)} samples; a classifier needs at least 2 classes."
            )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        prices = loss_prices(codes, classes, self.C, self.class_weight, sample_weight)
        problem = self._problem(X, codes, len(classes), prices, sample_weight)
        stop = Stop(self.tol, self.max_iter, math.inf if self.max_seconds is None else self.max_seconds)
        self.classes_ = classes

        def attributes(point: Any) -> dict[str, Any]:
            return self._attributes(problem, point, classes, codes)

        watchers: list[Any] = []
        if self.verbose:
            from softmargin.run.watchers import ProgressBar

            watchers.append(ProgressBar())
        if CallbackBridge.wanted(self):
            watchers.append(CallbackBridge(self, X, y, sample_weight, attributes))
        result = fit_svm(
            problem,
            solver=self.solver,
            stop=stop,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            init=self._last_dual(problem, len(codes)),
            watchers=watchers,
            dual_only=self._dual_only,
        )
        for name, value in attributes(result.point).items():
            setattr(self, name, value)
        self.certificate_ = result.certificate
        self.dual_gap_ = result.certificate.gap
        self.status_ = result.status.value
        self.n_iter_ = result.n_iter
        self.trace_ = result.trace
        self._n_samples = len(codes)
        if result.status is not Status.CONVERGED:
            warnings.warn(not_certified(result, self.tol), NotCertifiedWarning, stacklevel=3)
        return self

    def _last_dual(self, problem: Any, n: int) -> Any:
        """Return the dual point of the last fit, where it can serve as a start."""
        if not (self.warm_start and hasattr(self, "dual_coef_")):
            return None
        rows = len(self.classes_) if len(self.classes_) > 2 else 1
        if self._n_samples != n or len(self.dual_coef_) != rows:
            return None
        dual = np.zeros((n, rows))
        dual[self.support_] = self.dual_coef_.T
        return warm_point(problem, dual)

    def model(self) -> Any:
        """Return the fitted model apart from the estimator: it predicts, saves and loads without pickle."""
        check_is_fitted(self)
        return self._predictor(self._info())

    def _info(self) -> dict[str, Any]:
        is_squared = self.loss == "squared_hinge"
        return {
            "problem": "l2_svm" if is_squared else "multiclass_svm",
            # Two classes need no joint loss; what was solved is one class against the other.
            "multiclass": "one_vs_rest" if is_squared else self.multiclass,
            "loss": self.loss,
            "C": float(self.C),
            **self._settings(),
            "fit_intercept": bool(self.fit_intercept),
            "intercept_scaling": float(self.intercept_scaling),
            "class_weight": self.class_weight,
            "tol": float(self.tol),
            "status": self.status_,
            "certificate": self.certificate_._asdict(),
        }

    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_X_KINDS)
        return self._predictor({}).decision_function(X)

    def predict(self, X: Any) -> Array:
        """Return the label with the highest score for every row of X."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
