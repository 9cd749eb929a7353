"""Softmax models: ours, saved or not, and scikit-learn's LogisticRegression.

LogisticRegression with solver="liblinear" penalises the intercept, the weight of a constant feature; all others leave
it free.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.certify.training import Training, with_constant
from softmargin.estimators.posing.softmax import priced_penalty, read_penalty
from softmargin.models import LinearModel
from softmargin.models.shapes import dense
from softmargin.problems import CompositePoint, softmax_problem

__all__ = ["SoftmaxClaim", "certify_softmax", "softmax_claim_of"]

Array = NDArray[Any]
_PEERS = ("LogisticRegression", "LogisticRegressionCV")
_RATIOS = {"l1": 1.0, "l2": 0.0}  # scikit-learn's penalty=, where it is used


class SoftmaxClaim(NamedTuple):
    """Weights, and the problem they are meant to solve."""

    classes: Array
    coef: Array  # (k, d), or (1, d) for two classes
    intercept: Array  # (k,) or (1,)
    C: float | None
    penalty: Any
    fit_intercept: bool
    class_weight: Any
    constant: float | None  # value of the constant feature that carries a penalised intercept; None where it is free


def softmax_claim_of(model: Any) -> SoftmaxClaim | None:
    """Read a softmax model; None for any other."""
    if isinstance(model, LinearModel):
        return _of_linear_model(model) if model.has_probabilities else None
    is_peer = any(base.__name__ in _PEERS for base in type(model).__mro__)
    return _of_logistic_regression(model) if is_peer and hasattr(model, "coef_") else None


def _of_linear_model(model: LinearModel) -> SoftmaxClaim:
    info = model.info
    return SoftmaxClaim(
        model.classes,
        dense(model.coef).astype(np.float64, copy=False),
        model.intercept,
        info.get("C"),
        read_penalty(info.get("penalty")),
        bool(info.get("fit_intercept", True)),
        info.get("class_weight"),
        None,
    )


def _of_logistic_regression(model: Any) -> SoftmaxClaim:
    coef = np.atleast_2d(dense(model.coef_).astype(np.float64))
    kind = getattr(model, "multi_class", "auto")  # gone from scikit-learn, but models of older ones have it
    is_liblinear = model.solver == "liblinear"
    is_one_vs_rest = len(coef) > 1 and (is_liblinear or kind == "ovr")
    if is_one_vs_rest or (len(coef) == 1 and kind == "multinomial"):
        raise IncompatibleError(
            f"this {type(model).__name__} has solver={model.solver!r}, multi_class={kind!r} and "
            f"{len(model.classes_)} classes: it does not minimise the softmax loss that scikit-learn's default does. "
            "Fit it without these settings, or pass multiclass='one_vs_rest' to measure it as an SVM."
        )
    # A search by cross-validation says what it chose, once or for every class.
    C = float(np.ravel(model.C_)[0]) if hasattr(model, "C_") else model.C
    chosen: Any = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", None))
    ratio = np.ravel(chosen)[0]
    name = getattr(model, "penalty", "deprecated")
    if name is None:
        C = math.inf
    ratio = _RATIOS.get(name, ratio)
    _, penalty = priced_penalty(C, 0.0 if ratio is None else float(ratio))
    has_constant = is_liblinear and model.fit_intercept
    return SoftmaxClaim(
        np.asarray(model.classes_),
        coef,
        np.broadcast_to(np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)), (len(coef),)),
        C,
        penalty,
        bool(model.fit_intercept),
        model.class_weight,
        float(model.intercept_scaling) if has_constant else None,
    )


def certify_softmax(claim: SoftmaxClaim, training: Training) -> Certificate:
    """Certify the weights of a claim; the bound is the best one of a run that starts at them."""
    codes, X = training.codes(claim.classes, claim.coef.shape[1]), training.X
    price = training.price(claim.C)
    # Without a penalty, only ratios of prices matter.
    prices = training.prices(codes, claim.classes, 1.0 if price == math.inf else price, claim.class_weight)
    point = CompositePoint(claim.coef.T, claim.intercept)
    fit_intercept = claim.fit_intercept
    if claim.constant is not None:
        X = with_constant(X, claim.constant)
        point = CompositePoint(np.vstack([claim.coef.T, claim.intercept / claim.constant]), np.zeros(len(claim.coef)))
        fit_intercept = False
    problem = softmax_problem(
        X, codes, C=prices, penalty=claim.penalty, n_classes=len(claim.classes), fit_intercept=fit_intercept
    )
    own = problem.certificate(point)
    if own.kind == "stationarity":
        return own
    start = point if own.primal <= problem.primal(problem.zero()) else None
    return duality_gap(own.primal, max(own.bound, training.bound(problem, start)))
