"""Dual ascent on rows that come once: a chunk of rows gets its dual variables, adds them to W, and is forgotten.

    W = sum_i x_i alpha_i' / ridge     over all rows seen: the dual variables of earlier chunks are in it, and stay
    a chunk:   its alpha <- 0;   a few passes of exact block steps over it, from this W (``linear_svm._block_loop``)
    model:     mean <- mean + share (W - mean) every so many visits,   share such that W counts like visits^power

Maths: streams, section 1. No step has a length to choose, and every visit raises D, the dual value of all rows seen.
W alone is as noisy as its last rows; the mean is not. ``problems.seen`` keeps D and the sum that W is: it drifts here.

The softmax's intercept is the weight of a constant feature v here, which makes sum_i alpha_i = b ridge / v^2 and not
zero: against the mass of all rows that vanishes, and the bound makes up for it. v is like other entries of X: where it
is much larger, intercepts follow the classes of the last chunk, and the features learn little from rows that come in
the order of their classes.

Two classes have one variable a row and one column of weights: the loops of ``_pair_ascent``, a fraction as long.

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
from softmargin.matrices.rows import as_rows, squared_norms
from softmargin.problems.composite import CompositePoint, RidgeComposite
from softmargin.problems.multiclass_svm import DualPoint, MulticlassSVM
from softmargin.problems.seen import SeenHinge, SeenSoftmax, losses_of_pairs
from softmargin.solvers._pair_ascent import approach, ascend_pairs
from softmargin.solvers.linear_svm._block_loop import demand_finite, descend
from softmargin.solvers.linear_svm.block_descent import DualBlockDescent
from softmargin.solvers.softmax.dual_descent import SoftmaxDualDescent

__all__ = ["DualStreamTuning", "HingeStream", "PairStream", "SoftmaxStream", "Stream", "stream_for"]

Array = NDArray[Any]


class DualStreamTuning(NamedTuple):
    """How a stream goes over its rows; found on a9a, letter and 20ng-bydate at C = 0.01 .. 1."""

    passes: int = 2  # over a chunk
    every: int = 1000  # visits after which W enters the mean
    worth: float = 8.0  # and after which they have read so many entries of X for each feature: the mean is as long as W
    power: int = 3  # of the number of visits, in the weights of the mean
    accuracy: float = 0.1  # of two classes: length of a last step of Newton's method; its square is neglected
    longest: float = 0.8  # the same of a step from a known share; its fourth power is neglected
    again: float = 0.02  # of two classes: Q share below which a logistic row is not visited again; costs 1 % of D


TUNING = DualStreamTuning()
LARGEST_CONSTANT = 2.0  # v of a softmax, in root mean squares of the entries of X that are not zero: maths, eq. 3a


@dataclass
class _Stream:
    """What streams share: where they began, W now, the mean, and the sums over all rows."""

    first: Array | None  # (d + 1, k) W before any row, the intercept last; two classes have one column; None: zero
    weights: Array  # the same shape; the last row is enough where V gives the others
    mean: Array  # the same shape
    seen: Any
    n_visits: int = 0


@dataclass
class _BlockStream(_Stream):
    """A stream of three and more classes, by exact steps of whole dual rows."""

    solver: ClassVar[Any]

    def _ascend(self, problem: Any, state: Any, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Pass over a chunk, from the W of the state, whose last row is divided by ``scale``."""
        rows = state.weights.reshape(len(self.mean), -1)
        dual, visits, work = self.solver.structs(problem, state)
        order = np.concatenate([rng.permutation(state.order[: state.n_open]) for _ in range(TUNING.passes)])
        n_entries = problem.X.size if isinstance(problem.X, np.ndarray) else problem.X.nnz
        every = max(TUNING.every, int(TUNING.worth * problem.X.shape[1] * len(problem.y) / max(n_entries, 1)))
        before, mean = self.mean, np.empty_like(self.mean)
        for begin in range(0, len(order), every):
            part = order[begin : begin + every]
            visited = visits._replace(order=part, is_permuted=False)
            descend(dual, visited, work, len(part), True, math.inf, 0, alarm())
            self.n_visits += len(part)
            share = (TUNING.power + 1.0) * len(part) / (self.n_visits + TUNING.power * len(part))
            approach(before, rows, scale, share, mean)
            before = mean
        self.mean = before


@dataclass
class HingeStream(_BlockStream):
    """A stream of a hinge loss: Weston-Watkins, Crammer-Singer or one-vs-rest."""

    solver: ClassVar[Any] = DualBlockDescent(working_set=False)

    @classmethod
    def begin(cls, problem: MulticlassSVM, point: DualPoint | None) -> "HingeStream":
        """Begin at zero, or at the weights of a point."""
        weights = (problem.zero() if point is None else point).weights
        return cls(None if point is None else weights, weights, weights, SeenHinge(problem))

    def learn(self, problem: MulticlassSVM, rng: np.random.Generator) -> None:
        """Learn from a chunk of rows."""
        state = self.solver.start(problem, None, rng)
        state.weights.reshape(len(self.weights), -1)[:, : problem.n_classes] = self.weights
        self._ascend(problem, state, rng)
        self.seen.add(problem, state.alpha.reshape(len(problem.y), -1)[:, : problem.n_classes])
        V = self.seen.V.value
        self.weights = V if self.first is None else self.first + V

    def coef_and_intercept(self, problem: MulticlassSVM) -> tuple[Array, Array]:
        """Return the mean in scikit-learn's shapes."""
        return self.mean[:-1].T, problem.bias * self.mean[-1]

    def losses(self, problem: MulticlassSVM) -> Rounded:
        """Return the losses of some rows by the mean."""
        return problem.losses(self.mean)

    def regulariser(self) -> Rounded:
        """Return 1/2 |W|^2 of the mean."""
        return squared_norm(self.mean).times(0.5)


@dataclass
class SoftmaxStream(_BlockStream):
    """A stream of ridge multinomial regression; its weights are the intercept, as V gives the others."""

    constant: float = 0.0  # v, chosen by the first chunk

    solver: ClassVar[Any] = SoftmaxDualDescent(working_set=False)

    @classmethod
    def begin(cls, problem: RidgeComposite, point: CompositePoint | None) -> "SoftmaxStream":
        """Begin at zero, or at the weights of a point."""
        weights = np.zeros((problem.X.shape[1] + 1, problem.n_columns))
        if point is not None:
            weights[:-1], weights[-1] = point.weights, point.intercept
        return cls(None if point is None else weights, weights[-1:], weights, SeenSoftmax(problem))

    def learn(self, problem: RidgeComposite, rng: np.random.Generator) -> None:
        """Learn from a chunk of rows."""
        state = self.solver.start(problem, None, rng)
        self.constant = self.constant or (first_constant(problem) if problem.fit_intercept else 0.0)
        state.sqnorms += self.constant**2 - state.constant**2
        state.constant = self.constant
        rows, scale = state.weights.reshape(len(self.mean), -1)[:, : problem.n_columns], self.constant or 1.0
        np.multiply(self.seen.V.value, -1.0 / problem.ridge, out=rows[:-1])
        if self.first is not None:
            rows[:-1] += self.first[:-1]
        rows[-1] = self.weights[-1] / scale
        self._ascend(problem, state, rng, scale)
        self.weights = rows[-1:] * scale
        logs = state.alpha.reshape(len(problem.y), -1)[:, : problem.n_columns]
        self.seen.add(problem, np.exp(logs))

    def coef_and_intercept(self, problem: RidgeComposite) -> tuple[Array, Array]:
        """Return the mean in scikit-learn's shapes; its intercepts have mean zero."""
        return self.mean[:-1].T, self.mean[-1] - self.mean[-1].mean()

    def losses(self, problem: RidgeComposite) -> Rounded:
        """Return the losses of some rows by the mean."""
        coef, intercept = self.coef_and_intercept(problem)
        return problem.losses(CompositePoint(coef.T, intercept))

    def regulariser(self) -> Rounded:
        """Return ridge / 2 |W|^2 of the mean."""
        return squared_norm(self.mean[:-1]).times(0.5).times(self.seen.ridge)


@dataclass
class PairStream(_Stream):
    """A stream of two classes: the column of the second; that of a hinge's first class is its opposite."""

    is_logistic: bool = False
    constant: float = 0.0  # v of the softmax, chosen by the first chunk; the hinge's is given

    @classmethod
    def begin(cls, problem: Any, point: Any) -> "PairStream":
        """Begin at zero, or at the weights of a point."""
        is_logistic = isinstance(problem, RidgeComposite)
        weights = np.zeros(problem.X.shape[1] + 1)
        if point is not None and is_logistic:
            weights[:-1], weights[-1] = point.weights[:, 0], point.intercept[0]
        elif point is not None:
            weights[:] = point.weights[:, 1]
        seen = SeenSoftmax(problem) if is_logistic else SeenHinge(problem)
        first, constant = None if point is None else weights, 0.0 if is_logistic else problem.bias
        return cls(first, weights, weights, seen, is_logistic=is_logistic, constant=constant)

    def learn(self, problem: Any, rng: np.random.Generator) -> None:
        """Learn from a chunk of rows."""
        n, ridge = len(problem.y), problem.ridge if self.is_logistic else 1.0
        prices = problem.C / ridge
        order = np.flatnonzero(prices)
        if self.is_logistic and problem.fit_intercept:
            self.constant = self.constant or first_constant(problem)
        scale = self.constant if self.is_logistic and self.constant else 1.0  # the loop's last weight is b / scale
        weights, mean = self.weights.copy(), self.mean.copy()
        weights[-1], mean[-1] = weights[-1] / scale, mean[-1] / scale
        squares, shares, random = np.zeros(n), np.zeros(n), rng.integers(1, 2**63, size=1, dtype=np.uint64)
        rows, duals = as_rows(problem.X, self.constant), (self.is_logistic, shares, np.zeros(n), weights, mean)
        n_visits = ascend_pairs(
            rows, problem.y, prices, squares, *duals, order, random, _settings(), self.n_visits, alarm()
        )
        demand_finite(squares)  # before anything of the stream changes
        self.n_visits = n_visits
        mean[-1] *= scale
        self.seen.add(problem, shares)
        own = self.seen.V.value[:, -1]
        if self.is_logistic:
            weights[-1] *= scale
            weights[:-1] = -own / ridge
        else:
            weights = own.copy()
        if self.first is not None:
            weights[: len(own)] += self.first[: len(own)]
        self.weights, self.mean = weights, mean

    def coef_and_intercept(self, problem: Any) -> tuple[Array, Array]:
        """Return the mean in scikit-learn's shapes."""
        column = self.mean if self.is_logistic else 2.0 * self.mean
        return column[None, :-1], problem.bias * column[-1:]

    def losses(self, problem: Any) -> Rounded:
        """Return the losses of some rows by the mean."""
        factor = 1.0 if self.is_logistic else 2.0
        return losses_of_pairs(problem, problem.bias, self.mean, factor=factor, is_logistic=self.is_logistic)

    def regulariser(self) -> Rounded:
        """Return ridge / 2 |w|^2 of the mean, or 1/2 |W|^2 of both columns of a hinge."""
        if self.is_logistic:
            return squared_norm(self.mean[:-1]).times(0.5).times(self.seen.ridge)
        return squared_norm(self.mean)


def _settings() -> tuple[int, int, int, float, float, float]:
    return TUNING.passes, TUNING.every, TUNING.power, TUNING.accuracy, TUNING.longest, TUNING.again


Stream = HingeStream | SoftmaxStream | PairStream


def first_constant(problem: RidgeComposite) -> float:
    """Return v of a softmax, by the rows of a first chunk: that of a fit, or less where entries of X are small."""
    is_open = problem.C > 0.0
    if not is_open.any():
        return 0.0
    X = problem.X if is_open.all() else problem.X[is_open]
    squares = np.empty(X.shape[0])
    squared_norms(as_rows(X), squares)
    curvature = squares.mean() + 4.0 * problem.ridge / problem.C[is_open].mean()
    largest = SoftmaxDualDescent().tuning.rho_share * curvature
    n_entries = np.count_nonzero(X if isinstance(X, np.ndarray) else X.data)
    if n_entries > 0:
        largest = min(largest, LARGEST_CONSTANT**2 * squares.sum() / n_entries)
    return math.sqrt(largest)


def stream_for(problem: Any, point: Any = None, n_seen: int = 0) -> Stream:
    """Begin the stream of a problem, at zero or at a point that has seen so many rows."""
    kind: Any = SoftmaxStream if isinstance(problem, RidgeComposite) else HingeStream
    stream: Stream = (PairStream if problem.n_classes == 2 else kind).begin(problem, point)
    stream.n_visits = TUNING.passes * n_seen
    return stream
