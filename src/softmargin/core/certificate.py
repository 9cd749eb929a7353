"""The certificate of a fit: a proof of how far it is from the optimum."""

import math
from typing import Literal, NamedTuple

__all__ = ["Certificate", "duality_gap"]

Kind = Literal["duality gap", "Frank-Wolfe gap", "sample gap", "stationarity"]


class Certificate(NamedTuple):
    """A proof of how far a point is from the optimum.

    Attributes
    ----------
    kind : str
        What was proven: a duality gap, a Frank-Wolfe gap, a gap on a sample, or stationarity.
    primal : float
        The objective at the point.
    bound : float
        A proven lower bound on the optimum; -inf where there is none.
    residual : float
        What is compared with ``tol``; for a gap, ``(primal - bound) / |primal|``.
    """

    kind: Kind
    primal: float
    bound: float
    residual: float

    @property
    def gap(self) -> float:
        """An upper bound on the distance of the objective to the optimum: primal - bound."""
        return self.primal - self.bound

    def meets(self, tol: float) -> bool:
        """Say whether the residual is within ``tol``; NaN never is."""
        return self.residual <= tol


def duality_gap(primal: float, bound: float) -> Certificate:
    """Make a certificate from a primal value and a dual bound."""
    gap = primal - bound
    if math.isnan(gap):
        residual = math.nan
    elif gap <= 0.0:  # rounding: the two values agree to the last digits
        residual = 0.0
    else:
        residual = gap / abs(primal) if primal != 0.0 else math.inf
    return Certificate("duality gap", float(primal), float(bound), float(residual))
