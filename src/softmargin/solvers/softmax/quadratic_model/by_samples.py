"""Quadratic models of the losses around W, descended by entries or by rows of W.

    q(D) = <G, D> + 1/2 <D, H D> + g(W + D)

Passes that crawl are helped by Anderson's extrapolation: the affine combination of the last passes' ends whose steps
nearly cancel, taken where it lowers q.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.matrices.products import times
from softmargin.solvers.softmax._losses import stride_of, unpadded
from softmargin.solvers.softmax.quadratic_model.loops import entry_curvatures, entry_pass, row_curvatures, row_pass
from softmargin.solvers.softmax.quadratic_model.samples import Sample

__all__ = ["EntryModel", "RowModel", "descend", "floored", "value_of"]

Array = NDArray[Any]
TINY = 1e-300  # the curvature of a feature that is zero everywhere
DEPTH = 5  # passes that an extrapolation looks back
MOST_KEPT = 1 << 23  # numbers of one response above which no history is kept
RIDGE = 1e-10  # share of the trace added before steps are combined


def floored(curvature: Array, least: Array, stretch: float) -> Array:
    """Keep curvatures away from zero, where a step would be endless; ``stretch`` them all."""
    return stretch * np.maximum(curvature, least + TINY)


@dataclass
class EntryModel:
    """A model in single entries of W. ``features`` are ordered by class, from starts[c] to ends[c]."""

    problem: Any
    sample: Sample
    W: Array
    G: Array
    features: Array
    starts: Array
    ends: Array
    stretch: float
    V: Array = field(init=False)
    response: Array = field(init=False)  # (k * m,) T, class-major

    def __post_init__(self) -> None:
        """Compute the curvatures; begin at D = 0."""
        m, k = len(self.sample.C), self.problem.n_columns
        self.rows = np.unique(self.features)
        self.V = self.W.copy()
        self.P = np.ascontiguousarray(unpadded(self.problem, self.sample.P).T).reshape(-1)
        self.response, self.means = np.zeros(k * m), np.zeros(m)
        bends = np.empty(len(self.features))
        sample = self.sample
        entry_curvatures(sample.columns, sample.C, self.P, sample.damping, self.starts, self.ends, self.features, bends)
        self.curvature = floored(bends, sample.least[self.features], self.stretch)
        self.all = self.features.copy(), self.ends.copy(), self.curvature.copy()

    @property
    def is_complete(self) -> bool:
        """Whether no block has left the list."""
        return bool((self.ends == self.all[1]).all())

    def reopen(self) -> None:
        """Put back the blocks that have left the list."""
        self.features[:], self.ends[:], self.curvature[:] = self.all

    def descend(self) -> float:
        """Make a pass; return its sum h step^2."""
        problem, sample = self.problem, self.sample
        return float(
            entry_pass(
                sample.columns,
                problem.penalty,
                self.G,
                self.V,
                stride_of(problem),
                problem.X.shape[1],
                sample.C,
                self.P,
                sample.damping,
                problem.is_pinned,
                self.response,
                self.means,
                self.starts,
                self.ends,
                self.features,
                self.curvature,
            )
        )

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Descend; say whether it was cut short."""
        return descend(self, accuracy, max_passes)

    def settle(self) -> None:
        """Bring what is derived from the response up to date."""
        if not self.problem.is_pinned:
            np.einsum("ci,ci->i", self._by_class(self.P), self._by_class(self.response), out=self.means)

    def bend(self) -> float:
        """Return <D, H D>."""
        P, T, sample = self._by_class(self.P), self._by_class(self.response), self.sample
        squares = np.einsum("ci,ci,ci->i", P, T, T) + sample.damping * np.einsum("ci,ci->i", T, T)
        means = P[0] * T[0] if self.problem.is_pinned else self.means
        return float(sample.C @ (squares - means * means))

    def scores_move(self) -> Array | None:
        """Return [X, 1] D of all samples, (n, k), where it is at hand."""
        return self._by_class(self.response).T if self.sample.rows is None else None

    def _by_class(self, flat: Array) -> Array:
        return flat.reshape(self.problem.n_columns, -1)


@dataclass
class RowModel:
    """A model in whole rows of W; ``width`` entries at a time have a prox of their own."""

    problem: Any
    sample: Sample
    W: Array
    G: Array
    features: Array
    width: int
    is_coupled: bool
    stretch: float
    V: Array = field(init=False)
    response: Array = field(init=False)  # (m * k,) R

    def __post_init__(self) -> None:
        """Compute the curvatures; begin at D = 0."""
        k = stride_of(self.problem)
        self.rows = self.features.copy()
        self.n_features = len(self.features)
        self.V = self.W.copy()
        self.response, self.scores = zeros(len(self.sample.P)), zeros(len(self.sample.P))
        bends, sample = zeros(len(self.features) * k), self.sample
        row_curvatures(
            sample.columns, sample.C, sample.P, sample.damping, k, self.problem.is_pinned, self.features, bends
        )
        self.curvature = floored(bends, np.repeat(sample.least[self.features], k), self.stretch)
        self.all = self.features.copy(), self.curvature.copy()

    @property
    def is_complete(self) -> bool:
        """Whether no block has left the list."""
        return self.n_features == len(self.features)

    def reopen(self) -> None:
        """Put back the blocks that have left the list."""
        self.features[:], self.curvature[:] = self.all
        self.n_features = len(self.features)

    def descend(self) -> float:
        """Make a pass; return its sum h step^2."""
        problem, sample = self.problem, self.sample
        change, self.n_features = row_pass(
            sample.columns,
            problem.penalty,
            self.G,
            self.V,
            stride_of(problem),
            problem.n_columns,
            self.width,
            problem.X.shape[1],
            sample.C,
            sample.P,
            sample.damping,
            self.is_coupled,
            self.response,
            self.features,
            self.n_features,
            self.curvature,
        )
        return float(change)

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Descend; say whether it was cut short."""
        return descend(self, accuracy, max_passes)

    def settle(self) -> None:
        """Nothing is derived from the response."""

    def bend(self) -> float:
        """Return <D, H D>."""
        times(self.sample.X, self.V - self.W, self.problem.bias, stride_of(self.problem), self.scores)
        return float(self.scores @ self.response)

    def scores_move(self) -> None:
        """Say that [X, 1] D is not at hand."""


def value_of(model: Any) -> float:
    """Return q(D), with g of the features in play only."""
    V, W, G = (unpadded(model.problem, flat)[model.rows] for flat in (model.V, model.W, model.G))
    is_feature = model.rows < model.problem.X.shape[1]
    return float(np.vdot(G, V - W)) + 0.5 * model.bend() + float(model.problem.penalty.value(V[is_feature]))


def descend(model: Any, accuracy: float, max_passes: int) -> bool:
    """Pass over the model until a pass changes less than ``accuracy`` times the first; say whether it was cut short."""
    V = unpadded(model.problem, model.V)
    keeps_history = model.response.size <= MOST_KEPT
    points: list[Array] = []
    responses: list[Array] = []
    first = model.descend()
    for _ in range(max_passes - 1):
        if keeps_history:
            points.append(V[model.rows])
            responses.append(model.response.copy())
        if len(points) > DEPTH:
            _extrapolate(model, V, points, responses)
            points, responses = [], []
        saw_all = model.is_complete
        if model.descend() <= accuracy * first:
            if saw_all:
                return False
            model.reopen()
    return True


def combination(steps: Array) -> Array:
    """Return shares, of sum 1, with which these steps nearly cancel."""
    gram = steps @ steps.T
    size = float(np.trace(gram))
    if size == 0.0:
        return np.eye(DEPTH)[-1]
    gram += RIDGE * size * np.eye(DEPTH)
    share = np.linalg.solve(gram, np.ones(DEPTH))
    return share / share.sum()


def _extrapolate(model: Any, V: Array, points: list[Array], responses: list[Array]) -> None:
    """Replace the last point by the combination of all whose steps nearly cancel, if that lowers q."""
    share = combination(np.diff(responses, axis=0))
    before = value_of(model)
    # As differences to the last point: what did not change stays as it is, to the last bit.
    for s, point, response in zip(share[:-1], points[1:-1], responses[1:-1], strict=True):
        V[model.rows] += s * (point - points[-1])
        model.response += s * (response - responses[-1])
    model.settle()
    if not value_of(model) < before:
        V[model.rows] = points[-1]
        model.response[:] = responses[-1]
        model.settle()
