"""The Hessian of softmax losses by one compiled loop, where numbers are so few that calls of BLAS would take longer.

    H[(j, c), (l, e)] = sum_i B_i[c, e] x_ij x_il ,      B_i[c, e] = C_i ([c = e] (p_ic + damping_i) - p_ic p_ie)

Samples are innermost, so that sums over them go along columns of X.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit

__all__ = ["LOOPS_PAY", "FewNumbers", "fill_in_loops"]

Array = NDArray[Any]
LOOPS_PAY = 1 << 20  # multiplications n m^2 of a Hessian of m entries, up to which loops take less time; by timings


class FewNumbers(NamedTuple):
    """The entries (j, c) of a Hessian, ordered by class, and what all of them share."""

    columns: Array  # (d, n)
    features: Array  # (m,)
    ends: Array  # (k + 1,): those of class c are features[ends[c] : ends[c + 1]]
    damping: Array  # (n,)


@jit
def fill_in_loops(few: FewNumbers, P: Array, C: Array, k: int, H: Array) -> None:
    """Write H, (m, m); P is (n * k,)."""
    columns, features, ends = few.columns, few.features, few.ends
    n, n_columns = C.shape[0], ends.shape[0] - 1
    weights, scaled = np.empty(n), np.empty(n)
    for c in range(n_columns):
        for e in range(c, n_columns):
            for i in range(n):
                p, q = P[i * k + c], P[i * k + e]
                weights[i] = C[i] * (p * (1.0 - p) + few.damping[i] if c == e else -p * q)
            for a in range(ends[c], ends[c + 1]):
                for i in range(n):
                    scaled[i] = weights[i] * columns[features[a], i]
                for b in range(max(a, ends[e]), ends[e + 1]):
                    sum_ = 0.0
                    for i in range(n):
                        sum_ += scaled[i] * columns[features[b], i]
                    H[a, b] = H[b, a] = sum_
