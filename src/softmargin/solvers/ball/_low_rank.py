"""What solvers with weights of low rank share: the matrix of a step by its products; sums and distances of factors."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.linalg import eigvalsh

from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.problems.constrained import BallPoint
from softmargin.sets import LowRank, TraceBall
from softmargin.sets.truncated import Triples, leading
from softmargin.solvers.ball._iterate import BallSolver
from softmargin.solvers.ball._objective import adjoint_of, checked_ball, scores_of


class StepMatrix:
    """The matrix M = W - step X' R, by its products; W of low rank."""

    def __init__(self, X: Any, W: LowRank, R: Array, step: float) -> None:
        self.X, self.W, self.R, self.step = X, W, R, step
        self.shape = W.shape
        self.XQ = np.zeros((X.shape[0], 0))  # X times the last argument of ``adjoint``
        self._products: list[Array] = []  # products with X' R in the last sweep

    def times(self, V: Array) -> Array:
        """Return M V."""
        G = adjoint_of(self.X, self.R @ V)
        self._products = [G]
        return np.asarray((self.W.U * self.W.s) @ (self.W.V.T @ V) - self.step * G)

    def adjoint(self, Q: Array) -> Array:
        """Return M' Q."""
        self.XQ = scores_of(self.X, Q)
        G = self.R.T @ self.XQ
        self._products.append(G)
        return np.asarray((self.W.V * self.W.s) @ (self.W.U.T @ Q) - self.step * G)

    def toarray(self) -> Array:
        """Return M."""
        G = adjoint_of(self.X, self.R)
        self._products = [G if G.shape[0] >= G.shape[1] else G.T]
        M = -self.step * G
        self.W.add_to(M, 1.0)
        return M

    def scores(self, top: Triples, W: LowRank, out: Array) -> None:
        """Write X W, for W of the leading triples of M."""
        XU = scores_of(self.X, W.U) if top.rotation is None else self.XQ @ top.rotation[:, : W.rank]
        np.matmul(XU * W.s, W.V.T, out=out)

    def gradient_values(self) -> Array:
        """Return the leading singular values of X' R, from below: those of its products in the last sweep."""
        return np.asarray(np.max([singular_values(G) for G in self._products], axis=0))


@dataclass
class FactorState:
    """Weights U diag(s) V' with their scores. No factor is ever changed in place."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (k, r)
    scores: Array  # (n, k), without the intercept
    basis: Array  # (k, b) right singular vectors of the last matrix
    length: float  # |D| of the last step

    grows: ClassVar[dict[str, tuple[str, int]]] = {"U": ("r", 1), "s": ("r", 0), "V": ("r", 1), "basis": ("b", 1)}

    @property
    def weights(self) -> LowRank:
        """W."""
        return LowRank(self.U, self.s, self.V)


class FactorSolver(BallSolver):
    """What solvers with weights of low rank share; their tuning has the accuracy of triples, and that of sweeps."""

    tuning: Any

    def ball(self, problem: ConstrainedProblem) -> TraceBall:
        """Return the problem's trace ball, whose points have few singular values; refuse other sets."""
        return checked_ball(problem, type(self).__name__, "BallGradient", TraceBall)

    def nearest(
        self,
        ball: TraceBall,
        matrix: StepMatrix,
        state: FactorState,
        most: int | None,
        out: Array,
        rank: int | None = None,
    ) -> tuple[Triples, LowRank]:
        """Return the leading triples of M, and the point of the ball nearest to M, whose scores it writes."""
        accuracy, tuning = self.tuning.accuracy * state.length, self.tuning.triples
        top = leading(matrix, state.basis, lambda s: ball.theta(s[:rank]), accuracy=accuracy, most=most, tuning=tuning)
        new = ball.shrink(top, rank)
        matrix.scores(top, new, out)
        return top, new


def first_factors(problem: ConstrainedProblem, ball: TraceBall, init: BallPoint | None) -> tuple[LowRank, Array]:
    """Return the point of the ball nearest to ``init``, by its singular triples, or zero; and the intercept."""
    if init is None:
        return LowRank.zero(problem.shape), np.zeros(problem.shape[1])
    if not isinstance(init.weights, LowRank) or init.weights.shape != problem.shape:
        point = problem.checked_point(init)
        return ball.nearest(point.weights), point.intercept
    W = init.weights.orthogonal()
    return ball.shrink(Triples(*W, None)), np.array(init.intercept, dtype=np.float64)


def stack(*terms: tuple[float, LowRank]) -> LowRank:
    """Return the sum of multiples of matrices: their factors side by side."""
    return LowRank(
        np.hstack([W.U for _, W in terms]),
        np.concatenate([weight * W.s for weight, W in terms]),
        np.hstack([W.V for _, W in terms]),
    )


def distance(W: LowRank, Z: LowRank) -> float:
    """Return |W - Z| for W with orthonormal factors near Z, without cancellation of |W|^2 and |Z|^2."""
    C = Z.V.T @ W.V
    along = W.U * W.s - (Z.U * Z.s) @ C
    across = (Z.V - W.V @ C.T) * Z.s
    square = float(np.vdot(along, along)) + float(np.vdot(Z.U.T @ Z.U, across.T @ across))
    return math.sqrt(max(square, 0.0))


def singular_values(G: Array) -> Array:
    """Return the singular values of a tall matrix, sorted, to half of the digits: enough to estimate the gap."""
    return np.asarray(np.sqrt(np.maximum(eigvalsh(G.T @ G)[::-1], 0.0)))
