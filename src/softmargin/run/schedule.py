"""When to ask the judge.

A certificate costs about two passes over the data, so it is asked for
  - after pass 1 where the solver has no estimate of its own, and after passes 2, 4, 8, ... as far as scheduled
    certificates stay below a tenth of the passes made;
  - whenever the solver's own free estimate says that the tolerance may be met: at once the first time, and after a
    refusal when the estimate has clearly fallen further.

Nothing here looks at a clock: the same seed asks after the same passes, and a resumed run asks as the whole run does.
"""

import math
from dataclasses import dataclass

__all__ = ["JUDGE_PASSES", "JUDGE_SHARE", "Schedule"]

JUDGE_SHARE = 0.1
JUDGE_PASSES = 2.0
REFUSED = 0.7  # after a refusal, the estimate must fall to this share of what it was


@dataclass
class Schedule:
    """What has been asked so far, and when to ask again."""

    tol: float
    ask_below: float
    next_pass: int = 1
    n_scheduled: int = 0

    def is_due(self, iteration: int, estimate: float) -> bool:
        """Say whether to ask after this pass."""
        if not estimate > self.ask_below:  # also when the estimate is NaN: the judge will tell
            self.ask_below = REFUSED * estimate
            return True
        if iteration < self.next_pass:
            return False
        while self.next_pass <= iteration:
            self.next_pass *= 2
        is_blind = iteration == 1 and math.isinf(estimate)
        if not is_blind and JUDGE_PASSES * (self.n_scheduled + 1) > JUDGE_SHARE * iteration:
            return False
        self.n_scheduled += 1
        return True
