"""How far from optimal is this model? Ours, scikit-learn's, LIBLINEAR's.

linear weights        P(W) is a property of the weights alone; the bound is ours: the dual value of a point our
solver finds on the same data. P(W) - bound is then proven, whoever trained W. So it is for SVMs and softmax models.
kernel expansions     coefficients and support say which dual point the model is, so it carries its own bound: the
dual value there, or at the feasible point next to it.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.protocols import FreeBiasProblem
from softmargin.estimators._certify_softmax import certify_softmax, softmax_claim_of
from softmargin.estimators._claims import Claim, claim_of, codes_of, known_price, with_constant
from softmargin.estimators._fit import fit_problem
from softmargin.estimators._problems import (
    as_point,
    gram_of,
    joint_weights,
    kernel_problem,
    linear_problem,
    warm_point,
)
from softmargin.estimators._weights import loss_prices
from softmargin.kernels import find_gamma, make_kernel
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import canonical
from softmargin.models import KernelExpansion
from softmargin.problems.hinge_svm import HingePoint, HingeSVM
from softmargin.run import Stop

__all__ = ["certify"]

Array = NDArray[Any]


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    C: float | None = None,
    multiclass: str | None = None,
    loss: str | None = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    bound_tol: float = 1e-5,
    max_seconds: float = math.inf,
    watchers: Sequence[Any] = (),
) -> Certificate:
    """Say how far a model is from the optimum of its own training problem.

    Parameters
    ----------
    model : LinearModel, KernelExpansion, or a fitted classifier
        Of softmargin: LinearSVC, KernelSVC, SoftmaxRegression. Of scikit-learn: LinearSVC (with l2 penalty), SVC (with
        two classes), LogisticRegression and LogisticRegressionCV.
        ``softmargin.models.read_liblinear`` makes a LinearModel of a LIBLINEAR file.
    X, y
        The data it was trained on; X is the kernel matrix where it was precomputed.
    C, class_weight
        The prices, where the model does not say (a LIBLINEAR file does not hold C), or to ask about others.
    multiclass, loss
        The problem, where a linear model does not say, or to measure it by another one.
    sample_weight : array, optional
        The weights it was trained with.
    bound_tol : float, default=1e-5
        How tight our own bound for a linear model shall be (relative gap of the point that proves it).
    max_seconds : float
        Budget for that bound; a looser bound is still a proof.
    watchers : sequence of Watcher
        Look on while the bound is found.

    Returns
    -------
    Certificate
        primal = P(model), bound <= optimum, residual = (primal - bound) / primal. A softmax model without a penalty,
        or with one that is not convex, has no bound: its certificate is stationarity.
    """
    if hasattr(model, "model") and hasattr(model, "certificate_"):
        model = model.model()
    X = canonical(X if hasattr(X, "tocsr") else np.asarray(X))
    if isinstance(model, KernelExpansion):
        if (multiclass, loss) != (None, None):
            raise IncompatibleError(
                "a kernel model is measured by the problem it was trained for; leave out multiclass and loss."
            )
        return _certify_expansion(model, X, y, C, class_weight, sample_weight)
    if any(base.__name__ == "SVC" for base in type(model).__mro__):
        return _certify_svc(model, X, y, C, class_weight, sample_weight)
    softmax = softmax_claim_of(model) if multiclass is None and loss is None else None
    if softmax is not None:
        stop = Stop(bound_tol, max_seconds=max_seconds)
        return certify_softmax(softmax, X, y, C, class_weight, sample_weight, stop=stop, watchers=watchers)
    claim = claim_of(model)
    name, charge = claim.asked(multiclass, loss)
    if X.shape[1] != claim.coef.shape[1]:
        raise DataError(f"the model has {claim.coef.shape[1]} features, X has {X.shape[1]}; pass the training data.")
    codes = codes_of(claim.classes, y)
    prices = _linear_prices(claim, codes, name, C, class_weight, sample_weight)
    coef, intercept, fit_intercept = claim.coef, claim.intercept, claim.fit_intercept
    if charge == "squared_hinge" and fit_intercept and not claim.is_ours:
        # An L2SVM has a free bias or none: the penalised one becomes the weight of a column.
        X = with_constant(X, claim.intercept_scaling)
        coef = np.column_stack([coef, intercept / claim.intercept_scaling])
        intercept, fit_intercept = np.zeros_like(intercept), False
    problem = linear_problem(
        X,
        codes,
        len(claim.classes),
        prices,
        multiclass=name,
        loss=charge,
        fit_intercept=fit_intercept,
        intercept_scaling=claim.intercept_scaling,
    )
    result = fit_problem(problem, stop=Stop(bound_tol, max_seconds=max_seconds), seed=0, watchers=watchers)
    bound = max(row.certificate.bound for row in result.trace)
    return duality_gap(_primal(problem, result.point, coef, intercept), bound)


def _linear_prices(
    claim: Claim, codes: Array, multiclass: str, C: float | None, class_weight: Any, sample_weight: Any
) -> Array:
    """Return the prices the model was trained with: (n,), or (n, k) where they depend on the class."""
    weight = claim.class_weight if class_weight is None else class_weight
    prices = loss_prices(codes, claim.classes, known_price(C, claim.C), weight, sample_weight)
    if claim.is_ours or multiclass != "one_vs_rest" or len(claim.classes) == 2 or weight is None:
        return prices
    others = loss_prices(codes, claim.classes, known_price(C, claim.C), None, sample_weight)
    is_own = codes[:, None] == np.arange(len(claim.classes))
    return np.where(is_own, prices[:, None], others[:, None])


def _primal(problem: Any, point: Any, coef: Array, intercept: Array) -> float:
    """Return P at these weights."""
    if not hasattr(problem, "parts"):
        return float(problem.primal(joint_weights(coef, intercept, problem.bias)))
    values = [
        part.certificate(mine._replace(weights=row, bias=float(b))).primal
        if isinstance(part, FreeBiasProblem)
        else part.primal(joint_weights(row, b, part.bias))
        for part, mine, row, b in zip(problem.parts, point, coef, intercept, strict=True)
    ]
    return float(problem.scale * sum(values))


def _certify_expansion(
    model: KernelExpansion, X: Any, y: Any, C: float | None, class_weight: Any, sample_weight: Any
) -> Certificate:
    info = model.info
    if model.vectors is not None:
        X = X.astype(model.vectors.dtype, copy=False)
    _check_support(model.vectors, model.support, model.n_samples, X)
    codes = codes_of(model.classes, y)
    weight = info.get("class_weight") if class_weight is None else class_weight
    problem = kernel_problem(
        X,
        codes,
        len(model.classes),
        loss_prices(codes, model.classes, known_price(C, info.get("C")), weight, sample_weight),
        kernel=model.kernel,
        multiclass=info["multiclass"],
        loss=info["loss"],
        fit_intercept=info["fit_intercept"],
        intercept_scaling=info["intercept_scaling"],
    )
    dual = np.zeros((len(codes), model.coef.shape[1]))
    dual[model.support] = model.coef
    _warn_if_indefinite(gram_of(problem))
    certificate = problem.certificate(as_point(problem, dual, model.intercept))
    if math.isfinite(certificate.bound):
        return certificate
    return duality_gap(certificate.primal, problem.certificate(warm_point(problem, dual)).bound)


def _certify_svc(model: Any, X: Any, y: Any, C: float | None, class_weight: Any, sample_weight: Any) -> Certificate:
    if not hasattr(model, "dual_coef_"):
        raise IncompatibleError("certify needs a fitted SVC; this one has no dual_coef_. Fit it first.")
    if len(model.classes_) > 2:
        raise IncompatibleError(
            f"this SVC has {len(model.classes_)} classes: it is {len(model.classes_) * (len(model.classes_) - 1) // 2} "
            "models of one class against another, which minimise no objective together. Fit and certify an SVC on "
            "every pair of classes, or fit a KernelSVC."
        )
    is_given = model.kernel == "precomputed"
    X = X.astype(np.float64, copy=False)  # as scikit-learn does
    vectors = model.support_vectors_ if model.support_vectors_.shape[0] == len(model.support_) else None
    _check_support(vectors, model.support_, model.shape_fit_[0], X)
    codes = codes_of(model.classes_, y)
    gamma = find_gamma(model.gamma, X) if isinstance(model.kernel, str) and not is_given else 1.0
    kernel = make_kernel(model.kernel, gamma=gamma, degree=model.degree, coef0=model.coef0)
    gram = Gram(kernel, X)
    _warn_if_indefinite(gram)
    # The class weights it was fitted with, not those a later set_params names.
    weight = (
        dict(zip(model.classes_.tolist(), model.class_weight_, strict=True)) if class_weight is None else class_weight
    )
    signs = 2.0 * codes - 1.0
    problem = HingeSVM(
        gram, signs, C=loss_prices(codes, model.classes_, known_price(C, model.C), weight, sample_weight)
    )
    coef = model.dual_coef_
    dual = np.zeros(len(codes))
    dual[model.support_] = (coef.toarray() if hasattr(coef, "toarray") else coef)[0]
    return problem.certificate(HingePoint(signs * dual, float(model.intercept_[0])))


def _check_support(vectors: Any, support: Array, n_samples: int, X: Any) -> None:
    """Refuse data that the model was not trained on."""
    if X.shape[0] != n_samples:
        raise DataError(f"the model was trained on {n_samples} samples, X has {X.shape[0]}; pass the training data.")
    if vectors is None:
        return
    if X.shape[1] != vectors.shape[1]:
        raise DataError(f"the model has {vectors.shape[1]} features, X has {X.shape[1]}; pass the training data.")
    if len(support) and np.abs(X[support] - vectors).max() > 0:
        raise DataError("X does not hold the model's support vectors; pass the training data, in the same order.")


def _warn_if_indefinite(gram: Gram) -> None:
    if not gram.kernel.is_psd:
        from softmargin.estimators._warnings import warn_if_indefinite  # it imports scikit-learn

        warn_if_indefinite(gram, stacklevel=4)
