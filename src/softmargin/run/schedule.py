"""When the certificate is evaluated.

A certificate costs about two passes over the data, so it is evaluated
  - after pass 1 where the solver has no estimate of its own, and after passes 2, 4, 8, ... as long as scheduled
    certificates cost less than a tenth of the passes made;
  - whenever the solver's own free estimate says that the tolerance may be met: at once the first time, and after a
    certificate that did not meet it when the estimate has clearly fallen further;
  - after every pass where a run shall end at a share of its first gap (``Stop.decay``).

The schedule reads no clock: the same seed evaluates after the same passes, and a resumed run as the whole run does.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from softmargin.core.certificate import Certificate

__all__ = ["Schedule", "ScheduleTuning"]


class ScheduleTuning(NamedTuple):
    """When certificates are worth their cost."""

    share: float = 0.1  # of the passes made, for scheduled certificates; by hand
    passes: float = 2.0  # that one certificate costs: X W for the primal value and X' alpha for the bound
    fall: float = 0.7  # to which the estimate must fall after a certificate that did not meet tol; by hand
    stuck: float = 0.05  # of tol: an estimate below it that the certificate does not follow is rounding; by hand
    still: float = 0.9  # share of the last residual above which a certificate has not moved; by hand
    same: float = 1e-13  # share of a number of a certificate by which rounding may change it from pass to pass; by hand
    idle: int = 32  # passes that change no digit of a certificate, after which none is expected to; by hand


@dataclass
class Schedule:
    """The certificates evaluated so far, and when to evaluate the next."""

    tol: float
    ask_below: float
    next_pass: int = 1
    n_scheduled: int = 0
    refused: float = math.inf  # residual of the last certificate that did not meet tol
    is_stuck: bool = False
    primal: float = math.nan  # of the last certificate
    bound: float = math.nan
    same_since: int = 0  # first pass with a certificate that is equal to the last one
    is_idle: bool = False  # no digit of them moves
    decay: float = 0.0  # share of the first gap at which the run ends; 0 for none
    first_gap: float = math.inf  # after the first pass

    tuning: ClassVar[ScheduleTuning] = ScheduleTuning()

    def is_due(self, iteration: int, estimate: float) -> bool:
        """Say whether to evaluate the certificate after this pass."""
        if not estimate > self.ask_below:  # also when the estimate is NaN: the certificate will tell
            self.ask_below = self.tuning.fall * estimate
            return True
        if self.decay > 0.0:
            return True
        if iteration < self.next_pass:
            return False
        while self.next_pass <= iteration:
            self.next_pass *= 2
        is_blind = iteration == 1 and math.isinf(estimate)
        if not is_blind and self.tuning.passes * (self.n_scheduled + 1) > self.tuning.share * iteration:
            return False
        self.n_scheduled += 1
        return True

    def note(self, certificate: Certificate, iteration: int) -> None:
        """Note a certificate: a run is stuck where it stays, while the solver sees next to no gap in its precision.

        It is idle where no digit moves but the last ones, in some dozens of passes or while the solver sees no gap at
        all: F may have no minimum (one class has all the weight), or one that the solver cannot tell from its point.
        """
        residual = certificate.residual
        if self.decay > 0.0 and math.isinf(self.first_gap):
            self.first_gap = _distance(certificate)
        is_still = residual >= self.tuning.still * self.refused
        self.is_stuck = 0.0 < self.ask_below <= self.tuning.stuck * self.tol < residual and is_still
        before, now = (self.primal, self.bound, self.refused), (certificate.primal, certificate.bound, residual)
        if not all(map(self._are_same, now, before)):
            self.primal, self.bound, self.same_since = certificate.primal, certificate.bound, iteration
        self.refused = residual
        passes = iteration - self.same_since
        self.is_idle = passes >= self.tuning.idle or (passes > 0 and self.ask_below == 0.0)

    def _are_same(self, one: float, other: float) -> bool:
        """Say whether two numbers of certificates differ by rounding at most."""
        return one == other or abs(one - other) <= self.tuning.same * abs(other)

    def restart(self) -> None:
        """Believe the estimates of another solver, which goes on from here."""
        self.ask_below, self.refused, self.is_stuck = self.tol, math.inf, False
        self.primal, self.is_idle = math.nan, False

    def has_decayed(self, certificate: Certificate) -> bool:
        """Say whether the gap is at most the share of the first one that was asked for."""
        return math.isfinite(self.first_gap) and _distance(certificate) <= self.decay * self.first_gap


def _distance(certificate: Certificate) -> float:
    """Return the gap, or the residual where there is no bound."""
    return certificate.gap if math.isfinite(certificate.gap) else certificate.residual
