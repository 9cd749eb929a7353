"""`--normalize`: rows of length 1, or columns of a common scale; what a model keeps of it, so that it takes raw rows.

    rows        x / |x|
    maxabs      x_j / max |x_j|
    standard    (x_j - mean_j) / deviation_j; sparse rows stay sparse: they are divided only
    quantile    the share of training rows with a smaller x_j, by interpolation between quantiles; dense rows only

Linear models have the scales and shifts of columns folded into weights and intercept.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.matrices.operator import row_squares
from softmargin.models import KernelExpansion, OneVsOne
from softmargin.sets import LowRank

__all__ = ["Scaling", "check_lengths", "fit_scaling", "scaling_of", "unscaled_note"]

Array = NDArray[Any]
_N_QUANTILES = 256  # between them lies a line: a model of 100 features keeps 200 kB; by hand
# Beyond this ratio of the largest to the smallest deviation of a column, solvers need many times the passes; by hand.
_UNEVEN = 1e3
# Beyond this ratio of a column's mean to its deviation, a linear SVM, whose intercept has a price, needs ten times the
# passes and tests worse; by hand.
_FAR = 10.0


class Scaling(NamedTuple):
    """How raw rows become the rows that a model was trained on."""

    how: str = "none"
    scales: Array | None = None  # (d,) what columns are divided by
    shifts: Array | None = None  # (d,) what is taken off before
    quantiles: Array | None = None  # (q, d)

    @property
    def is_affine(self) -> bool:
        """Whether weights and intercept can hold it."""
        return self.how in ("none", "maxabs", "standard")

    def apply(self, X: Any, source: str) -> Any:
        """Return rows as the model was trained on them, in the precision of X."""
        if self.how == "rows":
            return _unit_rows(X, source)
        if self.quantiles is not None:
            return _shares(_dense(X, source), self.quantiles)
        if self.scales is None:
            return X
        if isinstance(X, np.ndarray):
            return ((X if self.shifts is None else X - self.shifts) / self.scales).astype(X.dtype, copy=False)
        if self.shifts is not None:
            raise DataError(
                f"{source}: the model was trained on dense rows, from which a mean is taken off; these are sparse. "
                "Give dense rows."
            )
        return _divided(X, self.scales[X.indices])

    def folded(self, coef: Any, intercept: Array) -> tuple[Any, Array]:
        """Return weights and intercept that give raw rows the scores of scaled ones."""
        if self.scales is None:
            return coef, intercept
        coef = _times(coef, 1.0 / self.scales)
        return coef, intercept if self.shifts is None else intercept - _product(coef, self.shifts)

    def unfolded(self, coef: Any, intercept: Array) -> tuple[Any, Array]:
        """Return the weights and the intercept that `folded` had."""
        if self.scales is None:
            return coef, intercept
        shifted = intercept if self.shifts is None else intercept + _product(coef, self.shifts)
        return _times(coef, self.scales), shifted

    def as_info(self) -> dict[str, Any]:
        """Return what a model keeps, so that `certify` finds the problem that was solved."""
        arrays = {"column_scales": self.scales, "column_shifts": self.shifts, "column_quantiles": self.quantiles}
        return {"normalize": self.how, **{name: array for name, array in arrays.items() if array is not None}}

    @classmethod
    def from_info(cls, info: Mapping[str, Any], n_features: int) -> "Scaling":
        """Return what a model keeps; ValueError where these are no numbers for its columns."""
        how = str(info.get("normalize") or "none")
        if how not in ("none", "rows", "maxabs", "standard", "quantile"):
            raise ValueError(f"it normalises by {how!r}")
        found = {
            name: np.asarray(info[f"column_{name}"], dtype=np.float64)
            for name in ("scales", "shifts", "quantiles")
            if info.get(f"column_{name}") is not None
        }
        needed = {"maxabs": "scales", "standard": "scales", "quantile": "quantiles"}.get(how)
        shapes = [array.shape for array in found.values()]
        is_right = all(shape[-1:] == (n_features,) and len(shape) <= 2 for shape in shapes)
        is_right &= all(np.isfinite(array).all() for array in found.values())
        is_right &= bool((found.get("scales", np.ones(1)) > 0).all())
        if not is_right or (needed is not None and needed not in found):
            raise ValueError(f"its column_{needed} are not numbers for {n_features} columns")
        return cls(how, **found)


def scaling_of(model: Any) -> Scaling:
    """Return what is done to raw rows before a model scores them: nothing where its weights hold it."""
    scaling = Scaling.from_info(model.info, model.n_features)
    return scaling if isinstance(model, KernelExpansion | OneVsOne) or not scaling.is_affine else Scaling()


def fit_scaling(how: str, X: Any, source: str) -> Scaling:
    """Learn from the training rows what columns are scaled by."""
    is_dense = isinstance(X, np.ndarray)
    if how == "maxabs":
        scales = np.zeros(X.shape[1])
        if is_dense:
            np.maximum(X.max(axis=0), -X.min(axis=0), out=scales)
        else:
            np.maximum.at(scales, X.indices, np.abs(X.data))
        return Scaling(how, scales=_positive(scales))
    if how == "standard":
        means, deviations = _moments(X)
        return Scaling(how, scales=_positive(deviations), shifts=means if is_dense else None)
    if how == "quantile":
        levels = np.linspace(0.0, 1.0, min(_N_QUANTILES, X.shape[0]))
        return Scaling(how, quantiles=np.quantile(_dense(X, source).astype(np.float64), levels, axis=0))
    return Scaling(how)


def check_lengths(X: Any, source: str) -> None:
    """Refuse rows so long that the square of their length is infinite: no solver can move them."""
    is_finite = np.isfinite(_squared_lengths(X))
    if not is_finite.all():
        raise DataError(
            f"{source}: the squared length of row {int(np.argmin(is_finite))} (counted from 0) is not a finite number. "
            "--normalize maxabs scales the features."
        )


def unscaled_note(X: Any, *, may_be_far: bool = False) -> str | None:
    """Say that columns are of very different scale, or far from zero, where they are."""
    means, deviations = _moments(X)
    means, used = means[deviations > 0.0], deviations[deviations > 0.0]
    if not len(used):
        return None
    if used.max() >= _UNEVEN * used.min():
        return (
            f"the columns are of very different scale (standard deviations from {used.min():.2g} to {used.max():.2g}). "
            "The model is trained on them as they are; --normalize standard or maxabs often needs less time and tests "
            "better."
        )
    if may_be_far or not isinstance(X, np.ndarray):  # nothing moves the zeros of sparse rows
        return None
    distances = np.abs(means) / np.maximum(used, np.median(used))
    j = int(np.argmax(distances))
    if distances[j] < _FAR:
        return None
    return (
        f"a column is far from zero (mean {means[j]:.2g}, standard deviation {used[j]:.2g}). The model is trained on "
        "it as it is; --normalize standard often needs less time and tests better."
    )


def _moments(X: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation of every column, in float64."""
    if isinstance(X, np.ndarray):
        return X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    n = X.shape[0]
    means = np.bincount(X.indices, weights=X.data, minlength=X.shape[1]) / n
    centred = np.bincount(X.indices, weights=(X.data - means[X.indices]) ** 2, minlength=X.shape[1])
    n_stored = np.bincount(X.indices, minlength=X.shape[1])
    return means, np.sqrt((centred + (n - n_stored) * means**2) / n)


def _positive(scales: Array) -> Array:
    scales[scales == 0.0] = 1.0
    return scales


def _unit_rows(X: Any, source: str) -> Any:
    """Return X with rows of Euclidean length 1; rows of zeros stay."""
    check_lengths(X, source)
    lengths = _positive(np.sqrt(_squared_lengths(X)))
    return _divided(X, lengths[:, np.newaxis] if isinstance(X, np.ndarray) else np.repeat(lengths, np.diff(X.indptr)))


def _squared_lengths(X: Any) -> Array:
    """Return |x_i|^2 in float64, infinite where it overflows; (n,)."""
    with np.errstate(over="ignore"):
        return row_squares(X if isinstance(X, np.ndarray) else X.astype(np.float64, copy=False))


def _divided(X: Any, scales: Array) -> Any:
    """Return X / scales in the precision of X; scales of a sparse X are one per stored entry."""
    if isinstance(X, np.ndarray):
        return (X / scales).astype(X.dtype, copy=False)
    return type(X)(((X.data / scales).astype(X.dtype, copy=False), X.indices, X.indptr), shape=X.shape)


def _shares(X: Array, quantiles: Array) -> Array:
    """Return where every value lies among the quantiles of its column, from 0 to 1; of equal quantiles the middle."""
    levels = np.linspace(0.0, 1.0, len(quantiles))
    found = np.empty_like(X)
    for j in range(X.shape[1]):
        # Interpolation takes the last of equal quantiles; the same from the other side takes the first.
        upper = np.interp(X[:, j], quantiles[:, j], levels)
        lower = -np.interp(-X[:, j], -quantiles[::-1, j], -levels[::-1])
        found[:, j] = 0.5 * (upper + lower)
    return found


def _dense(X: Any, source: str) -> Array:
    if not isinstance(X, np.ndarray):
        raise IncompatibleError(
            f"{source}: --normalize quantile would make sparse rows dense. Use --normalize maxabs or standard."
        )
    return X


def _times(coef: Any, scales: Array) -> Any:
    """Return weights (k, d) with every column times its scale; factors stay factors."""
    if isinstance(coef, LowRank):
        return LowRank(coef.U, coef.s, coef.V * scales[:, np.newaxis])
    return coef * scales if isinstance(coef, np.ndarray) else coef.multiply(scales).tocsr()


def _product(coef: Any, x: Array) -> Array:
    """Return coef x; (k,)."""
    return np.asarray((coef.U * coef.s) @ (coef.V.T @ x) if isinstance(coef, LowRank) else coef @ x)
