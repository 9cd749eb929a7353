"""For which residual the run at work aims: what inner loops ask that need not be more exact than its proof.

``run.solve`` sets it to ``Stop.tol`` for its thread and for those that work for it. Where nobody set it, it is zero:
then every loop goes as far as its own rules lead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["aiming_at", "wanted_residual"]

_TOL: ContextVar[float] = ContextVar("softmargin_tol", default=0.0)


@contextmanager
def aiming_at(tol: float) -> Iterator[None]:
    """Let what follows aim for a residual."""
    before = _TOL.set(tol)
    try:
        yield
    finally:
        _TOL.reset(before)


def wanted_residual() -> float:
    """Return the residual at which the run ends."""
    return _TOL.get()
