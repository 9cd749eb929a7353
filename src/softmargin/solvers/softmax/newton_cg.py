"""Newton's method for multinomial regression with a ridge, by conjugate gradients on a sample of the Hessian.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                    maths: softmax, eq. 1
    H V = X' C (P T - P <P, T>) + ridge V,      T = X V                                           maths: softmax, eq. 25

One step solves H D = -G approximately, and minimises F along D. G and the line are exact; H only gives the direction,
and most rows contribute little to it, as their class is certain. So H is the sum over rows drawn by their curvature
(_preconditioner.sample_rows), twice as many whenever the curvature along D was clearly not what the sample predicted;
in the end, all of them. H is damped where the step is far too long.

    CG stops at       |r| <= eta |G| in the norm of the inverse metric,   eta = min(1/4, (|G| / |G at the start|)^(1/2))
    preconditioner    _preconditioner, of the same rows, one matrix for all classes; or _class_grams, one for each

Where features are many, classes share one matrix, scaled to the diagonal of each: enough where the correlations of all
classes are alike. Codes of categories, whose columns add up to the constant, have correlations that hang on the weights
of the rows: what is nearly singular in the shared matrix is not in that of a class, and in the norm of its inverse a
gradient far from zero seems small. So where the shared matrix is nearly singular, and those of the classes cost few
products, these are made; and wherever the products of one system cost more than they do.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import has_time_for, share_of_time
from softmargin.core.parameters import OneOf
from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import Metric, conjugate_gradients
from softmargin.solvers.common.newton_search import NewtonSearch
from softmargin.solvers.softmax._class_grams import (
    ClassGramTuning,
    affords_class_grams,
    class_grams,
    making_work,
    products_work,
)
from softmargin.solvers.softmax._preconditioner import PRECONDITIONERS, MetricTuning, make_metric, sample_rows
from softmargin.solvers.softmax._ridge_objective import Damping, RidgeObjective, RidgeSolver, RidgeState, WeightedRows

__all__ = ["NewtonCG", "NewtonCGState", "NewtonCGTuning"]

Array = NDArray[Any]


class NewtonCGTuning(NamedTuple):
    """The parts of the method; how exact directions are, and how many rows they come from."""

    least_exact: float = 0.25  # largest eta; by hand
    sampled_exact: float = 0.15  # least eta with a sample: by hand, its Hessian is no more exact than that
    first_rows: int = 6000  # of the first sample, by hand ...
    rows_per_feature: int = 8  # ... or this many per feature, by hand
    misjudged: float = 1.3  # factor by which a sample may err about the curvature along D; by hand
    share: float = 0.5  # of the time left, for the metric, and then for conjugate gradients; by hand
    # A matrix for each class: pivots of the shared one below which it is nearly singular (0.01 to 0.05 with codes of
    # categories, 0.9 with independent features), and the products that those may cost then; made codes and leaves100.
    # Otherwise the products of a system, over their work, from which on they are made; optdigits, leaves100, isolet.
    # From zero, the first systems of all classes are alike: they take the shared one.
    least_pivot: float = 0.05
    shared_steps: int = 2
    few_products: float = 6.0
    dear: float = 2.0
    per_feature: float = 4.0  # rows of such a matrix; by hand
    grams: ClassGramTuning = ClassGramTuning()
    metric: MetricTuning = MetricTuning()
    search: NewtonSearch = NewtonSearch()
    damping: Damping = Damping()


@dataclass
class NewtonCGState(RidgeState):
    """A point, and how many rows the next sample has."""

    seed: int
    n_rows: int
    is_by_class: bool = False  # the preconditioner has one matrix for each class
    damping: float = 0.0
    first_size: float = math.nan  # |G|^2 in the norm of the inverse metric, at the first step


@dataclass(frozen=True)
class NewtonCG(RidgeSolver[NewtonCGState]):
    """Settings of Newton's method. One step is one direction: as many products as it takes.

    Parameters
    ----------
    preconditioner : {"auto", "none", "diagonal", "gram"}
        What conjugate gradients know of the Hessian beforehand: nothing, its diagonal, or the Gram matrix of some
        rows; "auto" is the Gram matrix for a modest number of features, else the diagonal.
    sampled : bool
        Sum the Hessian over a sample of the rows, as long as that is good enough; False takes all rows.
    """

    preconditioner: str = "auto"
    sampled: bool = True
    tuning: NewtonCGTuning = NewtonCGTuning()

    allowed: ClassVar = {"preconditioner": (OneOf(*PRECONDITIONERS),)}
    state_type: ClassVar[type[Any]] = NewtonCGState

    def start(self, problem: RidgeProblem, init: CompositePoint | None, rng: np.random.Generator) -> NewtonCGState:
        """Begin at zero, or at ``init``."""
        n, d = problem.X.shape
        n_rows = max(self.tuning.first_rows, self.tuning.rows_per_feature * (d + 1)) if self.sampled else n
        return self._new_objective(problem).begin(NewtonCGState, init, seed=int(rng.integers(2**32)), n_rows=n_rows)

    def step(self, problem: RidgeProblem, state: NewtonCGState) -> NewtonCGState:
        """Solve for a direction; minimise F along it."""
        objective, tuning = self._objective(problem, state), self.tuning
        rng = np.random.default_rng((state.seed, state.n_steps))
        rows = every = objective.all_rows
        if 2 * state.n_rows <= objective.n:
            rows = sample_rows(objective, every, state.n_rows, rng, tuning.metric)
        is_sampled = rows is not every
        with share_of_time(tuning.share):
            metric = self._metric(objective, state, rows, rng)
        T, n_products = zeros(len(rows.P)) if is_sampled else objective.trial, 0

        def product(V: Array, out: Array) -> None:
            nonlocal n_products
            n_products += 1
            objective.hessian_times(rows, V, T, out)
            if state.damping > 0.0:
                out += state.damping * objective.diagonal_bound * V

        size = float(state.gradient @ metric(state.gradient))
        if not state.first_size > 0.0:
            state.first_size = size
        if not size > 0.0:
            return state
        exactness = min(tuning.least_exact, (size / state.first_size) ** 0.25)
        exactness = max(exactness, tuning.sampled_exact if is_sampled else 0.0)
        with share_of_time(tuning.share):
            D, residual, _ = conjugate_gradients(product, -state.gradient, metric, exactness)
        if n_products * products_work(rows.X, objective.k) > tuning.dear * self._making(objective, rows):
            state.is_by_class = True
        slope = float(state.gradient @ D)
        if not slope < 0.0:
            state.damping = tuning.damping.after(state.damping, 0.0)
            return state
        line, first = objective.line(state, D), 1.0
        if is_sampled:
            predicted, curvature = -slope - float(residual @ D), line.curvature()  # <D, H D>, by the sample and by all
            first = -slope / curvature if curvature > 0.0 else 1.0
            if not predicted < tuning.misjudged * curvature < tuning.misjudged**2 * predicted:
                state.n_rows *= 2
        length = tuning.search.minimise(line, slope, first)
        state.damping = tuning.damping.after(state.damping, length, first)
        return state

    def _metric(
        self, objective: RidgeObjective, state: NewtonCGState, rows: WeightedRows, rng: np.random.Generator
    ) -> Metric:
        """Make the preconditioner of these rows: with one matrix for all classes, or one for each."""
        tuning, making = self.tuning, self._making(objective, rows)
        if not (state.is_by_class and making < math.inf):
            made = make_metric(self.preconditioner, objective, rows, rng, tuning.metric)
            is_cheap = making <= tuning.few_products * products_work(rows.X, objective.k)
            if made.pivot >= tuning.least_pivot or state.n_steps < tuning.shared_steps or not is_cheap:
                return made.solve
            state.is_by_class = True
        return class_grams(objective, rows, tuning.per_feature, rng, tuning.grams).solve

    def _making(self, objective: RidgeObjective, rows: WeightedRows) -> float:
        """Return the work of one matrix for each class; infinite where there shall be none, or is no time."""
        (d, k), tuning = objective.shape, self.tuning
        has_them = objective.problem.n_columns > 1 and d <= tuning.metric.features_per_class
        if self.preconditioner != "auto" or has_them or not affords_class_grams(d, k, tuning.grams):
            return math.inf
        work = making_work(rows.X, k, tuning.per_feature, tuning.grams)
        return work if has_time_for(work) else math.inf
