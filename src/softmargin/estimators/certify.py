"""How far from optimal is this model? Ours, scikit-learn's, LIBLINEAR's: anybody's linear weights.

The primal value P(W) is a property of the weights alone. The bound is ours: the dual value of a point our solver finds
on the same data. P(W) - bound is then proven, whoever trained W.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators._fit import fit_linear_svm, joint_weights, linear_problem, loss_prices
from softmargin.losses import LOSSES
from softmargin.matrices.operator import canonical
from softmargin.models import LinearModel
from softmargin.run import Stop

__all__ = ["certify"]

Array = NDArray[Any]


class _Claim(NamedTuple):
    """What a model says of itself: weights, and the problem they are meant to solve."""

    classes: Array
    coef: Array
    intercept: Array
    multiclass: str | None
    C: float | None
    fit_intercept: bool
    intercept_scaling: float
    class_weight: Any


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    C: float | None = None,
    multiclass: str | None = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    bound_tol: float = 1e-5,
    max_seconds: float = math.inf,
    watchers: Any = (),
) -> Certificate:
    """Say how far a linear multiclass model is from the optimum of its own training problem.

    Parameters
    ----------
    model : LinearModel, fitted LinearSVC of softmargin, or fitted scikit-learn LinearSVC(multi_class="crammer_singer")
        ``softmargin.models.read_liblinear`` makes a LinearModel of a LIBLINEAR file.
    X, y
        The data it was trained on.
    C, multiclass, class_weight
        The problem, where the model does not say (a LIBLINEAR file does not hold C), or to ask about another one.
    sample_weight : array, optional
        The weights it was trained with.
    bound_tol : float, default=1e-5
        How tight our own bound shall be (relative gap of the point that proves it).
    max_seconds : float
        Budget for the bound; a looser bound is still a proof.

    Returns
    -------
    Certificate
        primal = P(model), bound <= optimum, residual = (primal - bound) / primal.
    """
    claim = _claim(model)
    name = multiclass or claim.multiclass
    price = C if C is not None else claim.C
    if name not in LOSSES:
        raise IncompatibleError(
            f"this model was trained as {name or 'an unknown problem'}; certify proves gaps of {' and '.join(LOSSES)}. "
            "Pass multiclass=... to measure it by one of these."
        )
    if price is None:
        raise DataError("the model does not say which C it was trained with; pass C=... (LIBLINEAR's -c).")
    y = np.asarray(y)
    X = canonical(X if hasattr(X, "tocsr") else np.asarray(X))
    if X.shape[1] != claim.coef.shape[1]:
        raise DataError(f"the model has {claim.coef.shape[1]} features, X has {X.shape[1]}; pass the training data.")
    codes = np.searchsorted(claim.classes, y)
    codes = np.minimum(codes, len(claim.classes) - 1)
    strange = claim.classes[codes] != y
    if np.any(strange):
        label = y[strange][:1].tolist()[0]
        raise DataError(f"y holds the label {label!r}, which the model does not know; pass the data it was trained on.")
    weight = claim.class_weight if class_weight is None else class_weight
    problem = linear_problem(
        X,
        codes,
        len(claim.classes),
        loss_prices(codes, claim.classes, price, weight, sample_weight),
        multiclass=name,
        fit_intercept=claim.fit_intercept,
        intercept_scaling=claim.intercept_scaling,
    )
    primal = problem.primal(joint_weights(claim.coef, claim.intercept, problem.bias))
    result = fit_linear_svm(problem, stop=Stop(bound_tol, max_seconds=max_seconds), seed=0, watchers=watchers)
    return duality_gap(primal, max(row.certificate.bound for row in result.trace))


def _claim(model: Any) -> _Claim:
    if isinstance(model, LinearModel):
        info = model.info
        fit_intercept = bool(info.get("fit_intercept", np.any(model.intercept)))
        return _Claim(
            model.classes,
            model.coef,
            model.intercept,
            info.get("multiclass"),
            info.get("C"),
            fit_intercept,
            float(info.get("intercept_scaling", 1.0)),
            info.get("class_weight"),
        )
    missing = [name for name in ("coef_", "intercept_", "classes_") if not hasattr(model, name)]
    if missing:
        raise IncompatibleError(
            f"certify needs a fitted linear classifier; {type(model).__name__} has no {', '.join(missing)}. "
            "Fit it first, or pass a LinearModel (read_liblinear makes one of a LIBLINEAR file)."
        )
    if getattr(model, "loss", "hinge") != "hinge" and getattr(model, "multi_class", None) != "crammer_singer":
        multiclass = None
    else:
        multiclass = getattr(model, "multiclass", getattr(model, "multi_class", None))
    intercept = np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
    coef = np.atleast_2d(model.coef_)
    return _Claim(
        np.asarray(model.classes_),
        coef,
        np.broadcast_to(intercept, (len(coef),)),
        multiclass,
        getattr(model, "C", None),
        bool(getattr(model, "fit_intercept", np.any(intercept))),
        float(getattr(model, "intercept_scaling", 1.0)),
        getattr(model, "class_weight", None),
    )
