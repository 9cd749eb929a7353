"""Softmax models: from their settings to a price and a penalty, and what a model remembers of its penalty.

    settings                                       price C_i        penalty
    C, l1_ratio                                    C                l1_ratio |W|_1 + (1 - l1_ratio) / 2 |W|^2
    C = inf                                        1                none
    C, penalty=a penalty object                    C                the object, with its own numbers

The first two are scikit-learn's LogisticRegression.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from softmargin import penalties
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.parameters import Number, checked, shown

__all__ = ["convex_relative", "described", "priced_penalty", "read_penalty", "softmax_claim"]


def priced_penalty(C: Any, l1_ratio: Any, penalty: Any = None, *, default_ratio: float = 0.0) -> tuple[Any, Any]:
    """Return the price of one unit of loss, and the penalty; the price is checked where it is used."""
    ratio = checked("l1_ratio", l1_ratio, Number(least=0.0, most=1.0))
    is_free = isinstance(C, float | np.floating) and math.inf == C
    if penalty is not None:
        if ratio != default_ratio:
            raise IncompatibleError(
                f"penalty={shown(penalty)} and l1_ratio={ratio} were asked for; a penalty object has its own numbers. "
                "Leave out one of the two."
            )
        if is_free:
            raise IncompatibleError(
                f"C=inf means no penalty, but penalty={shown(penalty)} was asked for. Give a finite C, or leave out "
                "penalty."
            )
        return C, penalties.checked(penalty)
    if is_free:
        return 1.0, penalties.L2(0.0)
    return C, penalties.ElasticNet(l1=ratio, l2=1.0 - ratio)


def convex_relative(penalty: Any) -> Any:
    """Return the convex penalty of the same strength: l1, or the group norm of a grouped penalty; None if unknown."""
    inner = getattr(penalty, "inner", penalty)
    strength = getattr(inner, "strength", None)
    if strength is None:
        return None
    return penalties.L1(strength) if inner is penalty else penalties.Group(strength)


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
