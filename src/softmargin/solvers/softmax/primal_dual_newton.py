"""Newton's method on primal and dual together, for ridge multinomial regression: raw features, large C.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                    maths: softmax, eq. 1
    optimal pairs:        ridge W + X' C (q - Y) = 0 ,   sum_i C_i (q_i - y_i) = 0 ,   log q_i = s_i - log sum exp s_i

The probabilities q have a life of their own, beside P = softmax(s), s = W'x + b. One Newton step on these equations
moves W and q at once; without its q part it is

    H(q) D = -(ridge W + X' C (q + J(q) (s - log q) - Y)) ,     J(q) = diag q - q q'              maths: softmax, eq. 37

For q = P that is Newton's step. Far from the optimum P is worthless: a sample that W gets wrong by a large margin has
no curvature, and one whose features few others have then makes the step endless, or the line search stop all others. So
q goes only some way towards P: with delta the step of log q, to q (1 + delta) where it grows, as Newton's step of q has
it, and to q / (1 - delta + delta^2 / 2) where it falls; and at least to min(P, floor), since a probability that was
nearly zero would take many steps to grow.

F is minimised along D where that is a descent direction; else only q moves. However short that step is, q follows the
scores at the end of D, as the primal and the dual steps of interior points have lengths of their own: the samples that
stopped the search, which had no curvature at q, then have some in the next system. Repeated, q tends to P and D to
Newton's step, which is one.

The ridge falls to that of the problem, by a factor after every step of nearly full length: the pairs (W, q) that are
optimal for one ridge after the other are the central path of this interior point. C (q - Y) / ridge stays as it is, and
with it W: q off the labels falls like the ridge (maths: softmax, eq. 43). From there one step leads to the next pair,
where a run from W = 0 with the last ridge has most of its steps cut. Systems become more exact once a step was cut, and
stay so.

The preconditioner (_class_grams) knows the correlations of up to 3000 features, class by class; wider X has a diagonal
one, and a system takes some hundred products with X and with X'. It is made anew when the products since then have cost
as much as making it. Where those of its first system alone cost more, the next one has twice as many rows, and
where they cost less than a quarter, half as many: near the optimum of classes that can be separated few rows bend, and
matrices of all of them cost no more than those of a sample. docs/results/hard.md has what raw data still take.

Source: primal-dual methods as in Wright (1997), chapter 1, for the entropy; the steps of q are ours.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import share_of_time
from softmargin.core.protocols import RidgeProblem
from softmargin.matrices.forms import laid_out
from softmargin.matrices.operator import row_squares
from softmargin.matrices.products import adjoint
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import Metric, conjugate_gradients
from softmargin.solvers.common.entropic import followed, log_softmax, log_step, lower_others
from softmargin.solvers.common.newton_search import NewtonSearch
from softmargin.solvers.common.rotation import Rotation, find_rotation
from softmargin.solvers.softmax._class_grams import (
    ClassGramTuning,
    MadeMetric,
    affords_class_grams,
    class_grams,
    products_work,
)
from softmargin.solvers.softmax._preconditioner import MetricTuning, curvatures, make_metric
from softmargin.solvers.softmax._ridge_objective import (
    RidgeObjective,
    RidgeSolver,
    RidgeState,
    WeightedRows,
)

__all__ = [
    "PrimalDualNewton",
    "PrimalDualNewtonState",
    "PrimalDualNewtonTuning",
    "PrimalDualPath",
    "all_scores",
    "bent_rows",
]

Array = NDArray[Any]
State = TypeVar("State", bound="PrimalDualNewtonState")


class PrimalDualNewtonTuning(NamedTuple):
    """The parts of the method, and how exact directions are."""

    # The first ridge, as a share of the mean C_i |x_i|^2, and the factor by which it falls after a step of at least
    # this share of its length, or whose slope is below this share of F: by hand, on mnist as 0 to 255 and isolet. At
    # C = 1000 a factor of 5 takes more than 63 steps on mnist, where 3 takes 28.
    first_ridge: float = 0.2
    fall: float = 3.0
    near: float = 0.9
    flat: float = 1e-3
    light: float = 0.08  # share of the ridge term in F up to which the ridge falls to its last value at once; by hand
    least_exact: float = 0.1  # first eta of conjugate gradients; by hand
    most_exact: float = 0.01  # least eta that cut steps lead to; by hand
    tighten: float = 3.0  # eta falls by this factor after a step that was cut; by hand
    floor: float = 0.1  # q is at least this share of one, or P; by hand
    first_rows: float = 4.0  # per feature, of the first preconditioner, and at least of any; by hand
    worn: float = 1.0  # work of products over that of their preconditioner, from which on it is made anew; by hand
    solved: float = 16.0  # multiplications in BLAS in the time of one of a triangular solve with one vector; timings
    faint: float = 1e-5  # share of the largest curvature below which rows are left out of a system; by hand, on mnist
    most_kept: float = 0.7  # share of the rows above which none are left out: a copy takes time, too; by hand
    share: float = 0.5  # of the time left, for the metric, and then for conjugate gradients; by hand
    grams: ClassGramTuning = ClassGramTuning()
    diagonal: MetricTuning = MetricTuning()
    search: NewtonSearch = NewtonSearch()


@dataclass
class PrimalDualNewtonState(RidgeState):
    """A point, the logarithms of its dual variables, and where the preconditioner was built."""

    logs: Array  # (n * n_classes,) log q
    anchor: Array  # (n * k,) the q from which the preconditioner was built
    seed: int
    ridge: float  # which F has at present
    exact: float  # eta of conjugate gradients
    anchor_ridge: float = 0.0  # that of F when the preconditioner was built
    n_metrics: int = 0
    per_feature: float = 0.0  # rows per feature of the preconditioner
    made: float = 0.0  # work of making it
    first: float = math.nan  # work of the products of its first system
    spent: float = math.inf  # work of all products since it was made
    cut: float = 0.0  # share of its length that the last step had; 1 where F was flat along it
    first_size: float = math.nan  # |right-hand side|^2 in the norm of the inverse metric, at the first step
    metric: Metric | None = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class PrimalDualPath(RidgeSolver[State]):
    """The path of ridges, step by step: with a ridge the whole run, with l1 its beginning."""

    tuning: PrimalDualNewtonTuning = PrimalDualNewtonTuning()

    state_type: ClassVar[type[Any]]

    def start(self, problem: RidgeProblem, init: CompositePoint | None, rng: np.random.Generator) -> State:
        """Begin at zero, or at ``init``, with its probabilities; those of labels are at least the floor.

        From ``init`` on the ridge is that of the problem.
        """
        objective = self._new_objective(problem)
        if init is None and problem.ridge > 0.0:
            steepness = float(problem.C @ row_squares(problem.X)) / max(objective.n, 1)
            objective.ridge = max(self.tuning.first_ridge * steepness, problem.ridge)
        state: State = objective.begin(
            self.state_type,
            init,
            logs=np.empty(objective.n * problem.n_classes),
            anchor=zeros(objective.n * objective.k),
            seed=int(rng.integers(2**32)),
            ridge=objective.ridge,
            exact=self.tuning.least_exact,
        )
        logs, labels = log_softmax(all_scores(objective, state.scores)), (np.arange(objective.n), problem.y)
        logs[labels] = np.maximum(logs[labels], math.log(self.tuning.floor))
        state.logs[:] = log_softmax(logs).ravel()
        return state

    def step(self, problem: RidgeProblem, state: State) -> State:
        """Solve for a direction; minimise F along it; move q."""
        objective, tuning = self._objective(problem, state), self.tuning
        if state.cut >= tuning.near and state.ridge > problem.ridge:
            self._lower_ridge(problem, objective, state)
        logs = state.logs.reshape(objective.n, -1)
        q = np.exp(logs)
        rows = objective.all_rows._replace(P=zeros(objective.n * objective.k))
        objective.matrix(rows.P)[:] = q[:, -problem.n_columns :]
        if state.spent > tuning.worn * state.made:
            self._renew(state, rows)
        if state.metric is None:
            objective.ridge = state.anchor_ridge  # another one after a checkpoint
            state.metric, state.made = self._metric(objective, rows._replace(P=state.anchor), state)
            objective.ridge = state.ridge
        right = self._right(objective, state, logs, q)
        size = float(right @ state.metric(right))
        if not state.first_size > 0.0:
            state.first_size = size
        bent, n_products, ahead = bent_rows(rows, objective.k, tuning.faint, tuning.most_kept), 0, state.scores
        scratch = objective.trial[: len(bent.P)]

        def product(V: Array, out: Array) -> None:
            nonlocal n_products
            n_products += 1
            objective.hessian_times(bent, V, scratch, out)

        if size > 0.0:
            exactness = min(state.exact, (size / state.first_size) ** 0.25)
            with share_of_time(tuning.share):
                D, _, _ = conjugate_gradients(product, right, state.metric, exactness)
            slope, length = float(state.gradient @ D), 0.0
            is_flat = abs(slope) <= tuning.flat * state.value
            if is_flat and not slope < 0.0:  # what is left of the gradient and of ``right`` is rounding
                with share_of_time(tuning.share):
                    D, _, _ = conjugate_gradients(product, -state.gradient, state.metric, exactness)
                slope = float(state.gradient @ D)
            if slope < 0.0:
                length = tuning.search.minimise(objective.line(state, D), slope)
                ahead = state.scores + max(1.0 - length, 0.0) * objective.T
            state.cut = 1.0 if is_flat else min(length, 1.0)
            if state.cut < tuning.near:
                state.exact = max(state.exact / tuning.tighten, tuning.most_exact)
        else:
            state.cut = 1.0
        work = n_products * self._product_work(objective, bent)
        state.first = state.first if state.spent > 0.0 else work
        state.spent += work
        logs[:] = followed(logs, q, all_scores(objective, ahead), tuning.floor)
        return state

    def _lower_ridge(self, problem: RidgeProblem, objective: RidgeObjective, state: State) -> None:
        """Lower the ridge, and with it q off the labels: W remains the weights of q."""
        W = state.weights[: objective.n_penalised]
        is_light = 0.5 * state.ridge * float(W @ W) <= self.tuning.light * state.value
        new = problem.ridge if is_light else max(state.ridge / self.tuning.fall, problem.ridge)
        lower_others(state.logs.reshape(objective.n, -1), problem.y, new / state.ridge)
        state.value += 0.5 * (new - state.ridge) * float(W @ W)
        state.gradient[: objective.n_penalised] += (new - state.ridge) * W
        state.ridge = objective.ridge = new

    def _right(self, objective: RidgeObjective, state: State, logs: Array, q: Array) -> Array:
        """Return -(ridge W + X' C (q + J(q) (s - log q) - Y))."""
        delta = log_step(logs, q, all_scores(objective, state.scores))
        U, right = zeros(len(objective.trial)), zeros(objective.size)
        objective.matrix(U)[:] = (q + q * delta)[:, -objective.problem.n_columns :]
        objective.losses.fill_residuals(U, U)
        adjoint(objective.X, U, objective.problem.bias, objective.k, right)
        right[: objective.n_penalised] += objective.ridge * state.weights[: objective.n_penalised]
        np.negative(right, out=right)
        return right

    def _renew(self, state: State, rows: WeightedRows) -> None:
        """Have the next preconditioner made at these rows, and choose how many of them it has."""
        least, most = self.tuning.first_rows, float(len(rows.C))
        if state.first > state.made:
            state.per_feature = min(2.0 * state.per_feature, most)
        elif not state.first > 0.25 * state.made:
            state.per_feature = 0.5 * state.per_feature
        state.per_feature = max(state.per_feature, least)
        state.anchor, state.anchor_ridge = rows.P, state.ridge
        state.n_metrics, state.metric, state.spent = state.n_metrics + 1, None, 0.0

    def _metric(self, objective: RidgeObjective, rows: WeightedRows, state: State) -> MadeMetric:
        """Make the preconditioner at the anchor of the state."""
        tuning, rng = self.tuning, np.random.default_rng((state.seed, state.n_metrics))
        bent = bent_rows(rows, objective.k, tuning.faint, tuning.most_kept)
        if affords_class_grams(*objective.shape, tuning.grams):
            grams = class_grams(objective, bent, state.per_feature, rng, tuning.grams)
        else:
            grams = MadeMetric(make_metric("diagonal", objective, bent, rng, tuning.diagonal).solve, 0.0)
        return grams._replace(work=grams.work + self._product_work(objective, bent))  # two passes over X choose rows

    def _product_work(self, objective: RidgeObjective, rows: WeightedRows) -> float:
        """Return the work of one product with H and one solution with its preconditioner: multiplications in BLAS."""
        k, tuning = objective.k, self.tuning
        solved = tuning.solved * rows.X.shape[1] ** 2 if affords_class_grams(*objective.shape, tuning.grams) else 0.0
        return products_work(rows.X, k) + k * solved

    def _new_objective(self, problem: RidgeProblem) -> RidgeObjective:
        n, d = problem.X.shape
        is_rotated = n < d and n <= self.tuning.grams.max_features
        return RidgeObjective(problem, find_rotation(problem.X) if is_rotated else Rotation(laid_out(problem.X)))

    def _rebuilt(self, problem: RidgeProblem, state: State) -> RidgeObjective:
        objective = self._new_objective(problem)
        objective.ridge = state.ridge
        return objective


@dataclass(frozen=True)
class PrimalDualNewton(PrimalDualPath[PrimalDualNewtonState]):
    """Newton's method on weights and probabilities together; it has no settings. One step is one linear system."""

    state_type: ClassVar[type[Any]] = PrimalDualNewtonState


def bent_rows(rows: WeightedRows, k: int, faint: float, most_kept: float) -> WeightedRows:
    """Return the rows whose losses bend; near the optimum of classes that can be separated these are few."""
    curvature = curvatures(rows, k)
    keep = np.flatnonzero(curvature > faint * curvature.max())
    if len(keep) == 0 or len(keep) > most_kept * len(curvature):
        return rows
    return WeightedRows(rows.X[keep], rows.P.reshape(-1, k)[keep].ravel(), rows.C[keep])


def all_scores(objective: RidgeObjective, flat: Array) -> Array:
    """Return scores of all classes, the pinned one included; shape (n, n_classes)."""
    scores = objective.matrix(flat)
    return np.hstack([np.zeros_like(scores), scores]) if objective.problem.is_pinned else scores
