"""What a linear model says of itself: its weights, and the problem they are meant to solve."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators._problems import HINGES
from softmargin.losses import LOSSES
from softmargin.models import LinearModel
from softmargin.models.shapes import dense

__all__ = ["Claim", "claim_of", "codes_of", "known_price", "with_constant"]

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


def claim_of(model: Any) -> Claim:
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


def with_constant(X: Any, value: float) -> Any:
    """Return [X, value]: a constant column, whose weight is then penalised like every other."""
    column = np.full((X.shape[0], 1), value, dtype=X.dtype)
    if isinstance(X, np.ndarray):
        return np.hstack([X, column])
    from scipy.sparse import hstack

    return hstack([X, column], format="csr")


def known_price(C: float | None, own: float | None) -> float:
    """Return C, or the model's own; refuse where neither is known."""
    price = own if C is None else C
    if price is None:
        raise DataError("the model does not say which C it was trained with; pass C=... (LIBLINEAR's -c).")
    return price


def codes_of(classes: Array, y: Any) -> Array:
    """Return the class code of every label; refuse labels the model does not know."""
    y = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    strange = classes[codes] != y
    if np.any(strange):
        label = y[strange][:1].tolist()[0]
        raise DataError(f"y holds the label {label!r}, which the model does not know; pass the data it was trained on.")
    return codes
