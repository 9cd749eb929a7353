"""A kernel SVM that learns from one chunk of rows after the other, in memory that their number does not change.

    lam = 1 / (C n), n the rows seen so far;  steps of conjugate subgradients on kept vectors and a sample of the chunk
    alpha_kept = the minimiser of |sum_kept alpha_i phi_i - w|^2 = K_kept^-1 K_kept,all alpha_all,  when vectors go

Vectors that only went would leave a model that labels at random, as most of them carry the same weight.
Never imports scikit-learn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.estimators._problems import one_by_one
from softmargin.estimators._sampled import binary_problem
from softmargin.models import KernelExpansion
from softmargin.problems import ExpansionPoint, KernelHinge, OneVsRest
from softmargin.run import Status, Stop, solve
from softmargin.solvers import ConjugateSubgradient

__all__ = ["Stream"]

Array = NDArray[Any]
CHUNK_STEPS = 50  # conjugate subgradient steps a chunk
RIDGE = 1e-6  # of the mean diagonal: keeps near copies among kept vectors from blowing up their weights


@dataclass
class Stream:
    """A kernel SVM that takes one chunk of rows after the other, and keeps at most ``budget`` vectors.

    Every chunk makes some conjugate subgradient steps on the kept vectors and as many rows of the chunk; other rows of
    it confirm the steps. The vectors of least |alpha_i| sqrt(K_ii) then go, and the best approximation of the model
    by the others stays: K_kept alpha = K_kept,all alpha_all.

    Parameters
    ----------
    kernel : kernel object
    n_classes : int
    bias : float
        Value of the constant feature.
    vectors, labels, coef, positions
        (m, d), (m,) codes, (m, 1 or k) and (m,) places in the stream: what is kept; None for nothing yet.
    n_seen : int
    price : float
        Sum of C_i over all rows seen: lam is its inverse.
    """

    kernel: Any
    n_classes: int
    bias: float
    vectors: Any = None
    labels: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    coef: Array | None = None
    positions: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    n_seen: int = 0
    price: float = 0.0
    n_steps: int = 0

    def take(
        self, X: Any, codes: Array, prices: Array, *, budget: int, tol: float, seed: int
    ) -> tuple[Certificate, Status]:
        """Learn from a chunk; return the certificate on the sample that was used, and how the steps ended."""
        if budget < 1:
            raise DataError(f"n_components must be at least 1; found {budget}.")
        rng = np.random.default_rng([seed, self.n_seen])
        m = len(self.labels)
        self.price += float(prices.sum())
        Z = X if self.vectors is None else _stacked(self.vectors, X)
        labels = np.concatenate([self.labels, codes])
        weights = np.concatenate([np.full(m, prices.mean()), prices])
        index = np.concatenate([np.arange(m), m + rng.choice(len(codes), min(budget, len(codes)), replace=False)])
        n_columns = len(one_by_one(labels[:0], self.n_classes, prices[:0]))
        alpha = np.zeros((len(index), n_columns))
        if self.coef is not None:
            alpha[:m] = self.coef
        parts = OneVsRest(
            [
                binary_problem(self.kernel, Z, 2.0 * mine - 1.0, C, self.price, self.bias, False)
                for mine, C in one_by_one(labels, self.n_classes, weights)
            ]
        )
        solver, stop, duals, status = (
            ConjugateSubgradient(most=len(index)),
            Stop(tol, CHUNK_STEPS),
            [],
            Status.CONVERGED,
        )
        for c, part in enumerate(parts.parts):
            first = ExpansionPoint(index, alpha[:, c], np.zeros(len(index)))
            result = solve(part, solver, stop=stop, rng=rng, init=first)
            if result.status is Status.FAILED:
                raise DataError(f"learning from rows {self.n_seen}.. of the stream failed. {Status.FAILED.sentence}")
            alpha[:, c] = result.point.alpha
            duals.append(result.point.dual)
            self.n_steps += result.n_iter
            if status is not Status.INTERRUPTED and result.status is not Status.CONVERGED:
                status = result.status
        kept = self._drop(parts.parts[0], index, alpha, budget)
        self.vectors, self.labels, self.coef = Z[index[kept]], labels[index[kept]], alpha[kept]
        places = np.concatenate([self.positions, self.n_seen + np.arange(len(codes))])
        self.positions = places[index[kept]]
        self.n_seen += len(codes)
        points = [ExpansionPoint(index, column, dual) for column, dual in zip(alpha.T, duals, strict=True)]
        return parts.certificate(points), status

    def _drop(self, problem: KernelHinge, index: Array, alpha: Array, budget: int) -> Array:
        """Set all but ``budget`` rows of alpha to zero, the others so that the model changes least; return these."""
        points = problem.points(index)
        diagonal = self.kernel.diagonal(points) + self.bias**2
        weight = np.abs(alpha).max(axis=1) * np.sqrt(np.maximum(diagonal, 0.0))
        order = np.argsort(-weight, kind="stable")
        kept = np.sort(order[:budget])
        if len(order) > budget and weight[order[budget]] > 0.0:
            few = points.take(kept)
            K = problem.block(few, few)
            K[np.diag_indices_from(K)] += RIDGE * max(float(np.trace(K)) / len(K), np.finfo(float).tiny)
            projected = np.linalg.solve(K, problem.block(few, points) @ alpha)
            alpha[:] = 0.0
            alpha[kept] = projected
        return kept[alpha[kept].any(axis=1)]

    def model(self, classes: Array, info: Mapping[str, Any]) -> KernelExpansion:
        """Return what has been learnt so far."""
        assert self.coef is not None
        intercept = self.bias**2 * self.coef.sum(axis=0)
        return KernelExpansion(
            classes, self.kernel, self.vectors, self.positions, self.n_seen, self.coef, intercept, info
        )


def _stacked(vectors: Any, X: Any) -> Any:
    """Return kept vectors above a chunk, in the form of the vectors; a sparse chunk may bring new columns."""
    if isinstance(vectors, np.ndarray):
        X = X if isinstance(X, np.ndarray) else X.toarray()
        return np.concatenate([vectors, X.astype(vectors.dtype, copy=False)])
    from scipy.sparse import csr_matrix, vstack

    X = csr_matrix(X).astype(vectors.dtype, copy=False)
    wide = csr_matrix((vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], X.shape[1]))
    return vstack([wide, X], format="csr")
