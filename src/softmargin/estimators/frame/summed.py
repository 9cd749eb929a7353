"""Estimators whose rows lie on a cluster or on a device: the problems of every kind, as sums over the rows."""

from typing import Any

import numpy as np

from softmargin.backends.arrays import to_numpy
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.frame.fit import Posed
from softmargin.estimators.posing.summed import Rows, ball_prices, ball_sum, class_prices, softmax_sum, svm_sum
from softmargin.models.shapes import dense

__all__ = ["pose_ball", "pose_softmax", "pose_svm"]


def _posed_weights(estimator: Any, problem: Any, more: dict[str, Any]) -> Posed:
    def attributes(point: Any) -> dict[str, Any]:
        coef, intercept = problem.coef_and_intercept(point)
        return {"coef_": coef, "intercept_": intercept, **more}

    def warm_point() -> Any:
        has_model = hasattr(estimator, "coef_")
        return (
            problem.warm_point(dense(to_numpy(estimator.coef_)), to_numpy(estimator.intercept_)) if has_model else None
        )

    return Posed(problem, attributes, warm_point)


def pose_svm(estimator: Any, rows: Rows) -> Posed:
    """Pose a ``LinearSVC``."""
    prices = class_prices(rows, estimator.C, estimator.class_weight)
    problem = svm_sum(rows, prices, estimator._settings())
    return _posed_weights(estimator, problem, {"_stream": None, "_has_pairs": False})


def pose_softmax(estimator: Any, rows: Rows, C: Any, penalty: Any) -> Posed:
    """Pose a ``SoftmaxRegression``."""
    if estimator.pinned is not None:
        raise IncompatibleError(
            "pinned= is not posed on a cluster or a device; leave it out, or pass X as a NumPy array."
        )
    prices = class_prices(rows, C, estimator.class_weight)
    problem = softmax_sum(rows, prices, penalty, bool(estimator.fit_intercept))
    return _posed_weights(estimator, problem, {"_stream": None})


def pose_ball(estimator: Any, rows: Rows, loss: str) -> Posed:
    """Pose a classifier or a regressor over a ball."""
    prices = ball_prices(rows, getattr(estimator, "class_weight", None))
    ball = estimator._ball(estimator.radius)
    problem = ball_sum(rows, prices, loss, ball, float(estimator.l2), bool(estimator.fit_intercept))
    has_classes = bool(len(rows.labels))
    is_flat = not (has_classes or rows.n_outputs)

    def attributes(point: Any) -> dict[str, Any]:
        coef, intercept = problem.coef_and_intercept(point)
        return {
            **estimator._stored(estimator._kept(coef.T), is_flat),
            "intercept_": float(intercept[0]) if is_flat else intercept,
            "is_on_boundary_": not problem.is_inactive(point),
            "_is_flat": is_flat,
            "_is_multilabel": has_classes and rows.n_outputs > 0,
        }

    def warm_point() -> Any:
        if not hasattr(estimator, "is_on_boundary_"):
            return None
        coef, intercept = dense(estimator._coef()), to_numpy(estimator.intercept_)
        return problem.warm_point(coef, np.atleast_1d(intercept))

    return Posed(problem, attributes, warm_point)
