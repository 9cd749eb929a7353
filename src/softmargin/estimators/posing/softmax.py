"""Softmax models: from their settings to a price and a penalty, and what a model remembers of its penalty.

    settings                                       price C_i        penalty
    C, l1_ratio                                    C                l1_ratio |W|_1 + (1 - l1_ratio) / 2 |W|^2
    C, penalty="l2" or "l1"                        C                the same with l1_ratio 0 or 1
    C = inf, or penalty=None                       1                none
    C, penalty=a penalty object                    C                the object, with its own numbers
    pinned=a label, and any of these               as there         the same of the other classes; that class has none

The first three are scikit-learn's LogisticRegression, the last is paper 003's.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin import penalties
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.parameters import Number, OneOf, checked, shown

__all__ = [
    "convex_relative",
    "described",
    "pinned_column",
    "priced_penalty",
    "ratios_to_try",
    "read_penalty",
    "softmax_claim",
    "without_ridge",
]

Array = NDArray[Any]
_ENDS = {"l2": 0.0, "l1": 1.0}
_WORDS = OneOf("elasticnet", *_ENDS)


def pinned_column(pinned: Any, classes: Array) -> int | None:
    """Return which class has no weights; None for none."""
    if pinned is None:
        return None
    labels = classes.tolist()
    if not isinstance(pinned, str | int | float | np.generic) or pinned not in labels:
        raise DataError(f"pinned={shown(pinned)} was asked for; it must be None or one of the labels {labels[:10]}.")
    return int(labels.index(pinned))


def priced_penalty(
    C: Any, l1_ratio: Any, penalty: Any = "elasticnet", *, default_ratio: float = 0.0, pinned: int | None = None
) -> tuple[Any, Any]:
    """Return the price of one unit of loss, and the penalty; the price is checked where it is used."""
    price, g = _of_all_classes(C, l1_ratio, penalty, default_ratio)
    return price, g if pinned is None else penalties.Pinned(g, float(pinned))


def _of_all_classes(C: Any, l1_ratio: Any, penalty: Any, default_ratio: float) -> tuple[Any, Any]:
    ratio = checked("l1_ratio", l1_ratio, Number(least=0.0, most=1.0))
    is_free = penalty is None or (isinstance(C, float | np.floating) and math.inf == C)
    is_named = isinstance(penalty, str)
    end = _ENDS.get(checked("penalty", penalty, _WORDS), ratio) if is_named else default_ratio
    if ratio not in (end, default_ratio):
        raise IncompatibleError(
            f"penalty={shown(penalty)} and l1_ratio={ratio} were asked for; l1_ratio is for penalty='elasticnet'. "
            "Leave out one of the two."
        )
    if is_named or penalty is None:
        return (1.0, penalties.L2(0.0)) if is_free else (C, penalties.ElasticNet(l1=end, l2=1.0 - end))
    if is_free:
        raise IncompatibleError(
            f"C=inf means no penalty, but penalty={shown(penalty)} was asked for. Give a finite C, or leave out "
            "penalty."
        )
    return C, penalties.checked(penalty)


def ratios_to_try(penalty: Any, l1_ratios: list[float]) -> list[float]:
    """Return which l1_ratios there are to choose from; a penalty object has its own numbers, which count as 0."""
    if penalty is None:
        raise IncompatibleError("penalty=None was asked for: without a penalty there is no C to choose. Leave it out.")
    return l1_ratios if penalty == "elasticnet" else [_ENDS.get(penalty, 0.0) if isinstance(penalty, str) else 0.0]


def convex_relative(penalty: Any) -> Any:
    """Return the convex penalty of the same strength: l1, or the group norm of a grouped penalty; None if unknown."""
    if isinstance(penalty, penalties.Pinned):
        base = convex_relative(penalty.base)
        return None if base is None else penalty._replace(base=base)
    inner = getattr(penalty, "inner", penalty)
    strength = getattr(inner, "strength", None)
    if strength is None:
        return None
    return penalties.L1(strength) if inner is penalty else penalties.Group(strength)


def without_ridge(penalty: Any) -> Any:
    """Return a penalty without its quadratic part."""
    if isinstance(penalty, penalties.Pinned):
        return penalty._replace(base=without_ridge(penalty.base))
    return penalty._replace(l2=0.0) if "l2" in penalty._fields else penalty


def softmax_claim(C: float, penalty: Any) -> dict[str, Any]:
    """Return what a model remembers of its problem: enough for ``certify`` to build it again."""
    return {"problem": "softmax", "C": float(C), "penalty": described(penalty)}


def described(penalty: Any) -> dict[str, Any]:
    """Return a penalty as its name and numbers, for a file."""
    own = {
        field: described(value) if hasattr(value, "_fields") else value
        for field, value in zip(penalty._fields, penalty, strict=True)
    }
    return {"name": type(penalty).__name__, **own}


def read_penalty(description: Any) -> Any:
    """Undo ``described``; refuse what is no penalty of ours."""
    kind = getattr(penalties, str(description.get("name")), None) if isinstance(description, Mapping) else None
    if not isinstance(kind, type):
        raise DataError(
            f"the model was trained with the penalty {description!r}, which is none of softmargin.penalties. "
            "Build the problem with softmax_problem and your penalty, and ask it for a certificate."
        )
    own = {
        field: read_penalty(value) if isinstance(value, Mapping) else value
        for field, value in description.items()
        if field != "name"
    }
    try:
        return penalties.checked(kind(**own))
    except TypeError as problem:
        raise DataError(f"the model's penalty {description!r} cannot be read: {problem}.") from problem
