"""scikit-learn's penalised least squares: Lasso, ElasticNet, their forms for several tasks, Ridge, SGDRegressor.

    Lasso, ElasticNet, LassoLars    1/(2n) |y - s|^2 + alpha (r |W|_1 + (1 - r) / 2 |W|^2)         r = l1_ratio
    MultiTaskLasso, ...ElasticNet   1/(2n) |Y - S|^2 + alpha (r sum_j |W_j|_2 + (1 - r) / 2 |W|^2)
    Ridge, RidgeClassifier          |y - s|^2 + alpha |W|^2                    targets of a classifier are -1 and +1
    SGDRegressor                    1/(2n) |y - s|^2 + alpha g(W)              g as in SGDClassifier

The form ...CV of each has the alpha_ and l1_ratio_ that it chose. Maths: penalised losses, section 1.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, summed
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.parameters import as_numbers
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.ball import class_target, shares
from softmargin.estimators.posing.fit import loss_prices
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.matrices.origin import near_zero
from softmargin.models.shapes import dense
from softmargin.penalties import ElasticNet, Nonnegative, SparseGroup
from softmargin.problems import Penalized

__all__ = ["REGRESSORS", "certify_regression", "sgd_ratio"]

Array = NDArray[Any]


def certify_regression(model: Any, training: Training) -> Certificate:
    """Certify the weights of a fitted regressor, target by target where each has its own alpha."""
    kind = type(model).__name__
    if not hasattr(model, "coef_"):
        raise IncompatibleError(f"certify needs a fitted {kind}; this one has no coef_. Fit it first.")
    if training.C is not None:
        raise DataError(f"{kind} has an alpha and no C, but C={training.C} was asked for; leave it out.")
    coef = np.atleast_2d(dense(model.coef_).astype(np.float64))
    training.check_columns(coef.shape[1])
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), (len(coef),))
    target, weights = _classes(model, training) if hasattr(model, "classes_") else _numbers(model, training, len(coef))
    alpha = np.ravel(as_numbers(_chosen(model, "alpha")))
    whole = slice(0, len(coef))
    columns = [whole] if len(alpha) == 1 else [slice(c, c + 1) for c in range(len(coef))]
    certificates, X = [], near_zero(training.X, model.fit_intercept)
    for strength, own in zip(alpha.tolist(), columns, strict=True):
        problem = Penalized(
            X,
            target[:, own],
            loss=ENTRYWISE["squared"],
            penalty=_penalty(model, strength),
            weights=weights,
            fit_intercept=bool(model.fit_intercept),
        )
        point = problem.point_of(np.ascontiguousarray(coef[own].T), intercept[own])
        certificates.append(training.among(len(columns)).settled(problem, point))
    return certificates[0] if len(certificates) == 1 else summed(certificates, 1.0)


def _chosen(model: Any, name: str) -> Any:
    """Return a setting, or what cross-validation chose for it."""
    return getattr(model, f"{name}_", getattr(model, name, None))


def _numbers(model: Any, training: Training, n_targets: int) -> tuple[Array, Array]:
    """Return targets (n, k) and the weights of samples."""
    target, weight = training.numbers(n_targets), training.sample_weight
    n = len(target)
    if _name(model) in _RIDGES:
        return target, 2.0 * shares(n, sample_weight=weight) * (n if weight is None else np.sum(weight))
    parts = shares(n, sample_weight=weight)
    return target, parts * (np.sum(weight) / n) if _name(model) in _SGD and weight is not None else parts


def _classes(model: Any, training: Training) -> tuple[Array, Array]:
    codes, own = training.codes(model.classes_), training.class_weight
    weight = model.class_weight if own is None else own
    target, _ = class_target("squared", codes, len(model.classes_))
    return target, 2.0 * loss_prices(codes, model.classes_, 1.0, weight, training.sample_weight)


def _name(model: Any) -> str:
    """Return the name of the first of its classes that is in the table."""
    return next(base.__name__ for base in type(model).__mro__ if base.__name__ in REGRESSORS)


def _penalty(model: Any, alpha: float) -> Any:
    return REGRESSORS[_name(model)](model, alpha)


def _of_lasso(model: Any, alpha: float) -> Any:
    ratio = _chosen(model, "l1_ratio")
    l1, l2 = (alpha, 0.0) if ratio is None else (alpha * ratio, alpha * (1.0 - ratio))
    return Nonnegative(l1=l1, l2=l2) if getattr(model, "positive", False) else ElasticNet(l1=l1, l2=l2)


def _of_tasks(model: Any, alpha: float) -> Any:
    ratio = _chosen(model, "l1_ratio")
    return SparseGroup(group=alpha if ratio is None else alpha * ratio, l1=0.0, l2=alpha * (1.0 - (ratio or 1.0)))


def _of_ridge(model: Any, alpha: float) -> Any:
    return Nonnegative(l2=2.0 * alpha) if getattr(model, "positive", False) else ElasticNet(l1=0.0, l2=2.0 * alpha)


def _of_sgd(model: Any, alpha: float) -> Any:
    if model.loss != "squared_error":
        raise IncompatibleError(
            f"this SGDRegressor has loss={model.loss!r}; gaps of regressors are proven for 'squared_error' only."
        )
    ratio = sgd_ratio(model)
    return ElasticNet(l1=alpha * ratio, l2=alpha * (1.0 - ratio))


def sgd_ratio(model: Any) -> float:
    """Return the share of the l1 norm in the penalty of a model by stochastic gradients."""
    if model.penalty is None:
        raise IncompatibleError(
            f"this {type(model).__name__} has penalty=None: without a penalty no bound can be proven. Fit it with one."
        )
    return float({"l1": 1.0, "l2": 0.0}.get(model.penalty, model.l1_ratio))


_RIDGES: dict[str, Callable[[Any, float], Any]] = {"Ridge": _of_ridge, "RidgeCV": _of_ridge}
_SGD: dict[str, Callable[[Any, float], Any]] = {"SGDRegressor": _of_sgd}
REGRESSORS: dict[str, Callable[[Any, float], Any]] = {
    **dict.fromkeys(("Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "LassoLars", "LassoLarsCV"), _of_lasso),
    **dict.fromkeys(("MultiTaskLasso", "MultiTaskLassoCV", "MultiTaskElasticNet", "MultiTaskElasticNetCV"), _of_tasks),
    **_RIDGES,
    **dict.fromkeys(("RidgeClassifier", "RidgeClassifierCV"), _of_ridge),
    **_SGD,
}
