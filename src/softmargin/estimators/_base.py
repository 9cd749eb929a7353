"""The frame of every fit: validation, labels, prices, watchers, the run, and what is left of it."""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from softmargin.core.errors import DataError
from softmargin.estimators._callbacks import CallbackBridge, CallbackSupportMixin
from softmargin.estimators._fit import fit_problem
from softmargin.estimators._ready import is_ready, ready_labels
from softmargin.estimators._warnings import NotCertifiedWarning, not_certified
from softmargin.estimators._weights import loss_prices
from softmargin.run import Result, Status, Stop

__all__ = ["X_KINDS", "CertifiedClassifier", "CertifiedEstimator", "Labelled", "coded"]

Array = NDArray[Any]
X_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class Labelled(NamedTuple):
    """Data as they are trained on: validated, with a code for every label."""

    X: Any
    y: Array
    classes: Array
    codes: Array
    sample_weight: Array | None


def coded(y: Array) -> tuple[Array, Array]:
    """Return the classes of y, at least two, and the code of every label."""
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"y has 1 class ({classes.tolist()[0]!r}) in {len(y)} samples; a classifier needs at least 2 classes."
        )
    return classes, codes


class CertifiedEstimator(CallbackSupportMixin, BaseEstimator):
    """What every fit needs, whatever it predicts: watchers, budgets, the run, and what is left of it."""

    # Are predictions made from the dual variables alone? Then these are what is judged.
    _dual_only = False

    def __sklearn_tags__(self) -> Any:
        """Say that sparse X is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _run(self, problem: Any, data: Any, attributes: Callable[[Any], dict[str, Any]], init: Any = None) -> Result:
        """Solve the problem of the ``data`` (X, y, sample_weight); ``attributes`` are those a point gives."""
        watchers: list[Any] = []
        if self.verbose:
            from softmargin.run.watchers import ProgressBar

            watchers.append(ProgressBar())
        if CallbackBridge.wanted(self):
            watchers.append(CallbackBridge(self, data.X, data.y, data.sample_weight, attributes))
        return fit_problem(
            problem,
            solver=self.solver,
            stop=self._stop(),
            seed=self._seed(),
            init=init,
            watchers=watchers,
            dual_only=self._dual_only,
        )

    def _keep(self, result: Result, attributes: dict[str, Any], n: int) -> Any:
        for name, value in attributes.items():
            setattr(self, name, value)
        self.certificate_ = result.certificate
        self.dual_gap_ = result.certificate.gap
        self.status_ = result.status.value
        self.n_iter_ = result.n_iter
        self.trace_ = result.trace
        self._n_samples = n
        return self

    def _warn(self, result: Result, stacklevel: int) -> None:
        """Say so where the run was not certified; ``stacklevel`` counts from the caller, as 1."""
        if result.status is not Status.CONVERGED:
            warnings.warn(not_certified(result, self.tol), NotCertifiedWarning, stacklevel=stacklevel + 1)

    def _stop(self) -> Stop:
        return Stop(self.tol, self.max_iter, math.inf if self.max_seconds is None else self.max_seconds)

    def _seed(self) -> int:
        # A whole number is the seed itself, as on the command line: no RandomState is made to draw another one.
        if isinstance(self.random_state, int | np.integer) and 0 <= self.random_state < 2**32:
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


class CertifiedClassifier(ClassifierMixin, CertifiedEstimator):
    """A classifier that is trained to a certificate.

    A subclass stores the settings and says what a unit of loss costs (``_price``), how a problem is built from data
    (``_problem``), where a warm start begins (``_first_point``), which attributes a point gives (``_attributes``),
    which model they are (``_predictor``), and which problem it solves (``_claim``).
    """

    def _price(self) -> Any:
        return self.C

    def _problem(self, X: Any, codes: Array, n_classes: int, prices: Array, sample_weight: Array | None) -> Any:
        raise NotImplementedError

    def _attributes(self, problem: Any, point: Any, classes: Array, codes: Array) -> dict[str, Any]:
        raise NotImplementedError

    def _predictor(self, info: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _first_point(self, problem: Any, n: int) -> Any:
        """Return what the last fit left, where it can serve as a start; None to start afresh."""
        return None

    def _claim(self) -> dict[str, Any]:
        """Return what a model remembers of its problem: enough for ``certify`` to build it again."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        return self._train(self._checked(X, y, sample_weight))

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Labelled:
        labels = ready_labels(y)
        if labels is not None and is_ready(X) and len(y) == X.shape[0]:
            self._forget_names(X.shape[1])
        else:
            X, y = validate_data(self, X, y, order="C", accept_large_sparse=True, **X_KINDS)
            labels = coded(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return Labelled(X, y, *labels, sample_weight)

    def _forget_names(self, n_features: int) -> None:
        """Remember of X what scikit-learn's ``validate_data`` does of an array: the features have no names."""
        self.n_features_in_ = n_features
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _seen(self, X: Any) -> Any:
        """Return X to be predicted: of as many features as the fit had, and with their names where it had any."""
        is_like = is_ready(X) and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_")
        return X if is_like else validate_data(self, X, reset=False, **X_KINDS)

    def _train(self, data: Labelled) -> Any:
        X, _, classes, codes, sample_weight = data
        prices = loss_prices(codes, classes, self._price(), self.class_weight, sample_weight)
        problem = self._problem(X, codes, len(classes), prices, sample_weight)
        self.classes_ = classes

        def attributes(point: Any) -> dict[str, Any]:
            return self._attributes(problem, point, classes, codes)

        init = self._first_point(problem, len(codes)) if self.warm_start else None
        result = self._run(problem, data, attributes, init)
        self._keep(result, attributes(result.point), len(codes))
        self._warn(result, stacklevel=4)
        return self

    def model(self) -> Any:
        """Return the fitted model apart from the estimator: it predicts, saves and loads without pickle."""
        check_is_fitted(self)
        return self._predictor(self._info())

    def _info(self) -> dict[str, Any]:
        return {
            **self._claim(),
            "fit_intercept": bool(self.fit_intercept),
            "class_weight": self.class_weight,
            "tol": float(self.tol),
            "status": self.status_,
            "certificate": self.certificate_._asdict(),
        }

    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        check_is_fitted(self)
        return self._predictor({}).decision_function(self._seen(X))

    def predict(self, X: Any) -> Array:
        """Return the label with the highest score for every row of X."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
