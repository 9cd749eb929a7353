"""What linear and kernel SVMs share: their settings, and the dual variables that a fit leaves."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from softmargin.backends.arrays import to_numpy
from softmargin.core.threads import threads
from softmargin.estimators.frame.calibration import TUNING, fitted_calibration, held_out_scores
from softmargin.estimators.frame.classifier import CertifiedClassifier
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import Posed, at_one_moment
from softmargin.estimators.frame.warnings import warn_of_path
from softmargin.estimators.posing.svm import FIT_INTERCEPT, SvmData, SvmSettings
from softmargin.models.probabilities import calibrated_logs
from softmargin.run import Result

__all__ = ["SvmClassifier"]

Array = NDArray[Any]


def _has_probabilities(clf: Any) -> bool:
    if clf.probability in (None, False):
        raise AttributeError("probabilities are fitted where probability='sigmoid', 'temperature' or 'isotonic'.")
    return True


class SvmClassifier(CertifiedClassifier):
    """A classifier with a hinge loss, or its square.

    Parameters
    ----------
    multiclass : {"weston_watkins", "crammer_singer", "one_vs_rest", "one_vs_one"}, default="weston_watkins"
        A joint loss, one binary problem per class, or one per pair of classes, on the rows of the two: with
        ``fit_intercept="free"`` that of LIBSVM and scikit-learn's SVC. Certificates are of the sum of all problems.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With "one_vs_one" and more than two classes, as in scikit-learn: a score per class, (n, k), its votes and less
        than half a vote for its confidence; or one per pair of classes, (n, k (k - 1) / 2), above zero for the first.
        Predictions are the votes, whichever it is.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        How a violated margin is charged. "squared_hinge" needs two classes, or one-vs-rest or one-vs-one.
    fit_intercept : bool, "free" or "penalized", default=True
        "penalized" adds a constant feature, whose weight is penalised like every other one, as LIBLINEAR and
        scikit-learn's LinearSVC do; "free" leaves the intercept unpenalised, as LIBSVM does, for two classes,
        one-vs-rest or one-vs-one. True is "penalized" for the hinge and "free" for the squared hinge, where
        "penalized" is for linear models.
    intercept_scaling : float, default=1.0
        Value of the constant feature of a penalised intercept; a larger one lessens the penalty.
    probability : {"sigmoid", "temperature", "isotonic"}, bool or None, default=None
        Fit probabilities, which ``predict_proba`` then gives, to scores of rows that a model has not seen: after the
        fit, five more to four fifths of the rows each, from its dual variables; the budgets are those of one fit.
        "sigmoid" (True, as in scikit-learn's SVC) is Platt's, "isotonic" any nondecreasing function, both of every
        class's score and divided by their sum; "temperature" is the softmax of all scores times one number.
    """

    _allowed: ClassVar = {"fit_intercept": FIT_INTERCEPT}
    _calibration: dict[str, Any] | None
    _has_pairs = False  # one-vs-one with more than two classes was fitted

    def _settings(self) -> SvmSettings:
        return SvmSettings(self.multiclass, self.loss, self.fit_intercept, self.intercept_scaling)

    def _svm(self, data: Data) -> SvmData:
        return SvmData(data.X, data.codes, len(data.classes), self._prices(data, self.C), self._settings())

    @at_one_moment
    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        if not (self._has_pairs and self.decision_function_shape == "ovo"):
            return super().decision_function(X)
        X = self._rows_like_fitted(X)
        with threads(self.n_jobs):
            return self._predictor({}).pair_scores(X)

    @at_one_moment
    def predict(self, X: Any) -> Array:
        """Return the label with the highest score for every row of X; with one-vs-one, with the most votes."""
        if not self._has_pairs:
            return super().predict(X)
        X = self._rows_like_fitted(X)
        with threads(self.n_jobs):
            return self._predictor({}).predict(X)

    def _claim(self) -> dict[str, Any]:
        calibration = self._calibration
        return {**self._settings().claim(self.C), **({} if calibration is None else {"calibration": calibration})}

    def _after_fit(self, data: Data, posed: Posed) -> None:
        if self.probability not in (None, False):
            self._calibration = self._fitted_calibration(data, posed)

    def _pose_part(self, data: Data, rows: Array, whole: Posed) -> Posed:
        """Pose the problem of some rows, ``data``, of those of another one."""
        return self._pose(data)

    def _fitted_calibration(self, data: Data, posed: Posed) -> dict[str, Any]:
        """Fit probabilities to the scores of held-out rows."""
        found = held_out_scores(data.codes, lambda train, test: self._held_out(data, train, test, posed))
        warn_of_path(found.results, max(self.tol, TUNING.coarse_tol))
        method = "sigmoid" if self.probability is True else self.probability
        return fitted_calibration(str(method), found.scores, data.codes, data.sample_weight)

    def _held_out(self, data: Data, train: Array, test: Array, whole: Posed) -> tuple[Array, Result]:
        """Return scores of some rows by a model of others, which starts at the dual variables of this one."""
        twin, is_pairwise = self._twin(), self.__sklearn_tags__().input_tags.pairwise
        for name in ("_skl_callbacks", "_parent_callback_ctx"):
            twin.__dict__.pop(name, None)
        twin.verbose, twin.tol = 0, max(self.tol, TUNING.coarse_tol)
        if getattr(self, "gamma_", None) is not None and isinstance(self.gamma, str):
            twin.gamma = self.gamma_  # "scale" of all rows
        place = np.full(len(data.y), -1)
        place[train] = np.arange(len(train))
        rows = place[self.support_]
        twin.support_, twin.dual_coef_, twin._n_samples = rows[rows >= 0], self.dual_coef_[:, rows >= 0], len(train)
        part = data.take(train, is_pairwise=is_pairwise)
        posed = twin._pose_part(part, train, whole)
        result = twin._solve(part, posed, posed.warm_point())
        scores = twin._predictor({}).decision_function(data.held_out(train, test, is_pairwise=is_pairwise))
        return scores.reshape(len(test), -1), result._replace(point=None)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of every class's probability; shape (n, k). Only with ``probability``."""
        scores = self.decision_function(X)
        if self._calibration is None:
            raise NotFittedError("probabilities were not fitted: probability= was set later, or the fit interrupted.")
        return calibrated_logs(scores, self._calibration)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class; shape (n, k). Only with ``probability``."""
        return np.exp(self.predict_log_proba(X))

    def _squares(self, data: Data) -> Array:
        """Return the squared length of every sample, without the constant feature; (n,)."""
        raise NotImplementedError

    def _keep(self, result: Result, attributes: dict[str, Any], n: int) -> None:
        self._last_C = self.C
        self._calibration = None  # that of another model
        super()._keep(result, attributes, n)

    def _start_numbers(self, data: Data) -> int:
        is_joint_hinge = self._settings().is_joint and self.loss == "hinge" and self.fit_intercept != "free"
        return len(data.y) * len(data.classes) if is_joint_hinge else 0

    def _start(self) -> tuple[Array, Array]:
        return self.support_, self.dual_coef_

    def _begin_at(self, starts: list[tuple[Array, Any]], n: int) -> None:
        """Take the mean of every sample's dual variables over the fits that had it: maths, linear SVM, section 9."""
        dual, counts = np.zeros((n, len(starts[0][1][1]))), np.zeros(n)
        for rows, (support, columns) in starts:
            np.add.at(dual, rows[support], columns.T)
            np.add.at(counts, rows, 1.0)
        dual /= np.maximum(counts, 1.0)[:, None]
        self.support_ = np.flatnonzero(dual.any(axis=1))
        self.dual_coef_ = np.ascontiguousarray(dual[self.support_].T)
        self._n_samples, self._last_C = n, self.C

    def _last_dual(self, data: Data) -> Array | None:
        """Return dual columns to start at, (n, k) or (n, 1): those of the last fit to as many samples; None for none.

        Where C has grown since, they grow by the factor t of 1 .. C / C_last at which the dual value t L - t^2 / 2 Q is
        the largest: maths, notation, eq. 9.
        """
        n = int(data.X.shape[0])
        if getattr(self, "_n_samples", None) != n or not hasattr(self, "dual_coef_"):  # a stream has none
            return None
        columns = to_numpy(self.dual_coef_).T
        dual = np.zeros((n, columns.shape[1]))
        dual[to_numpy(self.support_)] = columns
        most = self.C / self._last_C
        if most > 1.0:
            dual *= self._growth(dual, self._prices(data, self._last_C), most)
        return dual

    def _growth(self, dual: Array, prices: Array, most: float) -> float:
        is_joint = self.loss == "hinge" and self.multiclass != "one_vs_rest"
        linear = (0.5 if is_joint else 1.0) * float(np.abs(dual).sum())
        if self.loss == "hinge":
            square = 2.0 * (linear - self.certificate_.primal)
        else:
            losses = float((dual**2).sum(axis=1) @ (0.5 / np.where(prices > 0.0, prices, 1.0)))
            square = linear - (1.0 - 1.0 / most) * losses
        return min(max(linear / square, 1.0), most) if square > 0.0 else most
