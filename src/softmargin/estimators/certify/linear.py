"""Linear SVMs: ours, scikit-learn's LinearSVC, LIBLINEAR's; any weights, measured by the problem they shall solve."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.certify.training import Training, with_constant
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.svm import HINGES, SvmSettings, linear_problem
from softmargin.losses import LOSSES
from softmargin.models import LinearModel
from softmargin.models.shapes import dense

__all__ = ["certify_linear"]

Array = NDArray[Any]
_SHORT = {"ovr": "one_vs_rest"}  # scikit-learn's LinearSVC says "ovr"


class Claim(NamedTuple):
    """Weights, and the problem they are meant to solve."""

    classes: Array
    coef: Array  # (k, d), or (1, d) for two classes
    intercept: Array  # (k,) or (1,)
    multiclass: str | None
    loss: str | None
    penalty: str
    C: float | None
    fit_intercept: bool
    intercept_scaling: float
    class_weight: Any
    # LIBLINEAR, and scikit-learn with it, always penalises the intercept, and in one-vs-rest of three or more classes
    # multiplies C of the positive samples only.
    is_ours: bool

    def asked(self, multiclass: str | None, loss: str | None) -> tuple[str, str]:
        """Return the problem to measure by: what the user asks for, or else what the model was trained for."""
        name = multiclass or self.multiclass
        if name in LOSSES:
            return str(name), loss or "hinge"
        charge = loss or self.loss
        if name == "one_vs_rest" and charge in HINGES and (multiclass or self.penalty == "l2"):
            return name, str(charge)
        trained = f"{name} with {charge} loss and {self.penalty} penalty" if name else "an unknown problem"
        raise IncompatibleError(
            f"this model was trained as {trained}; certify proves gaps of {', '.join(LOSSES)} and, with loss "
            f"{' or '.join(HINGES)} and l2 penalty, one_vs_rest. Pass multiclass=... to measure it by one of these."
        )


def _claim_of(model: Any) -> Claim:
    """Read a LinearModel, or a fitted classifier with scikit-learn's attributes."""
    if isinstance(model, LinearModel):
        return _of_linear_model(model)
    missing = [name for name in ("coef_", "intercept_", "classes_") if not hasattr(model, name)]
    if missing:
        raise IncompatibleError(
            f"certify needs a fitted linear classifier, KernelSVC or SVC; {type(model).__name__} has no "
            f"{', '.join(missing)}. Fit it first, or pass a LinearModel (read_liblinear makes one of a LIBLINEAR file)."
        )
    multiclass = getattr(model, "multi_class", None)
    coef = np.atleast_2d(dense(model.coef_).astype(np.float64))
    intercept = np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
    return Claim(
        np.asarray(model.classes_),
        coef,
        np.broadcast_to(intercept, (len(coef),)),
        _SHORT.get(str(multiclass), multiclass),
        getattr(model, "loss", None),
        getattr(model, "penalty", "l2"),
        getattr(model, "C", None),
        bool(getattr(model, "fit_intercept", np.any(intercept))),
        float(getattr(model, "intercept_scaling", 1.0)),
        getattr(model, "class_weight", None),
        is_ours=False,
    )


def _of_linear_model(model: LinearModel) -> Claim:
    info = model.info
    return Claim(
        model.classes,
        dense(model.coef).astype(np.float64, copy=False),
        model.intercept,
        info.get("multiclass"),
        info.get("loss"),
        info.get("penalty", "l2"),
        info.get("C"),
        bool(info.get("fit_intercept", np.any(model.intercept))),
        float(info.get("intercept_scaling", 1.0)),
        info.get("class_weight"),
        is_ours="problem" in info,
    )


def certify_linear(model: Any, training: Training, multiclass: str | None, loss: str | None) -> Certificate:
    """Compare P at the weights with the bound that our own solver proves."""
    claim = _claim_of(model)
    name, charge = claim.asked(multiclass, loss)
    X, n_classes = training.X, len(claim.classes)
    codes = training.codes(claim.classes, claim.coef.shape[1])
    prices = _prices(claim, training, codes, name)
    coef, intercept, fit_intercept = claim.coef, claim.intercept, claim.fit_intercept
    if charge == "squared_hinge" and fit_intercept and not claim.is_ours:
        # An L2SVM has a free bias or none: the penalised one becomes the weight of a column.
        X = with_constant(X, claim.intercept_scaling)
        coef = np.column_stack([coef, intercept / claim.intercept_scaling])
        intercept, fit_intercept = np.zeros_like(intercept), False
    settings = SvmSettings(name, charge, fit_intercept, claim.intercept_scaling)
    problem = linear_problem(X, codes, n_classes, prices, settings)
    bound = training.bound(problem)
    return duality_gap(problem.primal_at(coef, intercept), bound)


def _prices(claim: Claim, training: Training, codes: Array, multiclass: str) -> Array:
    """Return the prices the model was trained with: (n,), or (n, k) where they depend on the class."""
    C = training.price(claim.C)
    prices = training.prices(codes, claim.classes, C, claim.class_weight)
    has_weights = claim.class_weight is not None or training.class_weight is not None
    if claim.is_ours or multiclass != "one_vs_rest" or len(claim.classes) == 2 or not has_weights:
        return prices
    others = loss_prices(codes, claim.classes, C, None, training.sample_weight)
    is_own = codes[:, None] == np.arange(len(claim.classes))
    return np.where(is_own, prices[:, None], others[:, None])
