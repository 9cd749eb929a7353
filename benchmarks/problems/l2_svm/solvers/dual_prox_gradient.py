"""Projected gradient on the dual: paper 000, Algorithm 1, and what makes it fast.

``paper``: step 1 / L, projection by bisection. ``accelerated``: FISTA with restart, projection by Newton steps, centred
kernel.
"""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import DualProxGradient

_SETTINGS = {
    "paper": {"accelerated": False, "restart": False, "projection": "bisection", "centred": False},
    "accelerated": {"accelerated": True, "restart": True, "projection": "newton", "centred": True},
}


class Solver(KernelSolver):
    """One of the two."""

    name = "dual_prox_gradient"
    parameters = {"variant": list(_SETTINGS)}

    def method(self) -> DualProxGradient:
        return DualProxGradient(**_SETTINGS[self.variant])
