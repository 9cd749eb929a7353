"""How far a linear model is from the optimum of its problem on Dask collections: the global certificate."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.distributed.rows import DaskRows, checked_rows
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.ball import make_ball
from softmargin.estimators.posing.fit import LARGEST_SQUARES
from softmargin.estimators.posing.softmax import read_penalty
from softmargin.estimators.posing.summed import ball_prices, ball_sum, class_prices, softmax_sum, svm_sum
from softmargin.estimators.posing.svm import SvmSettings
from softmargin.models import LinearModel, LinearRegressor
from softmargin.models.shapes import dense

__all__ = ["certify_rows"]


def certify_rows(model: Any, training: Training, here: Callable[[Training], Certificate]) -> Certificate:
    """Certify a linear model of softmargin; where its weights prove too little, by a run that starts at them.

    Rows that are lighter than the passes of a run are certified ``here``.
    """
    if not isinstance(model, LinearModel | LinearRegressor):
        raise IncompatibleError(
            f"on Dask collections linear models of softmargin are certified, not a {type(model).__name__}; pass "
            "X.compute() and y.compute() where they fit."
        )
    own, is_classifier = training.sample_weight, isinstance(model, LinearModel)
    rows = checked_rows(training.X, training.y, own, is_classifier=is_classifier, largest=LARGEST_SQUARES)
    if rows.n_features != model.n_features:
        raise DataError(f"the model has {model.n_features} features, X has {rows.n_features}; pass the training data.")
    problem = _problem(model, rows.with_labels(model.classes) if isinstance(model, LinearModel) else rows, training)
    if rows.are_light(problem.shape):
        X, y, weights = rows.gathered()
        return here(training._replace(X=X, y=y, sample_weight=weights))
    coef = dense(model.coef).astype(np.float64, copy=False)
    point = problem.warm_point(coef, np.atleast_1d(model.intercept))
    return training.settled(problem, point)


def _problem(model: Any, rows: DaskRows, training: Training) -> Any:
    """Pose the problem that a model remembers."""
    info, kind = model.info, str(model.info.get("problem"))
    weight = info.get("class_weight") if training.class_weight is None else training.class_weight
    fit_intercept = info.get("fit_intercept", True)
    if kind in ("l1 ball", "trace ball"):
        ball = make_ball(kind.removesuffix(" ball"), info["radius"], info.get("shape"))
        return ball_sum(rows, ball_prices(rows, weight), info["loss"], ball, float(info["l2"]), bool(fit_intercept))
    price = training.price(info.get("C"))
    if kind == "softmax":
        prices = class_prices(rows, 1.0 if price == math.inf else price, weight)
        return softmax_sum(rows, prices, read_penalty(info.get("penalty")), bool(fit_intercept))
    if kind not in ("multiclass_svm", "l2_svm"):
        raise IncompatibleError(f"models of the problem {kind!r} are not certified on Dask collections; compute() X.")
    scaling = float(info.get("intercept_scaling", 1.0))
    settings = SvmSettings(info["multiclass"], info["loss"], fit_intercept, scaling)
    return svm_sum(rows, class_prices(rows, price, weight), settings)
