"""Contract checks for those who add a part: run the check of a room on your own member of it.

Each check raises an AssertionError with a sentence on the first broken promise. softmargin's own members are held to
the same checks in ``tests/contracts``.

    check_block      a minimiser of one sample's dual row        ``softmargin.blocks``
    check_kernel     a kernel                                    ``softmargin.kernels``
    check_loss       an entrywise loss                           ``softmargin.losses.entrywise``
    check_penalty    a penalty that is separable by features     ``softmargin.penalties``
    check_set        a closed convex set of weights              ``softmargin.sets``
    check_solver     a solver, on one problem                    ``softmargin.solvers``
    check_run        the part of ``check_solver`` that needs a single run: an honest certificate
"""

from softmargin.testing.blocks import check_block
from softmargin.testing.kernels import check_kernel
from softmargin.testing.losses import check_loss
from softmargin.testing.penalties import check_penalty
from softmargin.testing.sets import check_set
from softmargin.testing.solvers import check_run, check_solver

__all__ = [
    "check_block",
    "check_kernel",
    "check_loss",
    "check_penalty",
    "check_run",
    "check_set",
    "check_solver",
]
