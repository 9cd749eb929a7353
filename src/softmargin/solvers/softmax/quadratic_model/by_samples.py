"""Quadratic models of the losses around W, minimised by passes over the samples: by entries or by rows of W.

    q(D) = <G, D> + 1/2 <D, H D> + g(W + D)

Where passes converge slowly, Anderson's extrapolation helps: it takes the affine combination of the last passes' ends
whose steps nearly cancel, where that lowers q.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import alarm, check_time, is_time_up
from softmargin.matrices.products import times
from softmargin.solvers.softmax._losses import SoftmaxLosses
from softmargin.solvers.softmax.quadratic_model.loops import (
    BlockList,
    ModelPoint,
    SampleTerms,
    entry_curvatures,
    entry_pass,
    row_curvatures,
    row_pass,
)
from softmargin.solvers.softmax.quadratic_model.model_probabilities import fill_probabilities
from softmargin.solvers.softmax.quadratic_model.samples import Samples, density

__all__ = ["AndersonTuning", "EntryModel", "LossExpansion", "QuadraticModel", "RowModel", "used"]

Array = NDArray[Any]
ANDERSON_RIDGE = 1e-10  # share of the trace of the Gram matrix of steps added to its diagonal, so that it is regular


class AndersonTuning(NamedTuple):
    """Constants of the extrapolation."""

    depth: int = 5  # steps that are combined; maths: softmax, section 10
    most_kept: int = 1 << 23  # numbers of one response above which no history is kept: memory; by hand


class LossExpansion(NamedTuple):
    """The losses to second order around W."""

    losses: SoftmaxLosses
    W: Array  # ((d + 1) * k,)
    G: Array  # ((d + 1) * k,) gradient at W
    samples: Samples  # of the Hessian


class QuadraticModel:
    """q(D) over some blocks of W, at V = W + D."""

    def __init__(self, around: LossExpansion, rows: Array) -> None:
        self.losses, self.W, self.G, self.samples = around
        self.problem, self.V = self.losses.problem, self.W.copy()
        self.rows = rows  # features of the blocks, the constant one included
        self.own = rows < self.problem.X.shape[1]  # which of them are penalised
        self.work = 0.0  # multiply-adds in loops so far, or in their time

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the blocks until a pass changes less than ``accuracy`` times the first; return whether cut off."""
        raise NotImplementedError

    def squared_length(self) -> float:
        """Return <D, H D>."""
        raise NotImplementedError

    def scores_move(self) -> Array | None:
        """Return [X, 1] D of all samples, (n, k), where it is cached."""
        return None

    def fill_move(self, T: Array) -> None:
        """Write [X, 1] D of all samples to T, flat."""
        move = self.scores_move()
        if move is None:
            self.losses.fill_move(self.V - self.W, T)
        else:
            self.losses.matrix(T)[:] = move

    def dual(self, T: Array) -> Array:
        """Return the probabilities of the model, flat, where it is solved so well that they prove more; or nothing.

        T is the move of the scores.
        """
        return np.zeros(0)

    def probabilities(self, T: Array) -> Array:
        """Return the probabilities of a model of all samples, flat, where the scores have moved by T."""
        problem, samples, q = self.problem, self.samples, zeros(len(T))
        own = samples.P, T, samples.C, samples.damping, problem.C
        fill_probabilities(*own, self.losses.k, problem.n_columns, q)
        return q

    def penalised(self) -> tuple[Array, Array]:
        """Return W and V where they are penalised, at least all of it where they differ."""
        rows = self.rows[self.own]
        return self.losses.matrix(self.W)[rows], self.losses.matrix(self.V)[rows]

    def slope(self) -> float:
        """Return <G, D>."""
        return float(self.G @ (self.V - self.W))

    def value(self) -> float:
        """Return q(D), with g of the features in the model only."""
        V = self.losses.matrix(self.V)[self.rows[self.own]]
        return self.slope() + 0.5 * self.squared_length() + float(self.problem.penalty.value(V))


class _BySamples(QuadraticModel):
    """A model that passes minimise; ``response`` is what they keep up to date beside V."""

    response: Array
    every: BlockList  # all blocks; ``listed`` are those that the next pass visits
    columns: int = 1  # of W in a block

    def __init__(self, around: LossExpansion, rows: Array, anderson: AndersonTuning) -> None:
        super().__init__(around, rows)
        problem, self.anderson = self.problem, anderson
        self.at = ModelPoint(self.V, self.G, self.losses.k, problem.n_columns, problem.is_pinned, problem.X.shape[1])

    def one_pass(self) -> float:
        """Make a pass over the listed blocks; return its sum h step^2."""
        raise NotImplementedError

    def update(self) -> None:
        """Recompute what is derived from the response."""

    def descend(self) -> tuple[float, bool]:
        """Make a pass over the listed blocks; return its sum h step^2, and whether all blocks were listed."""
        saw_all = bool((self.listed.ends == self.every.ends).all())
        visits = self.columns * float((self.listed.ends - self.listed.starts).sum())
        self.work += visits * density(self.samples.X) * len(self.samples.C)
        return self.one_pass(), saw_all

    def reopen(self) -> None:
        """Put back the blocks that have left the list."""
        self.listed = BlockList(*(part.copy() for part in self.every))

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the blocks until a pass changes less than ``accuracy`` times the first; return whether cut off."""
        V = self.losses.matrix(self.V)
        keeps_history = self.response.size <= self.anderson.most_kept
        points: list[Array] = []
        responses: list[Array] = []
        first, _ = self.descend()
        for _ in range(max_passes - 1):
            if keeps_history:
                points.append(V[self.rows])
                responses.append(self.response.copy())
            if len(points) > self.anderson.depth:
                self._extrapolate(V, points, responses)
                points, responses = [], []
            if is_time_up():
                break
            change, saw_all = self.descend()
            if change <= accuracy * first:
                if saw_all:
                    return False
                self.reopen()
        return True

    def _extrapolate(self, V: Array, points: list[Array], responses: list[Array]) -> None:
        """Replace the last point by the combination of all whose steps nearly cancel, if that lowers q."""
        share = _cancelling(np.diff(responses, axis=0))
        before = self.value()
        # As differences to the last point: what did not change stays as it is, to the last bit.
        for s, point, response in zip(share[:-1], points[1:-1], responses[1:-1], strict=True):
            V[self.rows] += s * (point - points[-1])
            self.response += s * (response - responses[-1])
        self.update()
        if not self.value() < before:
            V[self.rows] = points[-1]
            self.response[:] = responses[-1]
            self.update()


def _cancelling(steps: Array) -> Array:
    """Return shares, of sum 1, with which these steps nearly cancel."""
    gram, one = steps @ steps.T, np.eye(len(steps))
    size = float(np.trace(gram))
    if size == 0.0:
        return np.asarray(one[-1])
    gram += ANDERSON_RIDGE * size * one
    share = np.linalg.solve(gram, np.ones(len(steps)))
    return np.asarray(share / share.sum())


def used(features: Array) -> Array:
    """Return the features of some entries, each once, in order."""
    return np.flatnonzero(np.bincount(features))


class EntryModel(_BySamples):
    """A model in the entries (features[e], classes[e]) of W, ordered by class; ``response`` is T, class-major."""

    def __init__(self, around: LossExpansion, features: Array, classes: Array, anderson: AndersonTuning) -> None:
        super().__init__(around, used(features), anderson)
        samples, m, k = self.samples, len(self.samples.C), self.problem.n_columns
        P = np.ascontiguousarray(self.losses.matrix(samples.P).T).reshape(-1)
        self.terms = SampleTerms(samples.columns, samples.C, P, samples.damping)
        self.response, self.means = np.zeros(k * m), np.zeros(m)
        bounds = np.searchsorted(classes, np.arange(k + 1))
        starts, ends, curvature = bounds[:-1].copy(), bounds[1:].copy(), np.empty(len(features))
        entry_curvatures(self.terms, features, starts, ends, curvature, alarm())
        check_time()
        self.every = BlockList(features, samples.floored(curvature, features), starts, ends)
        self.reopen()

    def one_pass(self) -> float:
        """Make a pass over the listed entries; return its sum h step^2."""
        return float(
            entry_pass(self.problem.penalty, self.terms, self.at, self.listed, self.response, self.means, alarm())
        )

    def update(self) -> None:
        """Recompute the means."""
        if not self.problem.is_pinned:
            np.einsum("ci,ci->i", self._by_class(self.terms.P), self._by_class(self.response), out=self.means)

    def squared_length(self) -> float:
        """Return <D, H D>."""
        P, T, damping = self._by_class(self.terms.P), self._by_class(self.response), self.terms.damping
        squares = np.einsum("ci,ci,ci->i", P, T, T) + damping * np.einsum("ci,ci->i", T, T)
        means = P[0] * T[0] if self.problem.is_pinned else self.means
        return float(self.terms.C @ (squares - means * means))

    def scores_move(self) -> Array | None:
        """Return [X, 1] D of all samples, (n, k), where it is cached."""
        return self._by_class(self.response).T if self.samples.rows is None else None

    def _by_class(self, flat: Array) -> Array:
        return flat.reshape(self.problem.n_columns, -1)


class RowModel(_BySamples):
    """A model in whole rows of W, ``width`` entries to a prox; ``response`` is R."""

    def __init__(self, around: LossExpansion, features: Array, width: int, anderson: AndersonTuning) -> None:
        super().__init__(around, features, anderson)
        samples, self.width, k = self.samples, width, self.losses.k
        self.columns = self.problem.n_columns
        self.terms = SampleTerms(samples.columns, samples.C, samples.P, samples.damping)
        self.response, self.scores = zeros(len(samples.P)), zeros(len(samples.P))
        curvature = zeros(len(features) * k)
        row_curvatures(self.terms, features, k, self.problem.is_pinned, curvature, alarm())
        check_time()
        curvature = samples.floored(curvature, np.repeat(features, k))
        self.every = BlockList(features, curvature, np.zeros(1, dtype=np.int64), np.array([len(features)]))
        self.reopen()

    def one_pass(self) -> float:
        """Make a pass over the listed rows; return its sum h step^2."""
        penalty, is_coupled = self.problem.penalty, self.samples.is_coupled
        return float(
            row_pass(penalty, self.terms, is_coupled, self.at, self.listed, self.width, self.response, alarm())
        )

    def squared_length(self) -> float:
        """Return <D, H D>."""
        times(self.samples.X, self.V - self.W, self.problem.bias, self.losses.k, self.scores)
        return float(self.scores @ self.response)
