"""KernelSVC: kernel multiclass SVMs with a certificate, as a scikit-learn estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.core.certificate import Certificate
from softmargin.core.warn import warn_caller
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.device import DeviceClassifier
from softmargin.estimators.frame.fit import Posed
from softmargin.estimators.frame.spelling import SOLVED_EITHER_WAY, also
from softmargin.estimators.frame.stream import StreamClassifier
from softmargin.estimators.frame.warnings import indefinite_kernel
from softmargin.estimators.posing.kernels import (
    KernelSettings,
    kernel_claim,
    kernel_of,
    kernel_task,
    looks_at_samples,
    needs_all_samples,
)
from softmargin.estimators.posing.scs_stream import stream_of
from softmargin.estimators.posing.stream import KernelStream
from softmargin.estimators.posing.svm import cache_megabytes
from softmargin.kernels import Points
from softmargin.matrices.forms import canonical
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion, OneVsOne
from softmargin.problems import EveryPair, Expansion
from softmargin.run import Status

__all__ = ["KernelSVC"]

Array = NDArray[Any]


class KernelSVC(DeviceClassifier, StreamClassifier):
    r"""Kernel support vector classifier for two or more classes, trained to a certificate.

    Minimises 1/2 \|W\|^2 + C sum_i loss_i over W in the space of the kernel; the losses are those of ``LinearSVC``. The
    kernel matrix is never required to fit in memory. The fit stops when a duality gap proves that the objective, of all
    classes together, is within ``tol`` (relative) of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Price of one unit of loss; smaller means more regularisation. For ``multiclass="one_vs_rest"`` it is that of
        scikit-learn's SVC (hinge) or LinearSVC (squared hinge, C sum_i xi_i^2). With two classes the two joint losses
        agree, and their model is that of a binary hinge SVM with 2 C.
    kernel : {"rbf", "linear", "laplacian", "polynomial", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two blocks of rows and returns the matrix of their kernel values. With "precomputed", X is the
        kernel matrix: (n, n) in ``fit``, (m, n) against the training samples in ``predict``.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of rbf, laplacian, polynomial and sigmoid kernels; "scale" is 1 / (d var(X)) (by
        the sample weights, where there are any), "auto" is 1 / d.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=0.0
        Of the polynomial and sigmoid kernels.
    {multiclass, loss, fit_intercept, intercept_scaling, decision_function_shape}
    solver : str or solver object, default="auto"
        hinge: "block_descent" (exact block descent on a working set), "pair_descent" (the same by pairs, for two
        classes), "splitting", "projected_gradient", "frank_wolfe", "block_frank_wolfe", "pairwise_frank_wolfe",
        "away_frank_wolfe"; "auto" is "pair_descent" for two classes and one-vs-rest, else "block_descent". With
        ``fit_intercept="free"``: "pair_descent" ("auto"), "smo", "frank_wolfe". one_vs_one: "each_pair" (all pairs at
        once; "auto"), or a solver of their problems. squared_hinge: "smo",
        "dual_prox_gradient", "plain_prox_gradient" and, with a linear kernel, "newton" and "dual_descent"; "auto" is
        "smo", and with a linear kernel that of ``LinearSVC``. "frank_wolfe_oblivious", "block_frank_wolfe_optimal" and
        "block_frank_wolfe_oblivious" are forms of paper 000. "qp" hands the dual to Clarabel, for a few thousand rows.
        Or a solver object. For millions of rows, hinge with two classes or one-vs-rest: "scs" (stochastic conjugate
        subgradients) and "pegasos" look at samples, and X may be memory-mapped; "wolfe" looks at all rows. Their gap is
        one on the sample where they have not seen all rows. With ``approximation`` the linear solvers of ``LinearSVC``
        are those to choose from.
    approximation : {"auto", "nystroem"} or None, default="auto"
        None solves the problem itself. "nystroem" replaces the space of the kernel by the span of ``n_components``
        landmarks and solves the linear problem there, to a certificate of that problem. "auto" is "nystroem" for more
        than 20,000 rows with ``solver="auto"`` and a kernel that is neither linear nor precomputed, else None; with
        ``multiclass="one_vs_one"``, whose problems are small, it is None.
    n_components : int, default=500
        Landmarks of the approximation; vectors that ``partial_fit`` keeps.
    {tol}
    max_iter : int, default=10000
        Budget in passes over the data; in steps, where a solver looks at samples.
    {max_seconds, class_weight, probability}
    warm_start : bool, default=False
        Start from the dual variables of the last fit, if it had the same samples and classes. Solvers that look at
        samples, other than "wolfe", and approximations start afresh.
    cache_size : float or "auto", default="auto"
        Megabytes that kernel values may fill, or the features of an approximation: where these do not fit, rows are
        drawn. "auto" is 1000, and where X lies on a GPU 70 % of the memory that it has left.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are visited, and of the samples and landmarks that are drawn.
    {n_jobs, device, verbose}

    Attributes
    ----------
    classes_ : array of shape (k,)
    support_ : array of shape (n_support,)
        Samples with a nonzero dual variable; the landmarks of an approximation; positions in a stream.
    support_vectors_ : array or CSR matrix of shape (n_support, d)
        These samples; empty where the kernel is precomputed.
    n_support_ : array of shape (k,)
        How many of them each class has.
    dual_coef_ : array of shape (k, n_support), or (1, n_support) for two classes
        Scores are ``dual_coef_ @ K(support_vectors_, X) + intercept_``. With "one_vs_one" the (k - 1, n_support) of
        LIBSVM and scikit-learn's SVC, with the support vectors of the first class first: one of class c has its
        coefficient of the pair with e in row e, or e - 1 where e > c.
    intercept_ : array of shape (k,) or (1,); (k (k - 1) / 2,) with "one_vs_one"
    coef_ : array of shape (k, d) or (1, d); (k (k - 1) / 2, d) with "one_vs_one"
        The weights, where the kernel is linear.
    gamma_ : float or None
        The gamma that was used; None where the kernel has none.
    certificate_ : Certificate
        kind, primal, bound, residual: what is proven about this model. No proof where an IndefiniteKernelWarning came.
        The kind is "sample gap" where only some of the rows were looked at. That of an approximation is for the
        approximate problem; ``certify`` gives the gap of the exact one.
    {dual_gap_, status_, n_iter_, trace_}

    Notes
    -----
    Also taken, as scikit-learn spells it: ``shrinking=``, which changes nothing of the model.

    Streams (``partial_fit``), for ``multiclass="one_vs_rest"`` and the hinge. The first rows give ``n_components``
    landmarks, and these the features of a linear model. Every row of a chunk makes one step of averaged Pegasos on it,
    with the regularisation of all rows seen, lam = 1 / (C n), and steps 1 / (R + lam t / 4) at the t-th row, R the mean
    \|z\|^2; iterates are averaged with weights like t^3, so that early ones fade. ``certificate_`` is a gap on rows of
    the last chunk, for the problem on these features. With ``solver="scs"``, or such an object, chunks feed the sample
    of conjugate subgradients and test its steps instead: at most ``n_components`` rows are kept for each class, and
    ``certificate_`` is the gap on these. ``gamma="scale"`` looks at the first chunk.

    Examples
    --------
    >>> from softmargin import KernelSVC
    >>> clf = KernelSVC(tol=1e-4, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0])
    >>> clf.certificate_.residual <= 1e-4
    True
    >>> clf.predict([[-0.5], [1.5]]).tolist()
    [0, 1]
    """

    @also("It says how to solve, and nothing of the model.", shrinking=SOLVED_EITHER_WAY)
    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
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
        cache_size: float | str = "auto",
        approximation: str | None = "auto",
        n_components: int = 500,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    def __sklearn_tags__(self) -> Any:
        """Declare that X may be sparse, and whether it is a kernel matrix."""
        tags = super().__sklearn_tags__()
        name = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "name", None)
        tags.input_tags.pairwise = isinstance(name, str) and name == "precomputed"
        return tags

    def _kernel_for(self, X: Any, sample_weight: Array | None) -> Any:
        return kernel_of(self.kernel, self.gamma, self.degree, self.coef0, X, sample_weight)

    def _squares(self, data: Data) -> Array:
        squares: Array = self._kernel_for(data.X, data.sample_weight).diagonal(Points(canonical(data.X)))
        return squares

    def _pose_again(self, data: Data, posed: Posed) -> Posed:
        return self._pose(data, posed.problem.gram if self._is_exact(posed) else None)

    def _pose_part(self, data: Data, rows: Array, whole: Posed) -> Posed:
        return self._pose(data, whole.problem.gram.part(rows) if self._is_exact(whole) else None)

    def _is_exact(self, posed: Posed) -> bool:
        """Say whether a problem has all samples and no landmarks."""
        return bool(posed.problem.is_expansion) and not looks_at_samples(self.solver)

    def _pose(self, data: Data, gram: Gram | None = None) -> Posed:
        kernel = self._kernel_for(data.X, data.sample_weight)
        cache_size, seconds = cache_megabytes(self.cache_size, data.X), self._stop().max_seconds
        how = KernelSettings(kernel, self.solver, self.approximation, self.n_components, cache_size, seconds, gram)
        task = kernel_task(self._svm(data), how, self._seed)
        eigenvalue = task.negative_eigenvalue()
        if eigenvalue < 0:
            warn_caller(indefinite_kernel(kernel, eigenvalue))

        def attributes(point: Any) -> dict[str, Any]:
            expansion = task.expansion(point)
            own = self._attributes(expansion, data.codes[expansion.support], len(data.classes))
            more = {"_stream": None, "_has_pairs": isinstance(task.problem, EveryPair)}
            return {**self._at_home(own, data), **more}

        def warm_point() -> Any:
            is_drawn = looks_at_samples(self.solver) and not needs_all_samples(self.solver)
            dual = None if task.landmarks is not None or is_drawn else self._last_dual(data)
            return None if dual is None else task.problem.warm_point(dual)

        return Posed(task.problem, attributes, warm_point, task.named)

    def _pose_rows(self, rows: Any) -> Posed:
        from softmargin.estimators.frame.cluster import pose_landmarks

        return pose_landmarks(self, rows)

    def _attributes(self, expansion: Expansion, codes: Array, n_classes: int) -> dict[str, Any]:
        """Return the attributes of a model; ``codes`` are the classes of its vectors."""
        return {
            "support_": expansion.support,
            "support_vectors_": np.empty((0, 0)) if expansion.vectors is None else expansion.vectors,
            "n_support_": np.bincount(codes, minlength=n_classes),
            "dual_coef_": np.ascontiguousarray(expansion.coef.T),
            "intercept_": expansion.intercept,
            "gamma_": getattr(expansion.kernel, "gamma", None),
            "_support_codes": codes,
            "_kernel": expansion.kernel,
            "_n_samples": expansion.n_samples,
        }

    def _predictor(self, info: dict[str, Any]) -> Any:
        vectors = None if self._kernel.name == "precomputed" else to_numpy(self.support_vectors_)
        support, dual, intercept = (to_numpy(each) for each in (self.support_, self.dual_coef_, self.intercept_))
        if self._has_pairs:
            pairs = (self._kernel, vectors, self.n_support_, dual.T, intercept)
            return OneVsOne(to_numpy(self.classes_), *pairs, info, support, self._n_samples)
        own = Expansion(self._kernel, vectors, support, self._n_samples, dual.T, intercept)
        return KernelExpansion(to_numpy(self.classes_), *own, info)

    def _claim(self) -> dict[str, Any]:
        return {**super()._claim(), **kernel_claim(self._kernel)}

    @property
    def coef_(self) -> Any:
        """Weights of a linear kernel; shape (k, d) or (1, d)."""
        check_is_fitted(self)
        if self._kernel.name != "linear":
            raise AttributeError(
                f"coef_ exists for the linear kernel only; this model has the {self._kernel.name} one."
            )
        coef = self._predictor({}).as_linear.coef
        return home_of(self.support_vectors_).array(coef) if is_foreign(self.support_vectors_) else coef

    def _stream_refusal(self) -> str:
        is_given = self.__sklearn_tags__().input_tags.pairwise
        is_free = self.fit_intercept == "free"
        if self.device is not None or is_foreign(getattr(self, "support_vectors_", None)):
            return "partial_fit computes in the memory of the processor; use device=None and NumPy arrays."
        if self.multiclass == "one_vs_rest" and self.loss == "hinge" and not is_given and not is_free:
            return ""
        return (
            "partial_fit trains one class against the others (one problem where there are two), with the hinge and a "
            "kernel of rows; use multiclass='one_vs_rest', loss='hinge', an intercept that is not 'free', and another "
            "kernel than 'precomputed'."
        )

    def _learn(self, data: Data) -> tuple[KernelStream, Certificate, Status, dict[str, Any]]:
        n_classes = len(data.classes)
        stream = getattr(self, "_stream", None) or self._open_stream(data.X, n_classes, data.sample_weight)
        prices = self._prices(data, self.C)
        how = {"budget": self.n_components, "tol": self.tol, "seed": self._seed()}
        certificate, status = stream.take(data.X, data.codes, prices, **how)
        return stream, certificate, status, self._attributes(stream.expansion(), stream.labels, n_classes)

    def _open_stream(self, X: Any, n_classes: int, sample_weight: Array | None) -> KernelStream:
        """Begin with nothing, or with the model of the last fit."""
        bias = self._settings().bias
        if not hasattr(self, "classes_"):
            return stream_of(self.solver, self._kernel_for(X, sample_weight), n_classes, bias)
        n = self._n_samples
        own = (self.support_vectors_, self._support_codes, self.dual_coef_.T, self.support_)
        return stream_of(self.solver, self._kernel, n_classes, bias, *own, n_seen=n, price=self.C * n)
