"""Paper 003: proximal gradient steps on blocks of W, with its constants, and what makes them faster.

``cyclic`` is Algorithm 1 and ``random`` Algorithm 2, both by features; ``shuffled`` is cyclic in a new order each
time; ``classes`` and ``matrix`` are the larger blocks it is compared with. ``default``: by features, shuffled, with
local constants and a working set.
"""

from benchmark_utils.softmax_solvers import SoftmaxSolver
from softmargin.solvers import BlockProxGradient

_PAPER = {"constants": "paper", "working_set": False}
_SETTINGS = {
    "default": {},
    "cyclic": {"order": "cyclic", **_PAPER},
    "shuffled": {"order": "shuffled", **_PAPER},
    "random": {"order": "random", **_PAPER},
    "classes": {"blocks": "classes", "order": "cyclic", **_PAPER},
    "matrix": {"blocks": "matrix", "order": "cyclic", **_PAPER},
}


class Solver(SoftmaxSolver):
    """One of them."""

    name = "block_prox_gradient"
    parameters = {"variant": list(_SETTINGS)}

    def method(self) -> BlockProxGradient:
        return BlockProxGradient(**_SETTINGS[self.variant])
