"""A quadratic model of the losses plus |.|_1 whose minimum is found with one factor of its Hessian, for a sparse X.

    q(D) = <G, D> + 1/2 <D, H D> + strength |W + D|_1

The same q as by entries, without damping. A few passes settle most signs; then H is factored on the nonzero entries and
those that are next to leave zero (support_factor), and steps with this factor and exact gradients of q are made until
these are as small as the proof asks. The factor also serves models around later points that are near.

The probabilities of the model, p + J T, T = X D, have the gradient of q. Where that is within the bounds of the
penalty, they are a dual point that proves more than the probabilities at W + D, whose gradient has terms of second
order in D.                                                                                    maths: softmax, eq. 41
"""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.aim import wanted_residual
from softmargin.core.deadline import is_time_up
from softmargin.core.protocols import L1Problem
from softmargin.matrices.products import adjoint
from softmargin.solvers.softmax.quadratic_model.by_samples import AndersonTuning, EntryModel, LossExpansion
from softmargin.solvers.softmax.quadratic_model.support_factor import (
    FactorTuning,
    SupportFactor,
    make_factor,
    nearest_slopes,
)

__all__ = ["FactoredModel", "FactoredTuning", "affords_factor"]

Array = NDArray[Any]


class FactoredTuning(NamedTuple):
    """When a model has a factor, and how it is used."""

    most_entries: int = 10_000  # 400 MB; by hand
    # Multiply-adds of the factor, m^3 / 6, in the time in which a pass visits one nonzero of X for one entry: 23 ps and
    # 8.6 ns on news20
    visit: float = 375.0
    damping: float = 1e-3  # of the losses, from which on there is no factor: H without damping was bad; by hand
    passes: int = 6  # before the factor; by hand
    next_to: float = 0.03  # share of the strength from which a zero's slope is when the factor has it; by hand
    rounds: int = 12  # steps with the factor in a model; by hand
    exact: float = 0.5  # gradient that is left, over the strength and the wanted residual; by hand
    least_exact: float = 1e-6  # the same over the strength, at least: what single precision allows; by hand
    most_exact: float = 1e-2  # and at most; by hand
    stall: float = 0.7  # share of the gradient that a step may leave before the next is not worth its time; by hand
    near: float = 0.03  # residual from which on the factor serves another model; by hand
    factor: FactorTuning = FactorTuning()


def affords_factor(columns: Any, features: Array, max_passes: int, tuning: FactoredTuning) -> bool:
    """Return whether a factor on the entries in these features takes no longer than passes over them."""
    visits = float(np.diff(columns.indptr)[features].sum())
    return len(features) <= tuning.most_entries and len(features) ** 3 / 6.0 <= max_passes * visits * tuning.visit


class FactoredModel(EntryModel):
    """A model in the entries (features[e], classes[e]) of W, ordered by class; others may become nonzero."""

    def __init__(
        self,
        around: LossExpansion,
        features: Array,
        classes: Array,
        anderson: AndersonTuning,
        tuning: FactoredTuning,
        factor: SupportFactor | None = None,
    ) -> None:
        C = around.losses.problem.C
        samples = replace(around.samples, C=C, damping=np.zeros(len(C)))
        super().__init__(around._replace(samples=samples), features, classes, anderson)
        self.tuning, self.factor, self.classes = tuning, factor, classes
        self.strength = cast(L1Problem, self.problem).strength
        self.T = zeros(len(samples.P))  # X D

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Make some passes, and steps with the factor; return whether these did not come to an end."""
        if self.factor is None:
            super().minimise(accuracy, self.tuning.passes)
            self.losses.fill_move(self.V - self.W, self.T)
        slopes = self.G + self._pushed(self.T)
        if self.factor is None:
            self.factor = self._new_factor(slopes)
        is_cut = self.factor is None or not self._settle(self.factor, slopes)
        self._by_class(self.response)[:] = self.losses.matrix(self.T).T
        self.update()
        return is_cut

    def dual(self, T: Array) -> Array:
        """Return the probabilities of the model; (n * k,)."""
        return self.probabilities(T)

    def _new_factor(self, slopes: Array) -> SupportFactor | None:
        """Factor H on what is not zero, the intercept, and what is next to leave zero."""
        V, G = self.losses.matrix(self.V), self.losses.matrix(slopes)
        is_free = np.zeros(V.shape, dtype=bool)
        is_free[-1] = bool(self.problem.fit_intercept)
        is_listed = (V != 0.0) | (np.abs(G) > (1.0 - self.tuning.next_to) * self.strength) | is_free
        is_listed[-1] = is_free[-1]
        if is_listed.sum() > self.tuning.most_entries:
            is_listed = (V != 0.0) | is_free
        curvature = np.zeros(V.shape)  # what q loses without an entry is h v^2 / 2
        curvature[self.every.features, self.classes] = self.every.curvature
        sizes = np.abs(V) * np.sqrt(curvature)
        return make_factor(self.samples, is_listed, sizes, is_free, self.tuning.factor)

    def _settle(self, factor: SupportFactor, slopes: Array) -> bool:
        """Make steps with the factor until the gradient is small; return whether it became so."""
        tuning, entries, last = self.tuning, factor.entries, np.inf
        V, G = self.losses.matrix(self.V), self.losses.matrix(slopes)
        self.rows = np.union1d(self.rows, entries.features)
        self.own = self.rows < self.problem.X.shape[1]
        exact = min(max(tuning.exact * wanted_residual(), tuning.least_exact), tuning.most_exact)
        for _ in range(tuning.rounds):
            g, v = G[entries], V[entries]
            pulls = np.where(factor.is_free, 0.0, nearest_slopes(g, v, self.strength))
            off = float(np.abs(g + pulls).max(initial=0.0)) / self.strength
            if off <= exact:
                return True
            if off > tuning.stall * last or is_time_up():
                return False
            last = off
            if not self._go(factor, factor.step(g, v, self.problem.penalty, pulls), slopes):
                return False
        return False

    def _go(self, factor: SupportFactor, x: Array, slopes: Array) -> bool:
        """Move by x, or to the least q on the way; return whether that lowers q. ``slopes`` follow."""
        V, entries = self.losses.matrix(self.V), factor.entries
        g, v, D, T = self.losses.matrix(slopes)[entries], V[entries], zeros(len(self.V)), zeros(len(self.T))
        self.losses.matrix(D)[entries] = x
        self.losses.fill_move(D, T)
        response = self._pushed(T)
        rise = np.where(factor.is_free, 0.0, np.abs(v + x) - np.abs(v)).sum()
        fall = -float(g @ x) - self.strength * float(rise)
        squared = float(D @ response)
        if not fall > 0.0:
            return False
        length = 1.0 if squared <= 1.5 * fall else fall / squared  # a whole step keeps zeros
        V[entries] = v + x if length == 1.0 else v + length * x
        self.T += length * T
        slopes += length * response
        return True

    def _pushed(self, T: Array) -> Array:
        """Return X' C J T, flat: what a move of the scores by T adds to the gradient."""
        out, U = zeros(len(self.G)), zeros(len(T))
        self.losses.fill_curvature(self.samples.P, T, self.samples.C, U)
        adjoint(self.losses.X, U, self.problem.bias, self.losses.k, out)
        return out
