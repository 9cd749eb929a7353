"""What losses of linear scores share whose rows lie in blocks: passes over them, points, certificates.

Nothing here has the length of the data: a *pass* sends arrays of the size of the weights to every block, and brings
back one sum (``summed_passes``). The dual point of a point is never stored: its rows are the slopes of the losses at W,
made again where they are needed. Those of a hinge are slopes of the hinge with its corner rounded off over a width, so
that a point is (W, width). The formulas stand in ``summed``, whose problems say what is added to the losses.
"""

import hashlib
import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.deadline import check_time
from softmargin.core.errors import DataError
from softmargin.core.pieces import Array
from softmargin.core.rounding import Rounded, gamma
from softmargin.losses.smoothed import is_smooth
from softmargin.penalties.rounding import OPERATIONS
from softmargin.problems import summed_passes as passes
from softmargin.problems.block_rows import Form, Inverse
from softmargin.problems.blocks import Blocks, LocalBlocks
from softmargin.problems.linear_losses import Pulled
from softmargin.problems.summed_passes import Balance, Curvature, Scored

__all__ = ["SummedLosses", "SummedPoint"]

_WIDTH = 1e-3  # of the corner of a hinge whose weights alone are known; by hand
_BALANCED = 1e-5  # share of the losses that balance may cost before the intercept is improved, a pass or more; by hand
_MAX_STEPS = 20  # of Newton's method for the intercept; a guard


class SummedPoint(NamedTuple):
    """Weights, the last row those of the constant feature, and the width of a hinge's corner (0: no hinge)."""

    weights: Array  # (d + 1, k)
    width: float = 0.0


class SummedLosses:
    """A loss of linear scores over blocks; a subclass adds a function of the weights.

    Parameters
    ----------
    blocks : Blocks
    form : Form
        The loss, its columns, and the constant feature.
    """

    point_type: ClassVar[type] = SummedPoint

    def __init__(self, blocks: Blocks, form: Form) -> None:
        self.blocks, self.form = blocks, form
        if blocks.n == 0 or blocks.n_features == 0:
            raise DataError(f"X has shape {(blocks.n, blocks.n_features)}; rows and columns must exist.")

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the weights: (d + 1, k)."""
        return self.blocks.n_features + 1, self.form.n_columns

    @property
    def n_rows(self) -> int:
        """How many rows all blocks have."""
        return self.blocks.n

    @property
    def is_smooth(self) -> bool:
        """Whether the loss has no corners."""
        return is_smooth(self.form.loss)

    def sampled(self, every: int) -> Self:
        """Return the problem of one in so many rows, each at the price of all of them: one pass brings them here."""
        check_time()
        new = copy(self)
        new.__dict__.pop("_mass", None)
        new.blocks = LocalBlocks(self.blocks.each(passes.thinned, every))
        return new

    def scored(self, W: Array, width: float) -> Scored:
        """Return the losses and their gradient: one pass."""
        check_time()
        return self.blocks.total(passes.scored, self.form, W, width)

    def curvature(self, W: Array, width: float, entries: Array | None = None) -> Curvature:
        """Return the losses, their gradient and their Hessian, or its part for some entries of W, ascending.

        These are positions j k + c; those of the constant are among them, and the loss is smooth.
        """
        check_time()
        return self.blocks.total(passes.curvature, self.form, W, width, entries)

    def hessian_times(self, W: Array, V: Array, width: float) -> Array:
        """Return the Hessian at W times V: one pass."""
        check_time()
        return self.blocks.total(passes.hessian_times, self.form, W, V, width)[0]

    def metric(self, W: Array, width: float, n_grams: int, spare: float = 0.0) -> Array:
        """Return k matrices, or 1, (n_grams, d + 1, d + 1), or a diagonal (d + 1, k) like the Hessian: one pass.

        Their traces may be less than the Hessian has, by ``spare`` for every matrix.
        """
        check_time()
        return self.blocks.total(passes.metric, self.form, W, width, n_grams, spare / self.n_rows)[0]

    def inverse(self, factors: Sequence[Array]) -> Inverse:
        """Return what solves with L L' for each of some L, every one for its share of the columns."""
        return self.blocks.inverse(factors)

    def largest_curvature(self) -> Array:
        """Bound the diagonal of the Hessian of a smooth loss anywhere; (d + 1, 1). One pass."""
        check_time()
        return np.asarray(self.form.loss.curvature * self.blocks.total(passes.squares, self.form)[0])[:, None]

    def along(self, W: Array, D: Array, lengths: Array, width: float) -> Array:
        """Return the losses at W + t D for several lengths t: one pass."""
        check_time()
        return self.blocks.total(passes.along, self.form, W, D, lengths, width)[0]

    def zero(self) -> SummedPoint:
        """Return W = 0."""
        return SummedPoint(np.zeros(self.shape), 0.0 if self.is_smooth else 1.0)

    def checked_point(self, init: SummedPoint | None) -> SummedPoint:
        """Return where to start: ``init``, if its shape fits, or zero."""
        if init is None:
            return self.zero()
        if init.weights.shape != self.shape:
            raise DataError(f"a warm start needs weights of shape {self.shape}; found {init.weights.shape}.")
        return SummedPoint(np.array(init.weights, dtype=np.float64), 0.0 if self.is_smooth else init.width or _WIDTH)

    def warm_point(self, coef: Array, intercept: Array) -> SummedPoint | None:
        """Return the point that the weights of a model, (k, d) and (k,), are; None where they have another shape."""
        constant = self.form.constant
        columns = np.vstack([coef.T, intercept / constant if constant else np.zeros(len(intercept))])
        return SummedPoint(columns, 0.0 if self.is_smooth else _WIDTH) if columns.shape == self.shape else None

    def coef_and_intercept(self, point: SummedPoint) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,)."""
        W = point.weights
        intercept = self.form.constant * W[-1]
        if self.form.loss.is_joint and self.form.is_free:
            intercept = intercept - intercept.mean()
        return np.ascontiguousarray(W[:-1].T) + 0.0, intercept

    def value(self, W: Array) -> float:
        """Return g(W)."""
        raise NotImplementedError

    def _rounded_value(self, W: Array) -> Rounded:
        """Return g of the rows that it sees, with its error."""
        raise NotImplementedError

    def _bound(self, pulled: Pulled) -> Rounded:
        """Return D, given what dual variables do to the weights, and cost; minus infinity where g* is infinite."""
        raise NotImplementedError

    def _rough_bound(self, Z: Array, conjugates: float, losses: float) -> float:
        """Return about D, given Z and the sum of the conjugates."""
        raise NotImplementedError

    def rough_residual(self, W: Array, values: Array, gradient: Array, width: float) -> float:
        """Guess the residual at W, given what a pass returns there."""
        soft, hard, inner, entropies = values
        conjugates = float(inner - soft + width * entropies)
        if self.form.is_free:
            conjugates += _price_of_balance(gradient[-1], W)
        primal = float(hard + self.value(W))
        return relative_gap(primal, self._rough_bound(self.form.penalised(gradient), conjugates, float(hard)))

    @cached_property
    def _mass(self) -> Array:
        """The prices of every class of a joint loss; else nothing."""
        return self.blocks.total(passes.class_mass, self.form)[0] if self.form.loss.is_joint else np.zeros(1)

    def _balance(self, W: Array, width: float) -> Balance:
        check_time()
        return self.blocks.total(passes.balance, self.form, W, width, self._mass, self._excess(W))

    def primal(self, point: SummedPoint) -> Rounded:
        """Return P(W)."""
        return self._balance(point.weights, point.width).losses + self._rounded_value(point.weights)

    def certificate(self, point: SummedPoint) -> Certificate:
        """Return the duality gap at a point: two passes, and some more where the intercept is not the best one."""
        W, width = np.asarray(point.weights, dtype=np.float64), point.width
        if not np.isfinite(W).all():
            return Certificate("duality gap", math.inf, -math.inf, math.nan)
        here = self._balance(W, width)
        primal = here.losses + self._rounded_value(W)
        if not math.isfinite(primal.upper):
            return Certificate("duality gap", primal.upper, -math.inf, math.inf)
        if self.form.is_free:
            W, here = self._best_intercept(W, width, here)
        bound = self._dual(W, width, here.sums)
        # U = 0 is feasible, and no objective here is negative: D there is at least 0.
        return duality_gap(primal, bound if bound.lower >= 0.0 else Rounded(0.0))

    def _best_intercept(self, W: Array, width: float, here: Balance) -> tuple[Array, Balance]:
        """Return weights with a better intercept, and the balance there: Newton's method, halved where it fails."""
        slopes, length = self._slopes(here), 1.0
        for _ in range(_MAX_STEPS):
            size = float(np.abs(slopes).sum())
            if _price_of_balance(slopes, W) <= _BALANCED * here.losses.value:
                break
            step = -np.linalg.lstsq(here.bends, slopes, rcond=1e-12)[0]
            new = W.copy()
            new[-1] += length * step / self.form.constant
            there = self._balance(new, width)
            other = self._slopes(there)
            if float(np.abs(other).sum()) < size:
                W, here, slopes, length = new, there, other, 1.0
            elif length > 0.1:
                length *= 0.25
            else:
                break
        return W, here

    def _slopes(self, here: Balance) -> Array:
        """Return the derivatives by the intercepts; (k,)."""
        return np.asarray(here.sums[0] if self.form.loss.is_joint else here.sums[0] - here.sums[1])

    def _dual(self, W: Array, width: float, sums: Array) -> Rounded:
        """Return D at the slopes of W, balanced, or at a share of them where g* is infinite."""
        pulled = self._pulled(W, width, sums, 1.0)
        bound, scale, hair = self._bound(pulled), self._reach(pulled), gamma(OPERATIONS)
        while not math.isfinite(bound.value) and hair < 1.0:
            scale, hair = scale * (1.0 - hair), 2.0 * hair
            bound = self._bound(self._pulled(W, width, sums, scale))
        return bound

    def _reach(self, pulled: Pulled) -> float:
        """Return the share of dual variables at which g* may be finite."""
        return 1.0

    def _pulled(self, W: Array, width: float, sums: Array, scale: float) -> Pulled:
        check_time()
        found = self.blocks.total(passes.pull, self.form, W, width, sums, scale)
        # A sum over a block is one over its rows in any order; then over the blocks.
        roundings = self.blocks.most_rows + self.blocks.n_blocks
        return found.pulled(roundings, roundings, self.form.loss.is_joint, self.form.is_free)

    def _excess(self, W: Array) -> float:
        """Return by which share weights are outside their set, by rounding."""
        return 0.0

    def _settings(self) -> Any:
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Return a hash of the data in their blocks, the loss and what is added to it."""
        digests = self.blocks.each(passes.block_digest)
        return hashlib.sha256(repr((self._settings(), self.form, digests)).encode()).hexdigest()


def _price_of_balance(slopes: Array, W: Array) -> float:
    """Return about what it costs to balance the slopes: what is out of balance, times a score."""
    return float(np.abs(slopes) @ (1.0 + np.abs(W[-1])))
