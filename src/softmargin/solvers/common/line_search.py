"""The minimum of a smooth convex function along a line, and how far to trust the direction that led there.

    f(t) for t >= 0, with f'(0) < 0:   t <- t - f'(t) / f''(t), within a bracket of the minimum

The search suits functions of linear scores: a trial costs no product with X, so it goes on until the slope has fallen
to a share of the first one. A Newton direction that gets only a short step came from a Hessian that is nearly singular
at the point: then ``Damping`` adds a share of its largest possible diagonal, until steps are long again.

Source: Newton's method safeguarded by bisection, a textbook method.
"""

import math
from typing import NamedTuple, Protocol

__all__ = ["Damping", "NewtonSearch", "SearchLine"]

ROUNDING = 1e-14  # share of f by which it may rise through rounding


class SearchLine(Protocol):
    """What a search may ask of f along a line, and where it says how the search ended."""

    @property
    def start(self) -> float:
        """The value f(0)."""
        ...

    def evaluate(self, length: float) -> tuple[float, float, float]:
        """Return f, f' and f'' at ``length``."""
        ...

    def accept(self, length: float, value: float) -> None:
        """Move to the last trial, at ``length``."""
        ...

    def reject(self) -> None:
        """Stay at the start."""
        ...


class NewtonSearch(NamedTuple):
    """Newton's method in one dimension, within a bracket."""

    flat: float = 0.2  # share of the first slope at which the search ends; by hand
    max_growth: float = 10.0  # a trial is at most this many times as long as the one before; by hand
    max_trials: int = 40  # by hand: bisection has then reached 1e-12 of the bracket

    def minimise(self, line: SearchLine, slope: float, first: float = 1.0) -> float:
        """Go along the line, from a first trial, and return the length of the step; ``slope`` < 0 is f'(0).

        The length is 0 where rounding hides every decrease.
        """
        low, high, length = 0.0, math.inf, first if first < math.inf else 1.0
        start = line.start
        highest = start + ROUNDING * abs(start)
        for _ in range(self.max_trials):
            value, rise, curvature = line.evaluate(length)
            if abs(rise) <= -self.flat * slope and value <= highest:
                break
            if rise < 0.0 and value < math.inf:
                low = length
            else:
                high = length
            new = length - rise / curvature if curvature > 0.0 else math.inf
            if not low < new < high:
                new = 0.5 * (low + high) if high < math.inf else math.inf
            length = min(new, self.max_growth * length)
        else:
            length = low
            value, _, _ = line.evaluate(length)
        if not value <= highest:
            line.reject()
            return 0.0
        line.accept(length, value)
        return length


class Damping(NamedTuple):
    """A share of the largest possible diagonal, added to a Hessian whose directions are too long."""

    least: float = 1e-4  # the first share; by hand
    factor: float = 10.0  # between one share and the next; by hand
    short: float = 0.03  # a step below this share of its predicted length asks for more damping; by hand

    def after(self, damping: float, length: float, predicted: float = 1.0) -> float:
        """Return the next damping: less after a step of about the predicted length, else more, at most 1."""
        if length >= self.short * predicted:
            return damping / self.factor if damping > self.least else 0.0
        return min(max(self.least, self.factor * damping), 1.0)
