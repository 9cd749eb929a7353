"""Dual ascent on rows that come once: a chunk of rows gets its dual variables, adds them to W, and is forgotten.

    W = sum_i x_i alpha_i' / ridge     over all rows seen: the dual variables of earlier chunks are in it, and stay
    a chunk:   its alpha <- 0;   a few passes of exact block steps over it, from this W (``linear_svm._block_loop``)
    model:     mean <- mean + share (W - mean) every so many visits,   share such that W counts like visits^power

Maths: streams, section 1. No step has a length to choose, and every visit raises D, the dual value of all rows seen.
W alone is as noisy as its last rows; the mean is not. ``problems.seen`` keeps D and the sum that W is: it drifts here.

The softmax's intercept is the weight of a constant feature v here, which makes sum_i alpha_i = b ridge / v^2 and not
zero: against the mass of all rows that vanishes, and the bound makes up for it.

Source: where a chunk is one row and k = 2, this is the passive-aggressive method PA-I (Crammer et al. 2006); the mean
of its iterates is ours.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import alarm
from softmargin.core.rounding import Rounded, squared_norm
from softmargin.problems.composite import CompositePoint, RidgeComposite
from softmargin.problems.multiclass_svm import DualPoint, MulticlassSVM
from softmargin.problems.seen import SeenHinge, SeenSoftmax
from softmargin.solvers.linear_svm._block_loop import descend
from softmargin.solvers.linear_svm.block_descent import DualBlockDescent
from softmargin.solvers.softmax.dual_descent import SoftmaxDualDescent

__all__ = ["DualStreamTuning", "HingeStream", "SoftmaxStream", "stream_for"]

Array = NDArray[Any]


class DualStreamTuning(NamedTuple):
    """How a stream goes over its rows; found on a9a, letter and 20ng-bydate at C = 0.01 .. 1."""

    passes: int = 2  # over a chunk
    every: int = 1000  # visits after which W enters the mean
    power: int = 3  # of the number of visits, in the weights of the mean


TUNING = DualStreamTuning()


@dataclass
class _Stream:
    """What the two streams share: where they began, W now, the mean, and the sums over all rows."""

    first: Array  # (d + 1, k) W before any row, the intercept last
    weights: Array  # (d + 1, k)
    mean: Array  # (d + 1, k)
    seen: Any
    n_visits: int = 0

    def _ascend(
        self, solver: Any, problem: Any, state: Any, rows: Array, scales: Any, rng: np.random.Generator
    ) -> None:
        """Pass over a chunk; ``rows`` is where the passes keep W, in units of 1 / ``scales``."""
        dual, visits, work = solver.structs(problem, state)
        for _ in range(TUNING.passes):
            order = rng.permutation(state.order[: state.n_open])
            for begin in range(0, len(order), TUNING.every):
                part = order[begin : begin + TUNING.every]
                descend(dual, visits._replace(order=part), work, len(part), True, math.inf, 0, alarm())
                self.n_visits += len(part)
                share = (TUNING.power + 1.0) * len(part) / (self.n_visits + TUNING.power * len(part))
                self.mean = self.mean + share * (scales * rows - self.mean)


@dataclass
class HingeStream(_Stream):
    """A stream of a joint hinge loss, Weston-Watkins or Crammer-Singer."""

    solver: ClassVar[Any] = DualBlockDescent(working_set=False)

    @classmethod
    def begin(cls, problem: MulticlassSVM, point: DualPoint | None) -> "HingeStream":
        """Begin at zero, or at the weights of a point."""
        weights = (problem.zero() if point is None else point).weights
        return cls(weights, weights, weights, SeenHinge(problem))

    def learn(self, problem: MulticlassSVM, rng: np.random.Generator) -> None:
        """Learn from a chunk of rows."""
        n, k = len(problem.y), problem.n_classes
        state = self.solver.start(problem, None, rng)
        rows = state.weights.reshape(problem.X.shape[1] + 1, -1)[:, :k]
        rows += self.weights  # rows x_i = 0 have moved already
        self._ascend(self.solver, problem, state, rows, 1.0, rng)
        self.seen.add(problem, state.alpha.reshape(n, -1)[:, :k])
        self.weights = self.first + self.seen.V.value

    def point(self) -> DualPoint:
        """Return the mean; its dual variables are forgotten."""
        return DualPoint(np.empty((0, self.mean.shape[1])), self.mean)

    def losses(self, problem: MulticlassSVM) -> Rounded:
        """Return the losses of some rows by the mean."""
        return problem.losses(self.mean)

    def regulariser(self) -> Rounded:
        """Return 1/2 |W|^2 of the mean."""
        return squared_norm(self.mean).times(0.5)


@dataclass
class SoftmaxStream(_Stream):
    """A stream of ridge multinomial regression; the last row of its weights is the intercept."""

    constant: float = 0.0  # v, chosen by the first chunk

    solver: ClassVar[Any] = SoftmaxDualDescent(working_set=False)

    @classmethod
    def begin(cls, problem: RidgeComposite, point: CompositePoint | None) -> "SoftmaxStream":
        """Begin at zero, or at the weights of a point."""
        weights = np.zeros((problem.X.shape[1] + 1, problem.n_columns))
        if point is not None:
            weights[:-1], weights[-1] = point.weights, point.intercept
        return cls(weights, weights, weights, SeenSoftmax(problem))

    def learn(self, problem: RidgeComposite, rng: np.random.Generator) -> None:
        """Learn from a chunk of rows."""
        n, k = len(problem.y), problem.n_columns
        state = self.solver.start(problem, None, rng)
        self.constant = self.constant or state.constant
        state.sqnorms += self.constant**2 - state.constant**2
        state.constant = self.constant
        rows = state.weights.reshape(problem.X.shape[1] + 1, -1)[:, :k]
        scales = np.ones((len(rows), 1))
        scales[-1] = self.constant
        rows[:] = np.divide(self.weights, scales, out=np.zeros_like(self.weights), where=scales > 0.0)
        self._ascend(self.solver, problem, state, rows, scales, rng)
        logs = state.alpha.reshape(n, -1)[:, :k]
        self.seen.add(problem, _probabilities(logs))
        self.weights = scales * rows
        self.weights[:-1] = self.first[:-1] - self.seen.V.value / problem.ridge

    def point(self) -> CompositePoint:
        """Return the mean; the intercepts of three and more classes have mean zero."""
        intercept = self.mean[-1] - (self.mean[-1].mean() if self.mean.shape[1] > 1 else 0.0)
        return CompositePoint(self.mean[:-1], intercept)

    def losses(self, problem: RidgeComposite) -> Rounded:
        """Return the losses of some rows by the mean."""
        return problem.losses(self.point())

    def regulariser(self) -> Rounded:
        """Return ridge / 2 |W|^2 of the mean."""
        return squared_norm(self.mean[:-1]).times(0.5).times(self.seen.ridge)


def _probabilities(logs: Array) -> Array:
    """Return the probabilities of all classes: of log q (n, k), or of the logits (n, 1) of the second of two."""
    if logs.shape[1] > 1:
        P: Array = np.exp(logs)
        return P
    small = np.exp(-np.abs(logs))
    shares = np.hstack([small, np.ones_like(small)]) / (1.0 + small)
    return np.where(logs > 0.0, shares, shares[:, ::-1])


def stream_for(problem: Any, point: Any = None, n_seen: int = 0) -> HingeStream | SoftmaxStream:
    """Begin the stream of a problem, at zero or at a point that has seen so many rows."""
    kind: Any = SoftmaxStream if isinstance(problem, RidgeComposite) else HingeStream
    stream: HingeStream | SoftmaxStream = kind.begin(problem, point)
    stream.n_visits = TUNING.passes * n_seen
    return stream
