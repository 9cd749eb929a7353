"""Linear SVMs: ours, scikit-learn's LinearSVC, LIBLINEAR's; any weights, measured by the problem they shall solve."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap, summed
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import Rounded
from softmargin.estimators.certify.one_vs_rest import BINARY_LOSSES, FEW_FEATURES, certify_one_vs_rest
from softmargin.estimators.certify.regression import sgd_ratio
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.svm import HINGES, SvmData, SvmSettings, linear_problem
from softmargin.losses import LOSSES
from softmargin.matrices.forms import with_constant
from softmargin.models import LinearModel, LinearOneVsOne
from softmargin.models.shapes import dense

__all__ = ["certify_linear", "certify_sgd", "read_weights"]

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
_SGD_LOSSES = {"hinge": "hinge", "squared_hinge": "squared_hinge", "log_loss": "logistic", "log": "logistic"}


def read_weights(model: Any, info: dict[str, Any]) -> LinearModel:
    """Return the weights of a fitted classifier with scikit-learn's attributes, and the problem they shall solve."""
    coef = np.atleast_2d(dense(model.coef_).astype(np.float64))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), (len(coef),))
    return LinearModel(model.classes_, coef, intercept, info)


def certify_sgd(model: Any, training: Training) -> Certificate:
    """Certify an SGDClassifier: one class against all others, with a free intercept."""
    if not hasattr(model, "coef_"):
        raise IncompatibleError("certify needs a fitted SGDClassifier; this one has no coef_. Fit it first.")
    if model.loss not in _SGD_LOSSES:
        raise IncompatibleError(
            f"this SGDClassifier has loss={model.loss!r}; gaps are proven for {', '.join(_SGD_LOSSES)}."
        )
    if training.C is not None:
        raise DataError(f"SGDClassifier has an alpha and no C, but C={training.C} was asked for; leave it out.")
    alpha = float(model.alpha)
    if not alpha > 0.0:
        raise IncompatibleError(
            f"this SGDClassifier has alpha={model.alpha}: without a penalty no bound can be proven."
        )
    info = {
        "multiclass": "one_vs_rest",
        "loss": _SGD_LOSSES[model.loss],
        "penalty": "elasticnet",
        "l1_ratio": sgd_ratio(model),
        "C": 1.0 / (training.X.shape[0] * alpha),
        "fit_intercept": "free" if model.fit_intercept else False,
        "class_weight": model.class_weight,
    }
    return summed([certify_linear(read_weights(model, info), training, None, None)], alpha)


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


def _asked(info: Mapping[str, Any], multiclass: str | None, loss: str | None) -> tuple[str, str, float]:
    """Return the problem to measure by: what the user asks for, or else what the model was trained for.

    That is the kind, the loss, and the share of the l1 norm in the penalty.
    """
    name, penalty = multiclass or info.get("multiclass"), info.get("penalty", "l2")
    if name in LOSSES:
        return str(name), loss or "hinge", 0.0
    charge = loss or info.get("loss")
    if name == "one_vs_one" and charge in HINGES:
        return name, str(charge), 0.0
    ratio = {"l2": 0.0, "l1": 1.0, "elasticnet": info.get("l1_ratio")}.get(penalty)
    if name == "one_vs_rest" and charge in BINARY_LOSSES and (multiclass or ratio is not None):
        return name, str(charge), 0.0 if multiclass or ratio is None else float(ratio)
    trained = f"{name} with {charge} loss and {penalty} penalty" if name else "an unknown problem"
    raise IncompatibleError(
        f"this model was trained as {trained}; certify proves gaps of {', '.join(LOSSES)}, one_vs_one and, with loss "
        f"{', '.join(BINARY_LOSSES)} and l2, l1 or elasticnet penalty, one_vs_rest. Pass multiclass=... to measure it "
        "by one of these."
    )


def certify_linear(model: Any, training: Training, multiclass: str | None, loss: str | None) -> Certificate:
    """Compare P at the weights with the bound that our own solver proves."""
    model = model if isinstance(model, LinearModel | LinearOneVsOne) else _read_svm(model)
    info, classes, X = model.info, model.classes, training.X
    name, charge, l1_ratio = _asked(info, multiclass, loss)
    if (name == "one_vs_one" and len(classes) > 2) != isinstance(model, LinearOneVsOne):
        raise IncompatibleError(
            f"this model has {len(model.intercept)} rows of weights for {len(classes)} classes, which "
            f"multiclass={name!r} does not measure: one-vs-one models have one for every pair, and others do not."
        )
    training.check_columns(model.n_features)
    codes = training.codes(classes)
    prices = _prices(model, training, codes, name)
    coef, intercept = dense(model.coef).astype(np.float64, copy=False), model.intercept
    fit_intercept = info.get("fit_intercept", bool(intercept.any()))
    scaling = float(info.get("intercept_scaling", 1.0))
    is_free_hinge = (name, charge, fit_intercept) == ("one_vs_rest", "hinge", "free")
    is_svm = charge in HINGES and l1_ratio == 0.0 and not (is_free_hinge and X.shape[1] <= FEW_FEATURES)
    if fit_intercept and fit_intercept != "free" and not _is_ours(info):
        fit_intercept = "penalized"
    if not is_svm and fit_intercept == "penalized":
        # These problems have a free intercept or none: the penalised one becomes the weight of a column.
        X = with_constant(X, scaling)
        coef = np.column_stack([coef, intercept / scaling])
        intercept, fit_intercept = np.zeros_like(intercept), False
    data = SvmData(X, codes, len(classes), prices, SvmSettings(name, charge, fit_intercept, scaling))
    if not is_svm:
        return certify_one_vs_rest(training, data, coef, intercept, l1_ratio)
    problem = linear_problem(data)
    bound = training.bound(problem)
    return duality_gap(problem.primal_at(coef, intercept), Rounded(bound))


def _is_ours(info: Mapping[str, Any]) -> bool:
    """Say whether softmargin trained the model.

    LIBLINEAR, and scikit-learn with it, always penalises the intercept, and in one-vs-rest of three or more classes
    multiplies C of the positive samples only.
    """
    return "problem" in info


def _prices(model: LinearModel | LinearOneVsOne, training: Training, codes: Array, multiclass: str) -> Array:
    """Return the prices the model was trained with: (n,), or (n, k) where they depend on the class."""
    C, class_weight = training.price(model.info.get("C")), model.info.get("class_weight")
    prices = training.prices(codes, model.classes, C, class_weight)
    has_weights = class_weight is not None or training.class_weight is not None
    if _is_ours(model.info) or multiclass != "one_vs_rest" or len(model.classes) == 2 or not has_weights:
        return prices
    others = loss_prices(codes, model.classes, C, None, training.sample_weight)
    is_own = codes[:, None] == np.arange(len(model.classes))
    return np.where(is_own, prices[:, None], others[:, None])
