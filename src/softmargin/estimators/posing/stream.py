"""A kernel SVM that learns from one chunk of rows after the other, in memory that does not grow with their number.

The first rows give landmarks, and these give features z (``features.landmarks``); every further row makes one step of
averaged Pegasos on its features (``solvers.sampled_kernel._stream_loop``), with lam = 1 / sum_i C_i over the rows seen
so far.

    w = sum_i coef_i z(x_i)     the shortest change of a model over other vectors into one over the landmarks

It is exact where these vectors are landmarks, and else a projection.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError
from softmargin.core.rounding import gamma, norms, squared_norm, total
from softmargin.estimators.posing.svm import binary_labels
from softmargin.features.landmarks import Landmarks, choose_landmarks
from softmargin.models import KernelExpansion
from softmargin.problems import Expansion
from softmargin.run import Status
from softmargin.solvers.sampled_kernel._stream_loop import pass_over_features

__all__ = ["KernelStream", "Stream", "in_form_of", "stacked"]

Array = NDArray[Any]
BLOCK_NUMBERS = 1 << 22  # features held at once: 16 MB of float32


@dataclass
class KernelStream:
    """A kernel SVM that takes one chunk of rows after the other, in memory that does not grow.

    Parameters
    ----------
    kernel : kernel object
    n_classes : int
    bias : float
        Value of the constant feature.
    vectors, labels, coef, positions
        (m, d), (m,) codes, (m, 1 or k) and (m,) places in the stream: a model to begin with; None for nothing yet.
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

    def take(
        self, X: Any, codes: Array, prices: Array, *, budget: int, tol: float, seed: int
    ) -> tuple[Certificate, Status]:
        """Learn from a chunk; return the certificate on some rows, and whether that meets the tolerance.

        A chunk that fails, or is interrupted, leaves all as it was.
        """
        if budget < 1:
            raise DataError(f"n_components must be at least 1; found {budget}.")
        if not prices.any():
            raise DataError("all sample weights are zero; nothing can be learnt.")
        later = copy(self)
        certificate = later._learn(X, codes, prices, budget, np.random.default_rng([seed, self.n_seen]))
        if not (np.isfinite(certificate.primal) and np.isfinite(later.expansion().coef).all()):
            raise DataError(f"learning from rows {self.n_seen}.. of the stream failed. {Status.FAILED.sentence}")
        vars(self).update(vars(later))
        return certificate, Status.CONVERGED if certificate.meets(tol) else Status.MAX_ITER

    def _learn(self, X: Any, codes: Array, prices: Array, budget: int, rng: np.random.Generator) -> Certificate:
        raise NotImplementedError

    def model(self, classes: Array, info: Mapping[str, Any]) -> KernelExpansion:
        """Return the model learnt so far."""
        return KernelExpansion(classes, *self.expansion(), info)

    def expansion(self) -> Expansion:
        """Return the model learnt so far, without labels."""
        assert self.coef is not None
        intercept = self.bias**2 * self.coef.sum(axis=0)
        return Expansion(self.kernel, self.vectors, self.positions, self.n_seen, self.coef, intercept)


@dataclass
class Stream(KernelStream):
    """Landmarks, as many as the budget, and averaged Pegasos on their features.

    Landmarks are drawn, by price, from the first chunk, and from later ones while there are fewer than the budget.
    """

    reach: float = 0.0  # largest mean of |weight z|^2 in a block
    n_steps: int = field(init=False)  # rows of a positive C_i that were seen
    landmarks: Landmarks | None = field(default=None, init=False)
    W: Array = field(init=False)  # (k, r)
    average: Array = field(init=False)  # (k, r)

    def __post_init__(self) -> None:
        """Count the rows of a model to begin with."""
        self.n_steps = self.n_seen

    def _learn(self, X: Any, codes: Array, prices: Array, budget: int, rng: np.random.Generator) -> Certificate:
        X = X if self.vectors is None else in_form_of(self.vectors, X)
        if self.landmarks is None or len(self.labels) != budget:
            self._choose_landmarks(X, codes, prices, budget, rng)
        assert self.landmarks is not None
        self.W, self.average = self.W.copy(), self.average.copy()
        self.price += float(prices.sum())
        order = rng.permutation(np.flatnonzero(prices))
        weights = prices * ((self.n_steps + len(order)) / self.price)
        for block in np.array_split(order, -(-len(order) * self.W.shape[1] // BLOCK_NUMBERS)):
            Z, signs = self.landmarks.transform(X[block]), self._signs(codes[block])
            self.reach = max(self.reach, float(weights[block] ** 2 @ np.einsum("ij,ij->i", Z, Z)) / len(Z))
            pass_over_features(
                Z, signs, weights[block], self.W, self.average, 1.0 / self.price, self.reach, self.n_steps
            )
            self.n_steps += len(block)
        self.n_seen += len(codes)
        self.coef = self.landmarks.expanded(self.average.T)
        return _sample_gap(Z, signs, prices[block], self.average, self.price)

    def _signs(self, codes: Array) -> Array:
        return np.stack([2.0 * mine - 1.0 for mine in binary_labels(codes, self.n_classes)], axis=1)

    def _choose_landmarks(self, X: Any, codes: Array, prices: Array, budget: int, rng: np.random.Generator) -> None:
        """Add landmarks up to the budget, or keep those of the largest coefficients; W and its average follow."""
        old, was, m = self.vectors, self.landmarks, len(self.labels)
        kept = np.arange(m)
        if m > budget:
            assert self.coef is not None
            kept = np.sort(np.argsort(-np.abs(self.coef).max(axis=1), kind="stable")[:budget])
        size = min(budget - len(kept), int(np.count_nonzero(prices)))
        drawn = np.sort(rng.choice(len(codes), size, replace=False, p=prices / prices.sum()))
        self.vectors = X[drawn] if old is None else stacked(old[kept], X[drawn])
        self.labels = np.concatenate([self.labels[kept], codes[drawn]])
        self.positions = np.concatenate([self.positions[kept], self.n_seen + drawn])
        self.landmarks = choose_landmarks(self.kernel, self.vectors, len(self.labels), rng, bias=self.bias)
        if old is None or self.coef is None:
            self.W = np.zeros((self._signs(codes[:1]).shape[1], self.landmarks.map.shape[1]))
            self.average = self.W.copy()
            return
        features = self.landmarks.transform(old)
        self.average = self.coef.T @ features
        self.W = self.average.copy() if was is None else was.expanded(self.W.T).T @ features


def _sample_gap(Z: Array, signs: Array, prices: Array, W: Array, price: float) -> Certificate:
    """Return the gap on some rows whose losses stand for all: D at the best multiple of the active losses.

    With p = prices / sum(prices) and lam = 1 / price, f and D are those of ``KernelHinge``, times price.
    """
    Z, p, n = Z.astype(np.float64, copy=False), prices / prices.sum(), len(prices)
    lengths, sizes = norms(Z, axis=1), norms(W, axis=1)
    errors = gamma(n + Z.shape[1] + 8) * (1.0 + lengths[:, None] * sizes)
    margins = 1.0 - signs * (Z @ W.T)
    act = (margins > 0.0).astype(np.float64)
    mass = p @ act
    square = (((p[:, None] * signs * act).T @ Z) ** 2).sum(axis=1)
    scale = np.minimum(np.divide(mass, price * square, out=np.ones_like(mass), where=square > 0.0), 1.0)
    share, reach = gamma(n + 16), p @ (lengths[:, None] * act)  # |sum p a y z| <= reach
    bound = total(price * scale * mass, share * price * scale * mass)
    bound -= total(0.5 * (price * scale) ** 2 * square, share * (price * scale * reach) ** 2)
    losses = p[:, None] * np.maximum(margins, 0.0)
    primal = squared_norm(W).times(0.5)
    primal += total(price * losses, price * (p @ errors + share * losses.sum(axis=0)))
    return duality_gap(primal, bound)._replace(kind="sample gap")


def in_form_of(vectors: Any, X: Any) -> Any:
    """Return a chunk in the form of the vectors: a dense array, or a CSR matrix."""
    if isinstance(vectors, np.ndarray):
        return X if isinstance(X, np.ndarray) else X.toarray()
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


def stacked(vectors: Any, X: Any) -> Any:
    """Return the vectors and, after them, the rows of a chunk in the same form."""
    if isinstance(vectors, np.ndarray):
        return np.concatenate([vectors, X.astype(vectors.dtype, copy=False)])
    from scipy.sparse import vstack

    return vstack([vectors, X.astype(vectors.dtype, copy=False)], format="csr")
