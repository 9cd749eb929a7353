"""Models over a ball: our classifiers and regressors, saved or not."""

from typing import Any

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.ball import BALLS, ball_problem, class_target, number_target, shares
from softmargin.models import LinearModel, LinearRegressor
from softmargin.models.shapes import dense
from softmargin.sets import LowRank

__all__ = ["certify_ball", "is_of_ball"]


def is_of_ball(model: Any) -> bool:
    """Say whether a model was trained in a ball."""
    return isinstance(model, LinearModel | LinearRegressor) and model.info.get("problem") in _NORMS


_NORMS = {f"{norm} ball": norm for norm in BALLS}


def certify_ball(model: LinearModel | LinearRegressor, training: Training) -> Certificate:
    """Certify the weights of a model; the bound is the best one of a run that starts at them."""
    info = model.info
    training.check_columns(model.n_features)
    if isinstance(model, LinearRegressor):
        target = number_target(training.numbers(model.coef.shape[0]))
        parts = shares(len(target[0]), sample_weight=training.sample_weight)
    else:
        codes = training.codes(model.classes)
        weight = info.get("class_weight") if training.class_weight is None else training.class_weight
        target = class_target(info["loss"], codes, len(model.classes))
        parts = shares(len(codes), codes, model.classes, weight, training.sample_weight)
    if training.C is not None:
        raise DataError(f"a model over a ball has no C, but C={training.C} was asked for; leave it out.")
    settings = {name: info[name] for name in ("radius", "l2", "fit_intercept")}
    settings["shape"] = info.get("shape")
    problem = ball_problem(training.X, target, parts, norm=_NORMS[info["problem"]], **settings)
    coef = model.coef
    weights = LowRank(coef.V, coef.s, coef.U) if isinstance(coef, LowRank) else dense(coef).astype(np.float64).T
    return training.settled(problem, problem.point_of(weights, model.intercept))
