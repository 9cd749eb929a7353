"""How words of the command line become values; what is none is an error that says why."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from softmargin.cli.choices import PENALTIES


def _checked(read: Callable[[str], Any], is_fine: Callable[[Any], bool], complaint: str) -> Callable[[str], Any]:
    """Return a reader that refuses some values of another."""

    def read_checked(text: str) -> Any:
        value = read(text)
        if not is_fine(value):
            raise ArgumentTypeError(f"{text!r} {complaint}")
        return value

    return read_checked


def _read(kind: type, noun: str) -> Callable[[str], Any]:
    def read_kind(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is no {noun}") from None

    return read_kind


number = _checked(_read(float, "number"), math.isfinite, "is not finite")
positive = _checked(number, lambda value: value > 0, "is not above 0")
not_negative = _checked(number, lambda value: value >= 0, "is below 0")
share = _checked(number, lambda value: 0 <= value < 1, "is no share: 0 <= SHARE < 1")
ratio = _checked(number, lambda value: 0 <= value <= 1, "does not lie between 0 and 1")
count = _checked(_read(int, "whole number"), lambda value: value >= 0, "is below 0")
degree = _checked(count, lambda value: value > 0, "is not above 0")
jobs = _checked(_read(int, "whole number"), lambda value: value != 0, "threads do nothing; -1 is all processors")
two_or_more = _checked(count, lambda value: value > 1, "is below 2")


def positives(text: str) -> list[float]:
    """Read numbers above 0, with commas between them."""
    return [float(positive(word)) for word in text.split(",")]


def names(text: str) -> tuple[str, ...]:
    """Read NAME,NAME."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


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
            raise ArgumentTypeError(f"{item!r} is not LABEL=WEIGHT; write balanced, none or 1=2.5,2=0.5")
        if label.strip() in weights:
            raise ArgumentTypeError(f"label {label.strip()!r} is given twice")
        weights[label.strip()] = not_negative(weight)
    return weights


def penalty(text: str) -> tuple[str, list[float]]:
    """Read NAME or NAME:NUMBER,NUMBER; a number may be infinite."""
    name, _, rest = text.partition(":")
    if name not in PENALTIES:
        raise ArgumentTypeError(f"{name!r} is no penalty; choose from {', '.join(PENALTIES)}")
    numbers = [_read(float, "number")(word) for word in rest.split(",")] if rest else []
    expected = PENALTIES[name].split(",")
    if len(numbers) > len(expected) or any(math.isnan(value) for value in numbers):
        raise ArgumentTypeError(f"{text!r} is not {name}:{PENALTIES[name]}, at most {len(expected)} numbers")
    return name, numbers


def gamma(text: str) -> str | float:
    """Read "scale", "auto" or a number above 0."""
    if text in ("scale", "auto"):
        return text
    try:
        return float(positive(text))
    except ArgumentTypeError as problem:
        raise ArgumentTypeError(f"{problem}; write scale, auto or a number above 0") from None


_SEARCHED = {"C": positive, "radius": positive, "gamma": gamma, "l1_ratio": ratio}


def search(text: str) -> tuple[str, list[Any] | None]:
    """Read NAME, NAME=VALUE,VALUE or NAME=LOW:HIGH:log: values to choose from, None for a grid of our own."""
    name, equals, rest = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in _SEARCHED:
        raise ArgumentTypeError(f"{name!r} cannot be searched; choose from {', '.join(_SEARCHED)}")
    if not equals:
        if name not in ("C", "radius"):
            raise ArgumentTypeError(f"{name} has no grid of our own; write {name}=VALUE,VALUE or {name}=LOW:HIGH:log")
        return name, None
    words = _spaced(rest) if ":" in rest else rest.split(",")
    return name, [_SEARCHED[name](word) for word in words]


def _spaced(text: str) -> list[str]:
    """Read LOW:HIGH:log, a value for each factor of about 10, or LOW:HIGH:linear, ten steps; or N values: ...:N."""
    low, high, *rest = text.split(":")
    kind, *given = rest or ["log"]
    first, last = number(low), number(high)
    if not (kind in ("log", "linear") and len(given) <= 1 and first < last and (first > 0 or kind == "linear")):
        raise ArgumentTypeError(f"{text!r} is not LOW:HIGH:log or LOW:HIGH:linear, LOW < HIGH, with LOW > 0 for log")
    steps = max(1, round(math.log10(last / first))) if kind == "log" else 10
    steps = two_or_more(given[0]) - 1 if given else steps
    shares = [step / steps for step in range(steps + 1)]
    if kind == "linear":
        return [f"{first + share * (last - first):.12g}" for share in shares]
    return [f"{first * (last / first) ** share:.12g}" for share in shares]
