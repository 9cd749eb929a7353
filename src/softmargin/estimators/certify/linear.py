"""Linear SVMs: ours, scikit-learn's LinearSVC, LIBLINEAR's; any weights, measured by the problem they shall solve."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.rounding import Rounded
from softmargin.estimators.certify.training import Training, with_constant
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.svm import HINGES, SvmData, SvmSettings, linear_problem
from softmargin.losses import LOSSES
from softmargin.models import LinearModel
from softmargin.models.shapes import dense

__all__ = ["certify_linear", "read_weights"]

Array = NDArray[Any]
_SETTINGS = (
    "loss",
    "penalty",
    "C",
    "fit_intercept",
    "intercept_scaling",
    "class_weight",
)
_SHORT = {"ovr": "one_vs_rest"}  # scikit-learn's LinearSVC says "ovr"


def read_weights(model: Any, info: dict[str, Any]) -> LinearModel:
    """Return the weights of a fitted classifier with scikit-learn's attributes, and the problem they shall solve."""
    coef = np.atleast_2d(dense(model.coef_).astype(np.float64))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), (len(coef),))
    return LinearModel(model.classes_, coef, intercept, info)


def _read_svm(model: Any) -> LinearModel:
    missing = [name for name in ("coef_", "intercept_", "classes_") if not hasattr(model, name)]
    if missing:
        raise IncompatibleError(
            f"certify needs a fitted linear classifier, KernelSVC or SVC as model; {type(model).__name__} has no "
            f"{', '.join(missing)}. Fit it first, or pass a LinearModel (read_liblinear makes one of a LIBLINEAR file)."
        )
    info = {name: getattr(model, name) for name in _SETTINGS if hasattr(model, name)}
    multiclass = getattr(model, "multi_class", None)
    return read_weights(model, {**info, "multiclass": _SHORT.get(str(multiclass), multiclass)})


def _asked(info: Mapping[str, Any], multiclass: str | None, loss: str | None) -> tuple[str, str]:
    """Return the problem to measure by: what the user asks for, or else what the model was trained for."""
    name, penalty = multiclass or info.get("multiclass"), info.get("penalty", "l2")
    if name in LOSSES:
        return str(name), loss or "hinge"
    charge = loss or info.get("loss")
    if name == "one_vs_rest" and charge in HINGES and (multiclass or penalty == "l2"):
        return name, str(charge)
    trained = f"{name} with {charge} loss and {penalty} penalty" if name else "an unknown problem"
    raise IncompatibleError(
        f"this model was trained as {trained}; certify proves gaps of {', '.join(LOSSES)} and, with loss "
        f"{' or '.join(HINGES)} and l2 penalty, one_vs_rest. Pass multiclass=... to measure it by one of these."
    )


def certify_linear(model: Any, training: Training, multiclass: str | None, loss: str | None) -> Certificate:
    """Compare P at the weights with the bound that our own solver proves."""
    model = model if isinstance(model, LinearModel) else _read_svm(model)
    info, classes, X = model.info, model.classes, training.X
    name, charge = _asked(info, multiclass, loss)
    codes = training.codes(classes, model.n_features)
    prices = _prices(model, training, codes, name)
    coef, intercept = dense(model.coef).astype(np.float64, copy=False), model.intercept
    fit_intercept = info.get("fit_intercept", bool(intercept.any()))
    scaling = float(info.get("intercept_scaling", 1.0))
    if charge == "squared_hinge" and fit_intercept and not _is_ours(info):
        # An L2SVM has a free bias or none: the penalised one becomes the weight of a column.
        X = with_constant(X, scaling)
        coef = np.column_stack([coef, intercept / scaling])
        intercept, fit_intercept = np.zeros_like(intercept), False
    settings = SvmSettings(name, charge, fit_intercept, scaling)
    problem = linear_problem(SvmData(X, codes, len(classes), prices, settings))
    bound = training.bound(problem)
    return duality_gap(problem.primal_at(coef, intercept), Rounded(bound))


def _is_ours(info: Mapping[str, Any]) -> bool:
    """Say whether softmargin trained the model.

    LIBLINEAR, and scikit-learn with it, always penalises the intercept, and in one-vs-rest of three or more classes
    multiplies C of the positive samples only.
    """
    return "problem" in info


def _prices(model: LinearModel, training: Training, codes: Array, multiclass: str) -> Array:
    """Return the prices the model was trained with: (n,), or (n, k) where they depend on the class."""
    C, class_weight = training.price(model.info.get("C")), model.info.get("class_weight")
    prices = training.prices(codes, model.classes, C, class_weight)
    has_weights = class_weight is not None or training.class_weight is not None
    if _is_ours(model.info) or multiclass != "one_vs_rest" or len(model.classes) == 2 or not has_weights:
        return prices
    others = loss_prices(codes, model.classes, C, None, training.sample_weight)
    is_own = codes[:, None] == np.arange(len(model.classes))
    return np.where(is_own, prices[:, None], others[:, None])
