"""A kernel SVM on a stream by stochastic conjugate subgradients: chunks feed the sample, and test its steps.

    S <- the rows of S with the largest coefficients, and rows of the chunk        at most ``budget`` of them
    T  = fresh rows of the chunk: each may test one step                           n / ``test_size`` steps a chunk

Paper 002 proposes this in its conclusion and gives no rule for a sample that is full. Here, when S is full as a chunk
comes, a share of it with the smallest coefficients makes room, and what these held is projected on the others. lam is
that of all rows seen, 1 / sum_i C_i; radii are in units of 1 / sqrt(lam). Every class has a sample of its own.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, summed
from softmargin.core.rounding import UNIT
from softmargin.estimators.posing.stream import KernelStream, Stream, in_form_of, stacked
from softmargin.estimators.posing.svm import binary_labels
from softmargin.kernels import Points
from softmargin.problems import ExpansionPoint, KernelHinge
from softmargin.solvers.sampled_kernel.conjugate_subgradient import ConjugateSubgradient

__all__ = ["ScsStream", "stream_of"]

Array = NDArray[Any]
JITTER = 1e-6  # share of the largest kernel value that keeps equations of near rows solvable; by hand
RENEWED = 0.25  # share of a full sample that makes room for rows of the next chunk; by hand


class _Sample(NamedTuple):
    """The sample of one class, and its coefficients."""

    vectors: Any  # (m, d)
    codes: Array  # (m,)
    positions: Array  # (m,) in the stream
    prices: Array  # (m,)
    alpha: Array  # (m,)
    radius: float = math.nan  # in units of 1 / sqrt(lam); NaN: not begun

    def take(self, kept: Array) -> "_Sample":
        """Return some of it."""
        own = (self.codes[kept], self.positions[kept], self.prices[kept], self.alpha[kept])
        return _Sample(self.vectors[kept], *own, radius=self.radius)

    def joined(self, chunk: "_Sample") -> "_Sample":
        """Return it with the rows of a chunk after its own."""
        codes, positions = (
            np.concatenate(pair) for pair in ((self.codes, chunk.codes), (self.positions, chunk.positions))
        )
        prices, alpha = (np.concatenate(pair) for pair in ((self.prices, chunk.prices), (self.alpha, chunk.alpha)))
        return _Sample(stacked(self.vectors, chunk.vectors), codes, positions, prices, alpha, self.radius)


@dataclass
class ScsStream(KernelStream):
    """Samples of at most ``budget`` rows, one for each class, and conjugate subgradients on them."""

    solver: ConjugateSubgradient = ConjugateSubgradient()
    samples: list[_Sample] = field(default_factory=list, init=False)

    def _learn(self, X: Any, codes: Array, prices: Array, budget: int, rng: np.random.Generator) -> Certificate:
        X = X if self.vectors is None else in_form_of(self.vectors, X)
        own = np.flatnonzero(prices)
        chunk = _Sample(X[own], codes[own], self.n_seen + own, prices[own], np.zeros(len(own)))
        self.n_seen, before = self.n_seen + len(codes), self.price
        self.price += float(prices.sum())
        signs = [2.0 * mine - 1.0 for mine in binary_labels(np.arange(self.n_classes), self.n_classes)]
        begun: list[_Sample | None] = [*self.samples]
        begun = begun or [self._first(c, before) for c in range(len(signs))]
        learnt = [self._one_class(*pair, chunk, budget, rng) for pair in zip(begun, signs, strict=True)]
        self.samples = [sample for sample, _ in learnt]
        self._join()
        return summed([certificate for _, certificate in learnt], 1.0)

    def _first(self, c: int, price: float) -> _Sample | None:
        """Return the sample that a model to begin with is."""
        if self.coef is None:
            return None
        prices = np.full(len(self.labels), price / max(self.n_seen, 1))
        return _Sample(self.vectors, self.labels, self.positions, prices, self.coef[:, c].copy())

    def _one_class(
        self, sample: _Sample | None, signs: Array, chunk: _Sample, budget: int, rng: np.random.Generator
    ) -> tuple[_Sample, Certificate]:
        """Make the steps of a class; return its sample and what is proven on it."""
        solver, rows = replace(self.solver, most=budget, settle=False), chunk
        m = 0
        if sample is not None:
            room = int(RENEWED * budget) if len(sample.alpha) >= budget else 0
            sample = self._shortened(sample, budget - room)
            rows, m = sample.joined(chunk), len(sample.alpha)
        problem = KernelHinge(
            self.kernel,
            rows.vectors,
            signs[rows.codes],
            lam=1.0 / self.price,
            weights=rows.prices,
            bias=self.bias,
            first_fresh=m,
            scale=self.price,
        )
        root = math.sqrt(problem.lam)
        known = ExpansionPoint(np.arange(m), rows.alpha[:m], np.zeros(m))
        state = solver.start(problem, known if m else None, rng)
        state.radius = state.radius if math.isnan(rows.radius) else rows.radius / root
        per_step = len(state.index) if solver.test_size is None else solver.test_size
        for _ in range(max(len(chunk.alpha) // per_step, 1)):
            state = solver.step(problem, state)
        certificate = problem.certificate(solver.point(problem, state))
        learnt = rows.take(state.index)
        return learnt._replace(alpha=state.alpha, radius=state.radius * root), certificate

    def _shortened(self, sample: _Sample, size: int) -> _Sample:
        """Return the rows of the largest coefficients, and the nearest model over them in the kernel's space."""
        order = np.argsort(-np.abs(sample.alpha), kind="stable")
        kept, gone = np.sort(order[:size]), order[size:]
        shorter = sample.take(kept)
        if not sample.alpha[gone].any():
            return shorter
        near, far = Points(shorter.vectors), Points(sample.vectors[gone])
        K = self.kernel.block(near, near).astype(np.float64) + self.bias**2
        K[np.diag_indices_from(K)] += JITTER * max(float(K.diagonal().max()), UNIT)
        lost = (self.kernel.block(near, far).astype(np.float64) + self.bias**2) @ sample.alpha[gone]
        return shorter._replace(alpha=shorter.alpha + np.linalg.solve(K, lost))

    def _join(self) -> None:
        """Make one expansion of the samples of all classes: a row that is in several of them is one vector."""
        everyone = self.samples[0].vectors
        for sample in self.samples[1:]:
            everyone = stacked(everyone, sample.vectors)
        places = np.concatenate([sample.positions for sample in self.samples])
        self.positions, first, inverse = np.unique(places, return_index=True, return_inverse=True)
        self.vectors, self.labels = everyone[first], np.concatenate([sample.codes for sample in self.samples])[first]
        self.coef = np.zeros((len(first), len(self.samples)))
        begin = 0
        for c, sample in enumerate(self.samples):
            self.coef[inverse[begin : begin + len(sample.alpha)], c] = sample.alpha
            begin += len(sample.alpha)


def stream_of(solver: Any, kernel: Any, n_classes: int, bias: float, *known: Any, **seen: Any) -> KernelStream:
    """Open the stream of a solver, by name or object: conjugate subgradients, or else averaged Pegasos."""
    is_given = isinstance(solver, ConjugateSubgradient)
    kind: Any = ScsStream if is_given or (isinstance(solver, str) and solver == "scs") else Stream
    stream: KernelStream = kind(kernel, n_classes, bias, *known, **seen, **({"solver": solver} if is_given else {}))
    return stream
