"""What kernel matrices share, wherever their values are: in memory (``gram``) or on a device (``device_gram``).

Dual variables and scores, (n, k), are NumPy's in both. A subclass has ``points``, ``n``, ``dtype`` and the verbs that
solvers call; here is what the judge asks, with proven bounds on rounding, and what a checkpoint holds.
"""

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.core.parameters import POSITIVE, checked
from softmargin.core.rounding import KernelErrors, Rounded, ScoreErrors, total, totals
from softmargin.kernels.formulas import errors_of
from softmargin.matrices.gram_checks import ROUNDING, check_symmetric

__all__ = ["GramMemory", "Judged", "KernelMatrix", "Moment", "check_finite"]

Array = NDArray[Any]


class Judged(NamedTuple):
    """K alpha, bounds on its rounding errors, and <alpha, K alpha>."""

    scores: Array  # (n, k)
    errors: ScoreErrors
    square: Rounded

    def squares(self, alpha: Array) -> list[Rounded]:
        """Return <alpha_c, K alpha_c> of every column of alpha, which was judged."""
        columns = np.ascontiguousarray(alpha.T)
        return totals(columns * self.scores.T, 2.0 * self.errors.of_energies(columns))


def _square(alpha: Array, scores: Array, errors: ScoreErrors) -> Rounded:
    """Return <alpha, K alpha>, given K alpha and its errors."""
    return total(alpha * scores).widened(2.0 * errors.weighted(np.abs(alpha)))


class GramMemory(NamedTuple):
    """What was cached, and in which order: the same calls give the same bits."""

    rows: Array  # rows that were cached, call after call
    ends: Array  # (number of calls,) where each call ends in them
    square: Array  # rows of the last square
    square_after: int  # calls before it
    ordered_after: int  # calls before the store was put in order; -1: it was not


class Moment(NamedTuple):
    """How far the memory of a kernel matrix has come."""

    n_calls: int
    square: Array
    square_after: int
    ordered_after: int


class KernelMatrix:
    """Kernel values between the training samples.

    Parameters
    ----------
    kernel : kernel object
    bias : float
        Value of a constant feature beside the kernel's own: adds bias^2 to every entry.
    cache_size : float
        Megabytes that kernel values may fill.
    tuning : NamedTuple with ``probe_rows``
    """

    is_on_device: ClassVar[bool]
    home: Any  # where samples on a device lie (``backends.arrays``)

    points: Any
    n: int
    dtype: np.dtype[Any]  # of the values that solvers see
    is_given: bool

    def __init__(self, kernel: Any, bias: float, cache_size: float, tuning: Any) -> None:
        self.budget = int(checked("cache_size", cache_size, POSITIVE) * 1e6)
        if not np.isfinite(bias):
            raise DataError(f"bias must be finite; found {bias!r}.")
        self.kernel, self.bias, self.tuning = kernel, float(bias), tuning

    @cached_property
    def diagonal(self) -> Array:
        """K_ii; shape (n,), float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            values: Array = self.kernel.diagonal(self.points) + self.bias**2
            # The largest values of K, if it is positive semi-definite: they have to fit into its type.
            check_finite(values.astype(self.dtype, copy=False))
        if (values < 0).any():
            i = int(values.argmin())
            raise DataError(
                f"the kernel of sample {i} with itself is {values[i]:.3g}; no positive semi-definite kernel is "
                "negative there. Use another kernel, or other settings."
            )
        return values

    def judged(self, alpha: Array, operations: int) -> Judged:
        """Return K alpha and <alpha, K alpha> for alpha (n, k), with proven errors; all values are float64.

        The errors also hold for every alpha within ``operations`` roundings of this one.
        """
        scores, used = self.wide_scores(alpha), int(np.count_nonzero(alpha.any(axis=1)))
        roundings = self.sum_roundings(used) + operations
        return self._judged(alpha, scores, self._errors.of_scores(alpha, roundings, self.bias**2))

    def _judged(self, alpha: Array, scores: Array, errors: ScoreErrors) -> Judged:
        if np.isfinite(alpha).all():  # else the cause is alpha, and the certificate shows it
            check_finite(scores)
        return Judged(scores, errors, _square(alpha, scores, errors))

    def energy(self, alpha: Array, operations: int) -> Rounded:
        """Return <alpha, K alpha> alone, as ``judged`` does."""
        return self.judged(alpha, operations).square

    @cached_property
    def _errors(self) -> KernelErrors:
        """Bounds on the rounding errors of kernel values."""
        return errors_of(self.kernel, self.points)

    def wide_scores(self, alpha: Array) -> Array:
        """Return K alpha, (n, k), by kernel values in float64."""
        raise NotImplementedError

    def sum_roundings(self, m: int) -> int:
        """Return how many roundings a sum of ``wide_scores`` over m rows has at most."""
        return m

    def negative_eigenvalue(self) -> float:
        """Return a negative upper bound on the smallest eigenvalue of K, or 0.0 where none was found.

        The smallest eigenvalue of a principal submatrix is never below that of K (Cauchy): a negative one is a proof.
        A kernel of unknown kind that is not symmetric is refused here.
        """
        if self.kernel.is_psd:
            return 0.0
        index = np.unique(np.linspace(0, self.n - 1, min(self.n, self.tuning.probe_rows)).astype(np.intp))
        part = self._probe(index)
        check_finite(part)
        check_symmetric(part, index)
        smallest = float(np.linalg.eigvalsh((part + part.T) / 2.0)[0])
        return smallest if smallest < -ROUNDING * len(index) * np.abs(part).max(initial=0.0) else 0.0

    def _probe(self, index: Array) -> Array:
        """Return K[index][:, index] as a NumPy array of float64."""
        raise NotImplementedError


def check_finite(values: Array) -> None:
    """Refuse kernel values, or sums of them, that are no numbers."""
    if not np.isfinite(values).all():
        raise DataError("the kernel gives NaN or infinite values; scale the features, or lower gamma, degree or coef0.")
