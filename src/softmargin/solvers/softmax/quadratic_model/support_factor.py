"""One factor of the Hessian on the support of W, with which a quadratic model plus |.|_1 is minimised step by step.

    minimise over x:   <g, x> + 1/2 x'M x + strength |v + x|_1          M: about H; v: the entries, of which some are 0

Most entries stay on their side of zero, where |.| is linear. These are decided, and come first in M = L L'. Eliminated,
they leave a small system in the others, the open ones A, whose matrix the factor has already:

    L y = g + t ,       t the slopes of the penalty at v nearest to -g
    S = L_AA L_AA' ,    u minimises   <L_AA y_A, u> + 1/2 u'S u - <t_A, u> + strength |v_A + u|_1
    L'x = -y with L_AA' u in the place of -y_A                                             maths: softmax, eq. 47

Decided entries K that cross zero in x are opened. With 1 the decided entries, E_K columns of the identity, w the
decided step where the open ones stay, L_11' w = -y_1, and r = L_AA y_A,

    F = L_11^-1 E_K ,    R = (F'F)^-1 ,    B = L_A1 F
    S <- [S + B R B'  B R]         r <- [r - B R w_K]                                      maths: softmax, eq. 48
         [   R B'      R ]              [    -R w_K ]

As t is nearest to -g, the right-hand side is small near the minimum, and with it the rounding errors of single
precision: steps with exact gradients g converge like iterative refinement.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import strsm
from scipy.linalg.lapack import spotrf

from softmargin.backends.jit import jit
from softmargin.core.deadline import check_time
from softmargin.matrices.cholesky import solve_lower, solve_upper
from softmargin.solvers.softmax.quadratic_model.hessians import hessian_by_lists
from softmargin.solvers.softmax.quadratic_model.samples import Samples
from softmargin.solvers.softmax.quadratic_model.written_out import JumpTuning, WrittenOut

__all__ = ["Entries", "FactorTuning", "SupportFactor", "make_factor", "nearest_slopes"]

Array = NDArray[Any]
SILENT = 1e-9  # entries of a matrix with unit diagonal that are zero in the factor: products of two are subnormal


class FactorTuning(NamedTuple):
    """Constants of the factor and of its steps."""

    undecided: float = 0.125  # share of the support that is open from the start: more make S like H; by hand
    faint: float = 1e-5  # share of the largest weight of a class below which M leaves a sample out; by hand
    ridge: float = 1e-5  # added to the unit diagonal of M, or ten times that where it is not positive, ...; by hand
    most_ridge: float = 1e-2
    max_openings: int = 5  # of decided entries in a step; those that still cross zero end there; by hand
    accuracy: float = 1e-9  # change of the last pass over the open entries, as a share of the first; by hand
    max_passes: int = 300  # over them; by hand
    jumps: JumpTuning = JumpTuning()


class Entries(NamedTuple):
    """Entries of W: an index of matrices of shape (d + 1, k)."""

    features: Array
    classes: Array


def make_factor(
    samples: Samples, is_listed: Array, sizes: Array, is_fixed: Array, tuning: FactorTuning
) -> "SupportFactor | None":
    """Factor H without damping on some entries, by masks of shape (d + 1, k); None where it is not positive.

    ``is_fixed`` entries are decided, of the others those with large ``sizes``.
    """
    classes, features = np.nonzero(is_listed.T)
    entries, m = Entries(features, classes), len(classes)
    sizes = np.where(is_fixed[entries], np.inf, sizes[entries])
    n_zeros = np.count_nonzero(sizes == 0.0)
    n_open = n_zeros + math.ceil(tuning.undecided * (np.count_nonzero(np.isfinite(sizes)) - n_zeros))
    is_open = np.zeros(m, dtype=bool)
    is_open[np.argsort(sizes, kind="stable")[:n_open]] = True
    order = np.argsort(is_open, kind="stable")
    places = np.empty(m, dtype=np.int32)
    places[order] = np.arange(m)
    ridge = tuning.ridge
    while ridge <= tuning.most_ridge:
        H = hessian_by_lists(features, classes, places, samples, tuning.faint)
        scales = np.sqrt(np.maximum(H.diagonal(), np.finfo(np.float32).tiny)).astype(np.float64)
        _scale(H, 1.0 / scales, 1.0 + ridge)
        check_time(m**3 / 6.0)
        _, failure = spotrf(H.T, clean=False, overwrite_a=True)
        if not failure:
            ordered = Entries(features[order], classes[order])
            return SupportFactor(ordered, is_fixed[ordered], H, scales, m - int(n_open), tuning)
        ridge *= 10.0
    return None


class SupportFactor:
    """The factor L of M / (scales scales') on ``entries``, of which those from ``n_first`` on are open."""

    def __init__(
        self, entries: Entries, is_free: Array, L: Array, scales: Array, n_first: int, tuning: FactorTuning
    ) -> None:
        self.entries, self.is_free, self.tuning = entries, is_free, tuning
        self.L, self.scales, self.n_first = L, scales, n_first
        self.last = np.tril(L[n_first:, n_first:]).astype(np.float64)
        self.S: Array = self.last @ self.last.T  # scaled, as all that follows
        self.opened: Array = np.arange(0)
        self.F: Array = np.empty((n_first, 0))
        self.R: Array = np.empty((0, 0))
        self.BR: Array = np.empty((len(self.S), 0))

    @property
    def open(self) -> Array:
        """Which entries are open, in the order of S."""
        return np.concatenate([np.arange(self.n_first, len(self.L)), self.opened])

    def unfold(self, which: Array) -> None:
        """Open decided entries (eq. 48)."""
        if len(which) == 0:
            return
        n = self.n_first
        E = np.zeros((n, len(which)), dtype=np.float32, order="F")
        E[which, np.arange(len(which))] = 1.0
        F = strsm(1.0, self.L[:n, :n].T, E, trans_a=True, overwrite_b=True)
        self.opened, self.F = np.concatenate([self.opened, which]), np.hstack([self.F, F])
        self.R = np.linalg.inv(self.F.T @ self.F)
        B = self.L[n:, :n] @ self.F.astype(np.float32)
        self.BR = B @ self.R
        self.S = np.block([[self.last @ self.last.T + self.BR @ B.T, self.BR], [self.BR.T, self.R]])

    def step(self, g: Array, v: Array, penalty: Any, slopes: Array) -> Array:
        """Return the step x from v (eq. 47), where ``slopes`` are those of the penalty nearest to -g."""
        y = self._solved(solve_lower, (g + slopes) / self.scales)
        w = self._solved(solve_upper, -y[: self.n_first])
        is_decided = ~self.is_free
        is_decided[self.open] = False
        crosses = is_decided & (v == 0.0)
        for _ in range(self.tuning.max_openings):
            self.unfold(np.flatnonzero(crosses))
            is_decided &= ~crosses
            x = self._settled(y, w, v, penalty, slopes)
            crosses = is_decided & (v * (v + x) < 0.0)
            if not crosses.any():
                break
        return np.where(crosses, -v, x)

    def _settled(self, y: Array, w: Array, v: Array, penalty: Any, slopes: Array) -> Array:
        """Return the step with the open entries where q is least, and the decided ones as these have them."""
        A, n, n_last = self.open, self.n_first, len(self.last)
        w = w[self.opened]
        first = np.concatenate([self.last @ y[n:] - self.BR @ w, -self.R @ w])
        scales, is_free = self.scales[A], np.zeros(len(A), dtype=bool)
        S = self.S * scales * scales[:, None]
        system = WrittenOut(
            penalty, S, S.diagonal().copy(), first * scales - slopes[A], is_free, v[A], self.tuning.jumps
        )
        system.descend(self.tuning.accuracy, self.tuning.max_passes)
        u = system.point - v[A]
        push = first + self.S @ (u * scales)
        x = np.concatenate([self.F @ push[n_last:] - y[:n], self.last.T @ (u * scales)[:n_last]])
        x = self._solved(solve_upper, x) / self.scales
        x[A] = u
        return x

    def _solved(self, solve: Callable[[Array, Array], None], right: Array) -> Array:
        """Return the solution of a system with L or L'."""
        size = float(np.abs(right).max(initial=0.0)) or 1.0
        x = (right / size).astype(np.float32)  # within its range
        solve(self.L, x)
        return np.asarray(size * x.astype(np.float64))


def nearest_slopes(g: Array, v: Array, strength: float) -> Array:
    """Return the slope of strength |.|_1 at v that is nearest to -g."""
    return np.where(v == 0.0, np.clip(-g, -strength, strength), strength * np.sign(v))


@jit
def _scale(H: Array, by: Array, diagonal: float) -> None:
    """Multiply rows and columns of a lower triangle; set its diagonal."""
    for a in range(H.shape[0]):
        for b in range(a):
            scaled = H[a, b] * by[a] * by[b]
            H[a, b] = scaled if abs(scaled) >= SILENT else 0.0
        H[a, a] = diagonal
