"""LinearSVC: linear multiclass SVMs with a certificate, as a scikit-learn estimator."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import Posed
from softmargin.estimators.frame.spelling import SOLVED_EITHER_WAY, also
from softmargin.estimators.frame.stream import LinearStreamClassifier
from softmargin.estimators.frame.svm import SvmClassifier
from softmargin.estimators.posing.svm import linear_problem, streamed_problem
from softmargin.matrices.forms import canonical
from softmargin.matrices.operator import row_squares
from softmargin.models import LinearOneVsOne
from softmargin.problems import EveryPair

__all__ = ["LinearSVC"]

Array = NDArray[Any]


class LinearSVC(SvmClassifier, LinearStreamClassifier):
    r"""Linear support vector classifier for two or more classes, trained to a certificate.

    Minimises 1/2 \|W\|^2 + C sum_i loss_i. A joint loss adds up (Weston-Watkins) or takes the largest (Crammer-Singer)
    of the margin violations 1 + s_j - s_y over the wrong classes j; one-vs-rest charges every class on its own,
    [1 - y s]_+ or its square. The fit stops when a duality gap proves that the objective, of all classes together, is
    within ``tol`` (relative) of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Price of one unit of loss; smaller means more regularisation. It means what it means in scikit-learn's LinearSVC
        for ``multiclass="crammer_singer"`` and ``"one_vs_rest"`` (squared hinge: C sum_i xi_i^2). With two classes the
        two joint losses agree, and their model is that of a binary hinge SVM with 2 C.
    {multiclass, loss, fit_intercept, intercept_scaling, decision_function_shape}
    solver : str or solver object, default="auto"
        "auto" hands over to another solver where its first one stalls. hinge: "block_descent" (dual block descent on a
        working set; the first one), "walrus" (the plain Algorithm 1 of Wang and Scott with their block), "shark" (the
        same with Shark's block, which is inexact: a tol below about 1e-6 is out of its reach), "gram_descent" (on the
        inner products of the rows: few rounds where features times classes are as many as rows), "interior_point" (few
        steps, also at large C and on raw X; up to some thousand features times classes), "smoothed_newton" (the same,
        faster from some thousand on), "smoothed_interior_point" (the second from a path of the third, where C |x|^2 is
        large besides), "augmented_lagrangian" (the same for two classes and one-vs-rest, faster).
        squared_hinge: "newton" (on the weights), "dual_descent" (coordinates, with shrinking), "smo",
        "dual_prox_gradient", "plain_prox_gradient".
        "qp" hands the dual to Clarabel. With ``fit_intercept="free"`` those of ``KernelSVC``. Or a solver object.
    {tol, max_iter, max_seconds, class_weight, probability}
    warm_start : bool, default=False
        Start from the dual variables of the last fit, if it had the same samples and classes.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are visited.
    {n_jobs, device, verbose}

    Attributes
    ----------
    classes_ : array of shape (k,)
    coef_ : array of shape (k, d), or (1, d) for two classes; (k (k - 1) / 2, d) with "one_vs_one"
    intercept_ : array of shape (k,) or (1,); (k (k - 1) / 2,) with "one_vs_one"
    {certificate_, dual_gap_, status_, n_iter_, trace_}
    support_ : array of shape (n_support,)
        Samples with a nonzero dual variable; a stream keeps neither these nor ``dual_coef_``.
    dual_coef_ : array of shape (k, n_support) or (1, n_support)
        ``coef_ == dual_coef_ @ X[support_]``. Solver "newton" finds weights and dual apart: a row of the one is then
        within ``2 * sqrt(dual_gap_)`` of the other. With "one_vs_one" it has the (k - 1, n_support) of LIBSVM.

    Notes
    -----
    Also taken, as scikit-learn spells them: ``multi_class="ovr"`` or ``"crammer_singer"``, ``penalty="l2"``, ``dual=``
    (both ways to solve are one model).

    Streams (``partial_fit``, for ``loss="hinge"``). Every row of a chunk gets its dual variables, which stay when the
    rows have gone; the model is the mean of the weights along the way. ``certificate_.bound`` is proven of *all* rows
    seen since the stream began: no weights have a lower objective on them. After the first chunk ``certificate_`` is
    the duality gap of the model on it. After later chunks its kind is "regret": ``primal`` has the losses of each
    later chunk by the model before it learnt from it, as the losses of the model now are only known to one who looks
    at all rows again: ``certify(clf, X, y)``, and `softmargin train --stream`, do.

    Examples
    --------
    >>> from softmargin import LinearSVC
    >>> clf = LinearSVC(C=1.0, tol=1e-4, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> clf.certificate_.residual <= 1e-4
    True
    """

    @also(
        "Classes are joined by multiclass= 'weston_watkins', 'crammer_singer' or 'one_vs_rest'; for weights with an l1 "
        "penalty see SoftmaxRegression(l1_ratio=1) and L1BallClassifier.",
        multi_class={"ovr": {"multiclass": "one_vs_rest"}, "crammer_singer": {"multiclass": "crammer_singer"}},
        penalty={"l2": {}},
        dual=SOLVED_EITHER_WAY,
    )
    def __init__(
        self,
        C: float = 1.0,
        *,
        multiclass: str = "weston_watkins",
        loss: str = "hinge",
        fit_intercept: bool | str = True,
        intercept_scaling: float = 1.0,
        decision_function_shape: str = "ovr",
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        probability: str | bool | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    _is_summed_there: ClassVar = True

    def _squares(self, data: Data) -> Array:
        return row_squares(canonical(data.X))

    def _predictor(self, info: dict[str, Any]) -> Any:
        if not self._has_pairs:
            return super()._predictor(info)
        return LinearOneVsOne(self.classes_, self.coef_, self.intercept_, info)

    def _problem(self, data: Data) -> Any:
        return streamed_problem(self._svm(data))

    def _pose_rows(self, rows: Any) -> Posed:
        from softmargin.estimators.frame.summed import pose_svm

        return pose_svm(self, rows)

    def _stream_refusal(self) -> str:
        if self.loss == "hinge" and self.fit_intercept != "free" and self.multiclass != "one_vs_one":
            return ""
        return (
            "partial_fit gives every row its dual variables once; use loss='hinge', an intercept that is not free, and "
            "another multiclass than 'one_vs_one'."
        )

    def _pose(self, data: Data) -> Posed:
        problem = linear_problem(self._svm(data))

        def attributes(point: Any) -> dict[str, Any]:
            coef, intercept = problem.coef_and_intercept(point)
            dual = problem.dual_columns(point)
            support = np.flatnonzero(dual.any(axis=1))
            dual_coef = np.ascontiguousarray(dual[support].T)
            own = {"coef_": coef, "intercept_": intercept, "support_": support, "dual_coef_": dual_coef}
            return {**own, "_stream": None, "_has_pairs": isinstance(problem, EveryPair)}

        def warm_point() -> Any:
            dual = self._last_dual(data)
            return None if dual is None else problem.warm_point(dual)

        return Posed(problem, attributes, warm_point)
