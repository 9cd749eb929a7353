"""Nesterov's momentum for projected and proximal gradient methods, restarted where a step turns back.

    z       = x_t + beta (x_t - x_{t-1}) ,                 beta = (m_t - 1) / m_{t+1}
    m_{t+1} = (1 + sqrt(1 + 4 (L_{t+1} / L_t) m_t^2)) / 2 ,   and 1 after a restart
    restart where <z - x_{t+1}, x_{t+1} - x_t> > 0: the step leads back

L is the Lipschitz constant of the step; where it stays the same, the ratio is 1 and this is FISTA.

Source: Beck and Teboulle (2009); the gradient restart of O'Donoghue and Candes (2015); a changing L as in Scheinberg,
Goldfarb and Bai (2014).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["extrapolate", "next_momentum"]

Array = NDArray[Any]


def next_momentum(momentum: float, ratio: float = 1.0) -> tuple[float, float]:
    """Return m_{t+1}, unless the step to come turns back, and beta; ``ratio`` is L_{t+1} / L_t."""
    following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * ratio * momentum**2))
    return following, (momentum - 1.0) / following


def extrapolate(now: Array, last: Array, beta: float, out: Array) -> None:
    """Write now + beta (now - last)."""
    np.subtract(now, last, out=out)
    out *= beta
    out += now
