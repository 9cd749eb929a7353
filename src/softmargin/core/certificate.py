"""The certificate of a fit: a proof of how far it is from the optimum."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from softmargin.core.rounding import Rounded, total

__all__ = ["Certificate", "duality_gap", "relative_gap", "summed"]

LEAST = 2.0**-1022  # an objective below the least normal number counts as that: what underflows is no gap
Kind = Literal["duality gap", "Frank-Wolfe gap", "sample gap", "regret", "stationarity"]


class Certificate(NamedTuple):
    """A proof of how far a point is from the optimum, in real arithmetic.

    Attributes
    ----------
    kind : str
        What was proven: a duality gap, a Frank-Wolfe gap, a gap on a sample, the regret of a stream, or stationarity.
    primal : float
        The objective at the point, rounded up: the exact one is not above. For a regret, the losses of every chunk
        are those of the model before it learnt from the chunk.
    bound : float
        A proven lower bound on the optimum; -inf where there is none.
    residual : float
        What is compared with ``tol``; for a gap, ``(primal - bound) / |primal|``.
    rounding : float
        The part of the residual that allows for rounding errors of the evaluation itself.
    """

    kind: Kind
    primal: float
    bound: float
    residual: float
    rounding: float = 0.0

    @property
    def gap(self) -> float:
        """An upper bound on the distance of the objective to the optimum: primal - bound."""
        return self.primal - self.bound

    def meets(self, tol: float) -> bool:
        """Say whether the residual is within ``tol``; NaN never is."""
        return self.residual <= tol

    def with_bound(self, bound: float) -> "Certificate":
        """Return the certificate with another proven bound, if it is the better one."""
        if not bound > self.bound:
            return self
        other = duality_gap(Rounded(self.primal), Rounded(bound))
        return other._replace(rounding=min(self.rounding, other.residual))

    def is_limited(self, tol: float) -> bool:
        """Say whether rounding alone exceeds ``tol``, and all else is within it: no further step would help."""
        return self.rounding > tol and self.residual - self.rounding <= tol


def summed(certificates: Sequence[Certificate], scale: float) -> Certificate:
    """Return the certificate of the sum of independent problems, times ``scale``."""
    primal, bound = (total(np.array(values)).times(scale) for values in list(zip(*certificates, strict=True))[1:3])
    own = scale * sum(each.rounding * max(abs(each.primal), LEAST) for each in certificates)
    whole = duality_gap(primal, bound)
    is_sample = any(each.kind == "sample gap" for each in certificates)
    rounding = min(whole.rounding + own / max(abs(whole.primal), LEAST), whole.residual)
    return whole._replace(kind="sample gap" if is_sample else whole.kind, rounding=rounding)


def relative_gap(primal: float, bound: float) -> float:
    """Return (primal - bound) / |primal| of values without proven errors: an estimate, zero where they cross."""
    gap = primal - bound
    if gap <= 0.0:
        return 0.0
    return gap / abs(primal) if primal != 0.0 else math.nan if math.isnan(gap) else math.inf


def duality_gap(primal: Rounded, bound: Rounded) -> Certificate:
    """Make a certificate from a primal value and a dual bound.

    Their errors widen the gap. A bound that is above the primal value all the same contradicts weak duality: the
    residual is then NaN, and the run fails.
    """
    upper, lower = primal.upper, bound.lower
    gap = upper - lower
    if not gap >= 0.0:
        return Certificate("duality gap", upper, lower, math.nan, math.nan)
    if math.isinf(gap):
        return Certificate("duality gap", upper, lower, math.inf, 0.0)
    scale = max(abs(upper), LEAST)
    rounding = min(primal.error + bound.error, gap)
    return Certificate("duality gap", upper, lower, gap / scale if gap else 0.0, rounding / scale if rounding else 0.0)
