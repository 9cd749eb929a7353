"""The Newton step of an interior point method over the trace-norm ball. Maths: ball, section 12.

    T = radius - (<W Q^-1, W> + tr Q) / 2 ,    A = W Q^-1 ,    N Y N = Q

For changes D of W and E of Q, the model of F - mu log det Q - mu log T at theta and Y is half of the square

    <D, H D> + theta <(D - A E) Q^-1, D - A E> + <N^-1 E N^-1, E> + theta / T (<A, D> + <I - A'A, E> / 2)^2      (41)

and has the slopes of the function itself:

    F' + mu / T A   along D ,     mu / T (I - A'A) / 2 - mu Q^-1   along E

All of it is written in the eigenvectors V of Q, in which Q is diagonal; H, with a block H_c for every class, has the
blocks sum_c V_ci V_cj H_c there. E has one unknown for every pair of its rows. The last term of (41) has rank one and
may be steep: it is left out of the matrix that is factored, and put back by the formula of Sherman and Morrison.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.linalg import eigh, eigvalsh
from scipy.linalg.lapack import dpotrf, dpotrs

from softmargin.core.deadline import check_time, factor_work
from softmargin.core.protocols import Array
from softmargin.core.threads import wide_blas

__all__ = ["BarrierStep", "Slack", "TraceBarrier", "n_unknowns"]

_ROUNDING = 1e-15  # share of the largest eigenvalue of a matrix below which one is rounding


def n_unknowns(r: int, k: int) -> int:
    """Count the unknowns of a step, for W of shape (r, k)."""
    return r * k + k * (k + 1) // 2


class Slack(NamedTuple):
    """A point of the ball: W and Q in the eigenvectors of Q."""

    q: Array  # (k,) eigenvalues of Q
    V: Array  # (k, k) its eigenvectors
    A: Array  # (r, k) W Q^-1
    T: float

    @classmethod
    def of(cls, W: Array, Q: Array, radius: float) -> "Slack":
        """Find all of it, for a Q that may have eigenvalues below zero."""
        q, V = eigh(Q)
        turned = W @ V
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            A = turned / q
            return cls(q, V, A, radius - 0.5 * (float(np.vdot(A, turned)) + float(q.sum())))


class BarrierStep(NamedTuple):
    """Changes of the point and its multipliers."""

    W: Array  # (r, k)
    Q: Array  # (k, k)
    Y: Array  # (k, k)
    theta: float
    square: float  # of the step in the metric of the model
    room: float  # the multiple of the step at which Q is singular
    room_of_duals: float  # the same for Y and theta


class TraceBarrier:
    """The model at a point, factored; its steps for any mu."""

    def __init__(self, at: Slack, Y: Array, theta: float, slope: Array, H: Array, l2: float) -> None:
        """Take the slope of F, (r, k), and the blocks of its Hessian without l2, (k, r, r)."""
        q, V, A, T = at
        k = len(q)
        self.at, self.theta, self.pairs = at, theta, _Pairs(k)
        self.Y, self.root = V.T @ Y @ V, np.sqrt(q)
        values, E = eigh(self.root[:, None] * self.Y * self.root)
        values = np.maximum(values, _ROUNDING * values.max())
        self.inverse = ((E * np.sqrt(values)) @ E.T) / self.root[:, None] / self.root  # N^-1
        self.flat = E / np.sqrt(values)  # makes the identity of Y in the scale of Q
        self.slope = (slope @ V).T.ravel()
        self.fall_of_T = np.concatenate([A.T.ravel(), self.pairs.slope(0.5 * (np.eye(k) - A.T @ A))])
        self._factor(H, l2)
        self.along_T = self._solve(self.fall_of_T)
        self.steepness_of_T = T / theta + float(self.fall_of_T @ self.along_T)

    def _factor(self, H: Array, l2: float) -> None:
        """Form the matrix of (41) but for its last term, with ones on its diagonal, and its Cholesky factor."""
        (q, V, A, _), theta, pairs = self.at, self.theta, self.pairs
        r, k = A.shape
        m, size = r * k, n_unknowns(r, k)
        check_time(factor_work(size))
        M = np.zeros((size, size))
        M[:m, :m] = np.tensordot(V[:, :, None] * V[:, None, :], H, (0, 0)).transpose(0, 2, 1, 3).reshape(m, m)
        M[m:, :m] = -theta * pairs.products(A, 1.0 / q).reshape(-1, m)
        M[m:, m:] = theta * pairs.form(A.T @ A, np.diag(1.0 / q)) + pairs.form(self.inverse, self.inverse)
        diagonal = np.einsum("jj->j", M)  # a view
        diagonal[:m] += l2 + np.repeat(theta / q, r)
        self.scale = 1.0 / np.sqrt(diagonal)
        M *= self.scale
        M *= self.scale[:, None]
        lift, failure = _ROUNDING, 1
        while failure:
            diagonal[:] = 1.0 + lift
            with wide_blas(size**3 / 3.0):
                self.factor, failure = dpotrf(M, lower=True, clean=False)
            lift *= 10.0

    def _solve(self, right: Array) -> Array:
        return np.asarray(self.scale * dpotrs(self.factor, self.scale * right, lower=True)[0])

    def step(self, mu: float) -> BarrierStep:
        """Return the step to the minimum of the model for mu."""
        (q, V, A, T), theta, m = self.at, self.theta, self.at.A.size
        right = -(mu / T) * self.fall_of_T
        right[:m] -= self.slope
        right[m:] += self.pairs.slope(np.diag(mu / q))
        x = self._solve(right)
        x -= self.along_T * (float(self.fall_of_T @ x) / self.steepness_of_T)
        D, E = x[:m].reshape(A.shape[::-1]).T, self.pairs.matrix(x[m:])
        Y = np.diag(mu / q) - self.Y - self.inverse @ E @ self.inverse
        change = (mu + theta * float(self.fall_of_T @ x)) / T - theta
        in_scale = self.flat.T @ (self.root[:, None] * Y * self.root) @ self.flat
        return BarrierStep(
            D @ V.T,
            V @ E @ V.T,
            V @ Y @ V.T,
            change,
            float(right @ x),
            _room(float(eigvalsh(E / self.root[:, None] / self.root)[0])),
            _room(min(float(eigvalsh(in_scale)[0]), change / theta)),
        )


def _room(least: float) -> float:
    """Return the t at which 1 + t least is zero."""
    return -1.0 / least if least < 0.0 else math.inf


class _Pairs:
    """Symmetric matrices E of shape (k, k) by their entries with a <= b, and functions of E by those of the entries."""

    def __init__(self, k: int) -> None:
        self.k, (self.a, self.b) = k, np.triu_indices(k)
        self.share = np.where(self.a == self.b, 0.5, 1.0)  # sums over both orders count an entry with a = b twice

    def matrix(self, entries: Array) -> Array:
        """Return E."""
        E = np.empty((self.k, self.k))
        E[self.a, self.b] = E[self.b, self.a] = entries
        return E

    def slope(self, G: Array) -> Array:
        """Return the slope of <G, E>, for a symmetric G."""
        return np.asarray(2.0 * self.share * G[self.a, self.b])

    def form(self, K: Array, J: Array) -> Array:
        """Return the matrix of the square <K E J, E>, for symmetric K and J; (pairs, pairs)."""

        def both(i: Array, j: Array) -> Array:
            return np.asarray(K[np.ix_(i, self.a)] * J[np.ix_(j, self.b)] + K[np.ix_(i, self.b)] * J[np.ix_(j, self.a)])

        total = both(self.a, self.b) + both(self.b, self.a)
        return np.asarray(total * self.share * self.share[:, None])

    def products(self, A: Array, j: Array) -> Array:
        """Return A E diag(j) for every pair, the columns one after the other; (pairs, k, r)."""
        a, b, pair = self.a, self.b, np.arange(len(self.a))
        out = np.zeros((len(pair), self.k, len(A)))
        out[pair, b] += (self.share * j[b])[:, None] * A.T[a]
        out[pair, a] += (self.share * j[a])[:, None] * A.T[b]
        return out
