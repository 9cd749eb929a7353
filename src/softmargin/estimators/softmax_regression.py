"""SoftmaxRegression: multinomial logistic regression with any separable penalty, as a scikit-learn estimator."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils.validation import check_is_fitted

from softmargin.backends.arrays import to_numpy
from softmargin.core.parameters import Number
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import Posed, at_one_moment
from softmargin.estimators.frame.placed import exponentials, log_probabilities
from softmargin.estimators.frame.spelling import SOLVED_EITHER_WAY, also
from softmargin.estimators.frame.stream import LinearStreamClassifier
from softmargin.estimators.posing.softmax import pinned_column, priced_penalty, softmax_claim
from softmargin.matrices.forms import canonical, thinned
from softmargin.matrices.origin import near_zero
from softmargin.models.shapes import dense
from softmargin.problems import softmax_problem

__all__ = ["SoftmaxRegression"]

Array = NDArray[Any]


class SoftmaxRegression(LinearStreamClassifier):
    r"""Multinomial logistic regression with any separable penalty, trained to a certificate.

    Minimises C sum_i loss_i + g(W), loss_i = log sum_c exp(s_ic) - s_iy, s_i = W x_i + b. The intercept b is not
    penalised. Every class has weights, as in scikit-learn, unless one is ``pinned`` at zero; two classes have one row
    of weights, the log-odds of the second. The fit stops when a duality gap proves that the objective is within ``tol``
    (relative) of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Price of one unit of loss; smaller means more regularisation. It means what it means in scikit-learn's
        LogisticRegression; ``np.inf`` is no penalty at all, as is ``penalty=None``.
    l1_ratio : float, default=0.0
        g = l1_ratio \|W\|_1 + (1 - l1_ratio) / 2 \|W\|^2, as in scikit-learn: 0 is a ridge, 1 is l1, between them lies
        the elastic net.
    penalty : "elasticnet", "l2", "l1", None or a penalty object, default="elasticnet"
        "elasticnet" is g above, "l2" and "l1" its two ends, None no penalty at all, whatever C, as in scikit-learn.
        Or another g: a member of ``softmargin.penalties`` such as ``Group(1.0)``, ``Nonnegative()`` or ``MCP(1.0)``, or
        one of your own. Its strengths are its own numbers; ``l1_ratio`` is then left out.
    fit_intercept : bool, default=True
    pinned : label or None, default=None
        The class of three or more whose weights are zero: the model of Kang, Cao and Liu, who pin the last one. With a
        penalty it is another model, and depends on the class. None: every class has weights.
    solver : str or solver object, default="auto"
        "auto" is the fastest for the penalty and the shape of X. Any penalty: "prox_newton", "mm_descent",
        "accelerated_gradient", "block_prox_gradient", "svrg". Ridge only: "newton", "newton_cg", "lbfgs",
        "trust_newton", "dual_descent", "primal_dual_newton". l1 only: "interior_point". Neither with ``pinned``. Or a
        solver object.
    tol : float, default=1e-3
        Relative duality gap, (primal - bound) / primal, at which the fit is done. Without any penalty, and with one
        that is not convex, no gap can be proven: it is then the largest violation of stationarity, relative to the
        largest gradient of a feature at W = 0.
    {max_iter, max_seconds, class_weight, warm_start, random_state, n_jobs, device, verbose}

    Attributes
    ----------
    classes_ : array of shape (k,)
    coef_ : array of shape (k, d), or (1, d) for two classes
        A sparse matrix after ``sparsify()``.
    intercept_ : array of shape (k,) or (1,)
        Of three and more classes, with mean zero; zero for a pinned class.
    {certificate_}
    dual_gap_ : float
        primal - bound; infinite where only stationarity is proven.
    {status_, n_iter_, trace_}

    Notes
    -----
    Where the penalty is not convex, the run starts at a solution of l1 (or the group norm) of the same strength, and
    ends at a stationary point.

    Also taken, as scikit-learn spells them: ``multi_class="multinomial"``, ``dual=`` (both ways to solve are one
    model).

    Streams (``partial_fit``, with a ridge). Every row of a chunk gets its dual variables, which stay when the
    rows have gone; the model is the mean of the weights along the way. ``certificate_.bound`` is proven of *all* rows
    seen since the stream began: no weights have a lower objective on them. After the first chunk ``certificate_`` is
    the duality gap of the model on it. After later chunks its kind is "regret": ``primal`` has the losses of each
    later chunk by the model before it learnt from it, as the losses of the model now are only known to one who looks
    at all rows again: ``certify(clf, X, y)``, and `softmargin train --stream`, do.

    Examples
    --------
    >>> from softmargin import SoftmaxRegression
    >>> clf = SoftmaxRegression(C=1.0, tol=1e-4).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> clf.certificate_.residual <= 1e-4
    True
    >>> clf.predict_proba([[1.5]]).round(3)
    array([[0.5, 0.5]])
    """

    _allowed: ClassVar = {"C": (Number(above=0.0, is_finite=False),)}  # infinity: no penalty
    _is_summed_there: ClassVar = True
    coef_: Any

    @also(
        "All classes have one joint model; scikit-learn's OneVsRestClassifier(SoftmaxRegression()) trains them apart.",
        multi_class={"multinomial": {}, "auto": {}},
        dual=SOLVED_EITHER_WAY,
    )
    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        penalty: Any = "elasticnet",
        fit_intercept: bool = True,
        pinned: Any = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    def _chosen(self) -> tuple[Any, Any]:
        """Return C, infinite where there is no penalty, and l1_ratio."""
        return np.inf if self.penalty is None else self.C, self.l1_ratio

    def _problem(self, data: Data) -> Any:
        C, penalty = priced_penalty(*self._chosen(), self.penalty, pinned=pinned_column(self.pinned, data.classes))
        return softmax_problem(
            data.X,
            data.codes,
            C=self._prices(data, C),
            penalty=penalty,
            n_classes=len(data.classes),
            fit_intercept=bool(self.fit_intercept),
        )

    def _pose_rows(self, rows: Any) -> Posed:
        from softmargin.estimators.frame.summed import pose_softmax

        return pose_softmax(self, rows, *priced_penalty(*self._chosen(), self.penalty))

    def _stream_refusal(self) -> str:
        _, penalty = priced_penalty(*self._chosen(), self.penalty)
        if self.pinned is None and getattr(penalty, "ridge", None):
            return ""
        return "partial_fit needs a ridge: l1_ratio=0 and a finite C, or penalty=L2(...), and no pinned class."

    def _pose(self, data: Data) -> Posed:
        X = near_zero(thinned(canonical(data.X)), self.fit_intercept)
        problem = self._problem(data._replace(X=X))

        def attributes(point: Any) -> dict[str, Any]:
            coef, intercept = problem.coef_and_intercept(point)
            return {"coef_": coef, "intercept_": intercept, "_stream": None}

        def warm_point() -> Any:
            if not hasattr(self, "coef_"):
                return None
            return problem.warm_point(dense(to_numpy(self.coef_)).T, to_numpy(self.intercept_))

        return Posed(problem, attributes, warm_point)

    def _start_numbers(self, data: Data) -> int:
        is_convex = priced_penalty(1.0, 0.0, self.penalty)[1].is_convex  # else the start would choose the optimum
        return len(data.classes) * int(data.X.shape[1]) if is_convex else 0

    def _start(self) -> tuple[Array, Array]:
        return self.coef_, self.intercept_

    def _begin_at(self, starts: list[tuple[Array, Any]], n: int) -> None:
        """Take the mean of the weights."""
        self.coef_, self.intercept_ = (np.mean(each, axis=0) for each in zip(*(own for _, own in starts), strict=True))

    def _claim(self) -> dict[str, Any]:
        C, ratio = self._chosen()
        column = pinned_column(self.pinned, self.classes_)
        return softmax_claim(C, priced_penalty(C, ratio, self.penalty, pinned=column)[1])

    @at_one_moment
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of every class's probability; shape (n, k). Nothing overflows, nothing is cut off."""
        return log_probabilities(self.decision_function(X))

    @at_one_moment
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class; shape (n, k)."""
        return exponentials(self.predict_log_proba(X))

    def sparsify(self) -> Self:
        """Turn ``coef_`` into a sparse matrix: less memory where most weights are zero."""
        check_is_fitted(self)
        self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Turn ``coef_`` back into an array."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self
