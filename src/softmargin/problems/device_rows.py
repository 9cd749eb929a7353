"""A block of rows on a device: what a pass (``summed_passes``) asks of rows, computed there.

Arrays with a number for every row stay there: scores, slopes, bends. Back come sums of the size of the weights, which
are what a pass adds up. A certificate takes X W and X' U from the device, and does the rest, with its bounds on
rounding, as for any rows: in NumPy.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.arrays import Home, to_numpy
from softmargin.core.deadline import check_time
from softmargin.core.pieces import Array
from softmargin.losses import on_device
from softmargin.losses.smoothed import Bent
from softmargin.matrices.device_matrix import DeviceMatrix
from softmargin.matrices.operator import numbers_per_row, row_slices
from softmargin.problems.block_rows import Form, Inverse
from softmargin.problems.checks import digest_of
from softmargin.problems.linear_losses import LinearLosses

__all__ = ["DeviceBlock", "device_block"]

_PER_CLASS = 2  # numbers of a row that are kept for every class: its bends and its target


class DeviceBlock(NamedTuple):
    """Some of the rows, on a device; y and the prices also here, for certificates."""

    X: DeviceMatrix
    y: Array
    weights: Array
    y_there: Any
    weights_there: Any
    last: "_Bent"

    def pieces(self, form: Form, width: int = 1, numbers: int = 0) -> Iterator["DeviceRows"]:
        """Yield some rows after the others; ``width`` is how many numbers a row has while it is processed.

        Those of the sum, ``numbers``, matter little: tiles here are large.
        """
        X = self.X
        per_row = max(form.n_columns, numbers_per_row(X), width)
        for rows in row_slices(X.shape[0], per_row, numbers=X.tile_numbers):
            check_time()
            there = self.y_there[rows, ...], self.weights_there[rows]
            yield DeviceRows(X[rows], form, self.y[rows], self.weights[rows], *there)

    def bent_pieces(self, form: Form, W: Array, width: float) -> Iterable[tuple["DeviceRows", Any]]:
        """Return rows and their curvature at W: all rows, as to pick some costs more than it saves here.

        Those of the last W are kept where there is room: conjugate gradients ask for them again and again.
        """
        last, asked = self.last, (form, W.tobytes(), width)
        if last.asked == asked:
            return last.pieces
        last.asked, last.pieces = None, ()
        found = ((rows, rows.bent(form.loss, width, rows.times(W, form.constant)).bends) for rows in self.pieces(form))
        if not self.X.has_room(_PER_CLASS * form.n_columns):
            return found
        last.asked, last.pieces = asked, tuple(found)
        return last.pieces

    def inverse(self, factors: Sequence[Array]) -> Inverse:
        """Return what solves with L L' for each of some L, every one for its share of the columns: products there."""
        home, m = self.X.home, len(factors)
        xp = home.xp
        inverses = xp.linalg.inv(home.array(np.stack(factors)))
        adjoints = xp.matrix_transpose(inverses)

        def solved(V: Array) -> Array:
            d, k = V.shape
            right = home.array(V.reshape(d, m, k // m).transpose(1, 0, 2))
            found = to_numpy(xp.matmul(adjoints, xp.matmul(inverses, right)))
            return np.ascontiguousarray(found.transpose(1, 0, 2)).reshape(d, k)

        return solved

    def digest(self) -> str:
        """Return a hash of the rows."""
        return digest_of("block", self.X.host(), self.y, self.weights)


def device_block(X: DeviceMatrix, y: Array, weights: Array) -> DeviceBlock:
    """Return rows of X with their codes or numbers, and prices."""
    return DeviceBlock(X, y, weights, X.home.array(y), X.home.array(weights), _Bent())


class _Bent:
    """Rows and their curvature at the weights that were asked for last."""

    asked: tuple[Form, bytes, float] | None = None
    pieces: tuple[tuple["DeviceRows", Any], ...] = ()


class DeviceRows:
    """Some rows of a block."""

    def __init__(self, X: DeviceMatrix, form: Form, y: Array, prices: Array, y_there: Any, weights: Any) -> None:
        self.X, self.form, self.home, self.weights = X, form, X.home, weights
        self._y, self._prices, self._y_there = y, prices, y_there

    @cached_property
    def target(self) -> Any:
        """The targets, as ``Form.targets`` has them; (n, k)."""
        home, y, form = self.home, self._y_there, self.form
        if len(y.shape) == 1 and (form.loss.is_joint or form.loss.is_margin):
            k = form.n_columns
            y = y[:, None] == home.array(np.arange(k) if k > 1 else np.ones(1, dtype=int))
        elif form.loss.is_margin:
            y = y > 0
        y = home.wide(y)
        y = y if len(y.shape) == 2 else y[:, None]
        return 2.0 * y - 1.0 if form.loss.is_margin else y

    def times(self, W: Array, constant: float) -> Any:
        """Return [X, constant] W; (n, k)."""
        there = self.home.array(W)
        return self.X.times(there[:-1, :]) + constant * there[-1, :]

    def adjoint(self, V: Any, constant: float) -> Array:
        """Return [X, constant]' V; (d + 1, k)."""
        return self._with_last(self.X.adjoint(V), V, constant)

    def square_sums(self, V: Any, constant: float) -> Array:
        """Return the sums of squares of [X, constant], times V; (d + 1, k)."""
        return self._with_last(self.X.square_sums(V), V, constant**2)

    def _with_last(self, sums: Any, V: Any, last: float) -> Array:
        xp = self.home.xp
        return np.asarray(to_numpy(xp.concat([sums, last * xp.sum(V, axis=0, keepdims=True)], axis=0)))

    def dot(self, left: Any, right: Any) -> float:
        """Return the sum of all products."""
        return float(self.home.xp.sum(left * right))

    def bent(self, loss: Any, width: float, scores: Any) -> Bent:
        """Return the loss of scores up to second order."""
        return on_device.bent(self.home.xp, loss, width, scores, self.target)

    def values(self, loss: Any, scores: Any) -> Any:
        """Return the loss of scores, corners included; (n,)."""
        return on_device.hinge_values(self.home.xp, loss, scores, self.target)

    def curvature_times(self, loss: Any, bends: Any, moves: Any) -> Any:
        """Return the second derivative times a move of the scores; (n, k)."""
        return on_device.curvature_times(self.home.xp, loss, bends, moves, self.target)

    def curvature_diagonal(self, loss: Any, bends: Any) -> Any:
        """Return the diagonal of the second derivative; (n, k)."""
        return on_device.curvature_diagonal(self.home.xp, loss, bends, self.target)

    def mean_curvature(self, loss: Any, bends: Any) -> Any:
        """Return the diagonal of the second derivative, its mean over the columns; (n, 1)."""
        return self.home.xp.mean(self.curvature_diagonal(loss, bends), axis=1, keepdims=True)

    def shared(self, bends: Any, constant: float, features: Array, columns: Array) -> Array:
        """Return sum_i m_i m_i' ,  m_ie = a_ij b_ic / sqrt(sum(b_i))  for entries e = (j, c) of W; (m, m)."""
        xp = self.home.xp
        sums = xp.sum(bends, axis=1, keepdims=True)
        shares = xp.where(sums > 0.0, bends / xp.sqrt(xp.where(sums > 0.0, sums, 1.0)), 0.0)
        picked = features[features < self.X.d]
        last = self.home.full((self.X.n, len(features) - len(picked)), constant)
        A = xp.concat([self.X.columns(picked), last], axis=1)
        M = A * xp.take(shares, self.home.array(columns), axis=1)
        return np.asarray(to_numpy(xp.matmul(xp.matrix_transpose(M), M)))

    def curved(self, bends: Any, constant: float, features: Array | None = None) -> "DeviceCurved":
        """Return [X, constant], or some of its columns, as an array."""
        picked = None if features is None else features[features < self.X.d]
        last = self.home.full((self.X.n, 1), constant)
        return DeviceCurved(self.home, self.home.xp.concat([self.X.columns(picked), last], axis=1), bends, self._y)

    def problem(self, form: Form) -> LinearLosses:
        """Return the losses of these rows, for a certificate."""
        X = self.X.with_constant(form.constant) if form.is_penalised else self.X
        return LinearLosses(X, form.targets(self._y), form.loss, self._prices, form.is_free)


class DeviceCurved(NamedTuple):
    """Rows, and Gram matrices of them."""

    home: Home
    A: Any  # (n, d)
    bends: Any  # (n, k)
    labels: Array  # (n,)

    def gram(self, column: int, label: int | None = None) -> Array:
        """Return A' diag(b_c) A, of all rows or of those with a label."""
        xp, A, weights = self.home.xp, self.A, self.bends[:, column]
        if label is not None:
            mine = self.home.array(np.flatnonzero(self.labels == label))
            A, weights = xp.take(A, mine, axis=0), xp.take(weights, mine, axis=0)
        return np.asarray(to_numpy(xp.matmul(xp.matrix_transpose(A), A * weights[:, None])))

    def without(self, spare: float) -> "DeviceCurved":
        """Return all rows: to pick some costs more than it saves here."""
        return self

    def shared(self) -> Array:
        """Return sum_i a_i a_i' (x) b b' / sum(b); (d k, d k). Rows without curvature add nothing."""
        xp = self.home.xp
        sums = xp.sum(self.bends, axis=1, keepdims=True)
        shares = self.bends / xp.where(sums > 0.0, sums, xp.ones_like(sums)) ** 0.5
        M = xp.reshape(self.A[:, :, None] * shares[:, None, :], (self.A.shape[0], -1))
        return np.asarray(to_numpy(xp.matmul(xp.matrix_transpose(M), M)))
