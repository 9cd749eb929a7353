"""How words of the command line become values; what is none is an error that says why."""

import argparse
import math

__all__ = ["class_weight", "count", "degree", "gamma", "not_negative", "number", "positive", "ratio", "share"]


def number(text: str) -> float:
    """Read a finite number."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not finite")
    return value


def positive(text: str) -> float:
    """Read a number above 0."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def not_negative(text: str) -> float:
    """Read a number from 0 on."""
    value = number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return value


def share(text: str) -> float:
    """Read a number from 0 on, below 1."""
    value = number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: 0 <= SHARE < 1")
    return value


def ratio(text: str) -> float:
    """Read a number from 0 to 1."""
    value = number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} does not lie between 0 and 1")
    return value


def count(text: str) -> int:
    """Read a whole number from 0 on."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return value


def class_weight(text: str) -> str | dict[str, float]:
    """Return "balanced", or weights by the label's text; `rows.class_weights` finds the labels."""
    if text == "balanced":
        return text
    if text == "none":
        return {}
    weights = {}
    for item in text.split(","):
        label, equals, weight = item.rpartition("=")
        if not (equals and label.strip()):
            raise argparse.ArgumentTypeError(f"{item!r} is not LABEL=WEIGHT; write balanced, none or 1=2.5,2=0.5")
        if label.strip() in weights:
            raise argparse.ArgumentTypeError(f"label {label.strip()!r} is given twice")
        weights[label.strip()] = not_negative(weight)
    return weights


def degree(text: str) -> int:
    """Read a whole number from 1 on."""
    value = count(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def gamma(text: str) -> str | float:
    """Read "scale", "auto" or a number above 0."""
    if text in ("scale", "auto"):
        return text
    try:
        return positive(text)
    except argparse.ArgumentTypeError as problem:
        raise argparse.ArgumentTypeError(f"{problem}; write scale, auto or a number above 0") from None
