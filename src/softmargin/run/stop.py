"""When to stop."""

import math
from typing import NamedTuple

from softmargin.core.errors import IncompatibleError

__all__ = ["Stop"]


class Stop(NamedTuple):
    """The tolerance a certificate must meet, and the budgets that end a run without it.

    Attributes
    ----------
    tol : float
        Largest residual (relative gap) that counts as converged.
    max_iter : int
        Largest number of steps; a step is about one pass over the data.
    max_seconds : float
        Wall-clock budget, certificates included.
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    max_seconds: float = math.inf

    def checked(self) -> "Stop":
        """Return itself, or say which setting makes no sense."""
        if not self.tol >= 0:
            raise IncompatibleError(f"tol must be a number >= 0 (a relative gap); found {self.tol!r}.")
        if not self.max_iter >= 0:
            raise IncompatibleError(f"max_iter must be an integer >= 0; found {self.max_iter!r}.")
        if not self.max_seconds >= 0:
            raise IncompatibleError(f"max_seconds must be a number >= 0; found {self.max_seconds!r}.")
        return self
