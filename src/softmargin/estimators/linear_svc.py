"""LinearSVC: joint linear multiclass SVMs with a certificate, as a scikit-learn estimator."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators._callbacks import CallbackBridge, CallbackSupportMixin, with_callbacks
from softmargin.estimators._fit import fit_linear_svm, linear_model, linear_problem, loss_prices
from softmargin.estimators._warnings import NotCertifiedWarning, not_certified
from softmargin.models import LinearModel
from softmargin.problems import DualPoint
from softmargin.run import Result, Status, Stop

__all__ = ["LinearSVC"]

Array = NDArray[Any]


class LinearSVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""Linear support vector classifier for several classes at once, trained to a certificate.

    Minimises 1/2 \|W\|^2 + C sum_i loss_i, where the loss of a sample adds up (Weston-Watkins) or takes the largest
    (Crammer-Singer) of its margin violations 1 + s_j - s_y over the wrong classes j. The fit stops when a duality gap
    proves that the objective is within ``tol`` (relative) of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Price of one unit of loss; smaller means more regularisation. With two classes the two losses agree, and the
        model is that of a binary hinge SVM with 2 C.
    multiclass : {"weston_watkins", "crammer_singer"}, default="weston_watkins"
        Which joint loss.
    loss : {"hinge"}, default="hinge"
        How a violated margin is charged.
    fit_intercept : bool, default=True
        Add a constant feature. Its weight is penalised like every other one.
    intercept_scaling : float, default=1.0
        Value of the constant feature; a larger one lessens the penalty on the intercept.
    solver : str or solver object, default="auto"
        "auto" and "block_descent" (dual block descent on a working set), "walrus" (the plain Algorithm 1 of Wang and
        Scott with their block), "shark" (the same with Shark's block), or a ``DualBlockDescent``.
    tol : float, default=1e-3
        Relative duality gap, (primal - bound) / primal, at which the fit is done.
    max_iter : int, default=10000
        Budget in passes over the data.
    max_seconds : float or None, default=None
        Budget in wall-clock seconds.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C by class.
    warm_start : bool, default=False
        Start from the dual variables of the last fit, if it had the same samples and classes.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are visited.
    verbose : int, default=0
        1 shows a progress bar with the gap.

    Attributes
    ----------
    classes_ : array of shape (k,)
    coef_ : array of shape (k, d), or (1, d) for two classes
    intercept_ : array of shape (k,) or (1,)
    certificate_ : Certificate
        kind, primal, bound, residual: what is proven about this model.
    dual_gap_ : float
        primal - bound.
    status_ : str
        "converged", "max_iter", "max_seconds", "stopped" or "interrupted".
    n_iter_ : int
        Passes over the data.
    trace_ : Trace
        The certificates along the way.
    support_ : array of shape (n_support,)
        Samples with a nonzero dual variable.
    dual_coef_ : array of shape (k, n_support) or (1, n_support)
        ``coef_ == dual_coef_ @ X[support_]``.

    Examples
    --------
    >>> from softmargin import LinearSVC
    >>> clf = LinearSVC(C=1.0, tol=1e-4, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> clf.certificate_.residual <= 1e-4
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        multiclass: str = "weston_watkins",
        loss: str = "hinge",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.multiclass = multiclass
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Say that sparse X is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LinearSVC":
        """Train to the tolerance.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            float32 and float64 in C or CSR order are used as they are, without a copy.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 equals the sample given twice.
        """
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            accept_large_sparse=True,
        )
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"y has 1 class ({classes.tolist()[0]!r}) in {len(y)} samples; a classifier needs at least 2 classes."
            )
        if self.loss != "hinge":
            raise IncompatibleError(
                f"loss={self.loss!r} with the joint multiclass={self.multiclass!r} is not defined; use loss='hinge'."
            )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        problem = linear_problem(
            X,
            codes,
            len(classes),
            loss_prices(codes, classes, self.C, self.class_weight, sample_weight),
            multiclass=self.multiclass,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
        )
        stop = Stop(self.tol, self.max_iter, math.inf if self.max_seconds is None else self.max_seconds)
        self.classes_ = classes
        watchers: list[Any] = []
        if self.verbose:
            from softmargin.run.watchers import ProgressBar

            watchers.append(ProgressBar())
        if CallbackBridge.wanted(self):
            watchers.append(
                CallbackBridge(self, X, y, sample_weight, lambda point: self._attributes(problem.bias, classes, point))
            )
        result = fit_linear_svm(
            problem,
            solver=self.solver,
            stop=stop,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            init=self._last_dual(problem, classes),
            watchers=watchers,
        )
        self._finish(result, problem.bias, classes)
        return self

    def _attributes(self, bias: float, classes: Array, point: DualPoint) -> dict[str, Any]:
        model = linear_model(point.weights, bias, classes, {})
        return {"classes_": classes, "coef_": model.coef, "intercept_": model.intercept}

    def _finish(self, result: Result, bias: float, classes: Array) -> None:
        for name, value in self._attributes(bias, classes, result.point).items():
            setattr(self, name, value)
        alpha = result.point.alpha
        self.support_ = np.flatnonzero(alpha.any(axis=1))
        dual = alpha[self.support_].T
        self.dual_coef_ = dual[1:] - dual[:1] if len(classes) == 2 else np.ascontiguousarray(dual)
        self.certificate_ = result.certificate
        self.dual_gap_ = result.certificate.gap
        self.status_ = result.status.value
        self.n_iter_ = result.n_iter
        self.trace_ = result.trace
        self._n_samples = len(alpha)
        if result.status is not Status.CONVERGED:
            warnings.warn(not_certified(result, self.tol), NotCertifiedWarning, stacklevel=3)

    def _last_dual(self, problem: Any, classes: Array) -> DualPoint | None:
        """Return the dual point of the last fit, where it can serve as a start."""
        if not (self.warm_start and hasattr(self, "dual_coef_")):
            return None
        rows = len(classes) if len(classes) > 2 else 1
        if self._n_samples != len(problem.y) or len(self.dual_coef_) != rows:
            return None
        dual = self.dual_coef_
        if rows == 1:
            dual = np.vstack([-dual, dual]) / 2.0
        alpha = np.zeros((self._n_samples, len(classes)))
        alpha[self.support_] = dual.T
        return problem.point(problem.feasible(alpha))

    def model(self) -> LinearModel:
        """Return the fitted model apart from the estimator: it predicts, saves and loads without pickle."""
        check_is_fitted(self)
        info = {
            "problem": "multiclass_svm",
            "multiclass": self.multiclass,
            "C": float(self.C),
            "fit_intercept": bool(self.fit_intercept),
            "intercept_scaling": float(self.intercept_scaling),
            "class_weight": self.class_weight,
            "tol": float(self.tol),
            "status": self.status_,
            "certificate": self.certificate_._asdict(),
        }
        return LinearModel(self.classes_, self.coef_, self.intercept_, info)

    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return LinearModel(self.classes_, self.coef_, self.intercept_, {}).decision_function(X)

    def predict(self, X: Any) -> Array:
        """Return the label with the highest score for every row of X."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
