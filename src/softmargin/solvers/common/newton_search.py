"""Newton's method along a line, for functions whose slope and curvature cost no more than their value."""

import math
from typing import NamedTuple, Protocol

from softmargin.core.deadline import check_time

__all__ = ["Line", "NewtonSearch"]

ROUNDING = 1e-14  # share of F by which it may rise through rounding


class Valued(Protocol):
    """A state that knows the value of a function at its point."""

    value: float


class Line(Protocol):
    """A function along a step from the point of a state, as a search sees it."""

    @property
    def state(self) -> Valued:
        """The state, with the value at its point."""

    def evaluate(self, length: float) -> tuple[float, float, float]:
        """Return the value at a length, its slope and its curvature."""

    def accept(self, length: float, value: float) -> None:
        """Move to the last trial, at ``length``."""

    def reject(self) -> None:
        """Stay at the start."""


class NewtonSearch(NamedTuple):
    """Newton's method along a line, within a bracket of the minimum; a trial costs no product with X."""

    flat: float = 0.2  # share of the first slope at which the search ends; by hand
    max_growth: float = 10.0  # a trial is at most this many times as long as the one before; by hand
    max_trials: int = 40  # by hand: bisection has then reached 1e-12 of the bracket

    def minimise(self, line: Line, slope: float, first: float = 1.0, longest: float = math.inf) -> float:
        """Go along the line, from a first trial, and return the length of the step; ``slope`` < 0 is f'(0).

        The length is 0 where rounding hides every decrease, and at most ``longest``.
        """
        low, high, length = 0.0, math.inf, min(first if first < math.inf else 1.0, longest)
        highest = line.state.value + ROUNDING * abs(line.state.value)
        for _ in range(self.max_trials):
            check_time()
            value, rise, curvature = line.evaluate(length)
            is_end = abs(rise) <= -self.flat * slope or (rise < 0.0 and length == longest)
            if is_end and value <= highest:
                break
            if rise < 0.0 and value < math.inf:
                low = length
            else:
                high = length
            new = length - rise / curvature if curvature > 0.0 else math.inf
            if not low < new < high:
                new = 0.5 * (low + high) if high < math.inf else math.inf
            length = min(new, self.max_growth * length, longest)
        else:
            length = low
            value, _, _ = line.evaluate(length)
        if not value <= highest:
            line.reject()
            return 0.0
        line.accept(length, value)
        return length
