"""Softmax models: ours, saved or not, and scikit-learn's LogisticRegression.

LogisticRegression with solver="liblinear" penalises the intercept, the weight of a constant feature; all others leave
it free.
"""

import math
from typing import Any

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.certify.linear import read_weights
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.softmax import priced_penalty, read_penalty, softmax_claim
from softmargin.matrices.forms import with_constant
from softmargin.matrices.origin import near_zero
from softmargin.models import LinearModel
from softmargin.models.shapes import dense
from softmargin.problems import softmax_problem

__all__ = ["certify_softmax", "softmax_model_of"]

_PEERS = ("LogisticRegression", "LogisticRegressionCV")
_RATIOS = {"l1": 1.0, "l2": 0.0}  # scikit-learn's penalty=, where it is used


def softmax_model_of(model: Any) -> LinearModel | None:
    """Return the model of a LogisticRegression, or one of ours that has probabilities; None for any other."""
    if isinstance(model, LinearModel):
        return model if model.has_log_odds else None
    is_peer = any(base.__name__ in _PEERS for base in type(model).__mro__)
    return _of_logistic_regression(model) if is_peer and hasattr(model, "coef_") else None


def _of_logistic_regression(model: Any) -> LinearModel:
    n_classes = len(model.classes_)
    kind = getattr(model, "multi_class", "auto")  # gone from scikit-learn, but models of older ones have it
    is_liblinear = model.solver == "liblinear"
    is_one_vs_rest = n_classes > 2 and (is_liblinear or kind == "ovr")
    if n_classes == 2 and kind == "multinomial":
        raise IncompatibleError(
            f"this {type(model).__name__} has multi_class='multinomial' and 2 classes: it does not minimise the "
            "softmax loss that scikit-learn's default does. Fit it without this setting."
        )
    # A search by cross-validation says what it chose, once or for every class.
    C = float(np.ravel(model.C_)[0]) if hasattr(model, "C_") else model.C
    chosen: Any = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", None))
    ratio = np.ravel(chosen)[0]
    name = getattr(model, "penalty", "deprecated")
    if name is None:
        C = math.inf
    ratio = _RATIOS.get(name, ratio)
    ratio = 0.0 if ratio is None else float(ratio)
    info = {"fit_intercept": model.fit_intercept, "class_weight": model.class_weight}
    if is_liblinear and model.fit_intercept:
        info["intercept_scaling"] = model.intercept_scaling
    if is_one_vs_rest:
        if len(np.unique(getattr(model, "C_", C))) > 1:
            raise IncompatibleError(
                f"this {type(model).__name__} chose another C for every class ({np.ravel(model.C_).tolist()[:5]}). "
                "Certify a LogisticRegression of each class against all others."
            )
        own = {"multiclass": "one_vs_rest", "loss": "logistic", "penalty": "elasticnet", "l1_ratio": ratio, "C": C}
        return read_weights(model, {**own, **info, **({} if is_liblinear else {"fit_intercept": "free"})})
    return read_weights(model, {**softmax_claim(C, priced_penalty(C, ratio)[1]), **info})


def certify_softmax(model: LinearModel, training: Training) -> Certificate:
    """Certify the weights of a model; the bound is the best one of a run that starts at them."""
    info, X = model.info, training.X
    penalty = read_penalty(info.get("penalty"))
    training.check_columns(model.n_features)
    codes = training.codes(model.classes)
    price = training.price(info.get("C"))
    # Without a penalty, only ratios of prices matter.
    prices = training.prices(codes, model.classes, 1.0 if price == math.inf else price, info.get("class_weight"))
    coef, intercept = dense(model.coef).astype(np.float64, copy=False), model.intercept
    fit_intercept = bool(info.get("fit_intercept", True))
    constant = info.get("intercept_scaling")
    if constant is not None:
        X = with_constant(X, constant)
        coef, intercept = np.column_stack([coef, intercept / constant]), np.zeros_like(intercept)
        fit_intercept = False
    X = near_zero(X, fit_intercept)
    problem = softmax_problem(
        X, codes, C=prices, penalty=penalty, n_classes=len(model.classes), fit_intercept=fit_intercept
    )
    return training.settled(problem, problem.model_point(coef, intercept))
