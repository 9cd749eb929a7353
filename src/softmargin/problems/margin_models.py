"""What every SVM says of its models, joint or of two classes, linear or in the space of a kernel."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.rounding import Rounded
from softmargin.kernels import Linear, Rbf
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion, LinearModel

__all__ = [
    "AT_ONCE",
    "IN_CACHE",
    "BinaryData",
    "Expansion",
    "MarginModels",
    "cuts",
    "margin_gap",
    "small_gram",
    "stacked",
]

Array = NDArray[Any]
AT_ONCE = 1 << 22  # scores of several problems that share products with X: 32 MB
IN_CACHE = 1 << 13  # numbers of several problems in sums over their rows: beyond, one by one is as fast; timings


class BinaryData(NamedTuple):
    """A linear SVM of two classes, 1/2 |w|^2 + the losses of [1 - y_i <w, [x_i, constant]>]_+, in plain numbers."""

    X: Any  # (n, d)
    y: Array  # (n,) -1 and +1
    C: Array  # (n,)
    is_squared: bool  # losses C / 2 xi^2, else C xi
    has_free_bias: bool
    constant: float  # value of a constant feature; 0 for none


class Expansion(NamedTuple):
    """A kernel model without its labels: the fields of ``KernelExpansion``, in the same order."""

    kernel: Any
    vectors: Any  # (m, d), or None where the kernel matrix was given
    support: Array  # (m,) positions in the training data
    n_samples: int
    coef: Array  # (m, k), or (m, 1) for two classes
    intercept: Array  # (k,) or (1,)


def cuts(n_problems: int, n: int, numbers: int) -> list[slice]:
    """Return which problems on the same n rows are dealt with at once, so that these have so many numbers together."""
    width = max(numbers // max(n, 1), 1)
    return [slice(first, first + width) for first in range(0, n_problems, width)]


def stacked(arrays: Sequence[Array]) -> Array:
    """Return arrays of one shape as one, along a new first axis; a single one without a copy."""
    return np.stack(arrays) if len(arrays) > 1 else arrays[0][None]


def margin_gap(primal: Rounded, bound: Rounded) -> Certificate:
    """Make the certificate of an SVM: its bound is at least D(0) = 0, which no rounding blurs.

    A negative primal value, possible where K is not positive semi-definite, is left to its own bound.
    """
    return duality_gap(primal, Rounded(0.0) if bound.lower < 0.0 <= primal.upper else bound)


class MarginModels:
    """What every SVM says of its models: a point is an expansion over samples, or the weights of features."""

    gram: Gram
    is_expansion: bool

    def dual_columns(self, point: Any) -> Array:
        """Return the dual variables with their signs, W = sum_i x_i dual_i'; (n, k), or (n, 1) for two classes."""
        raise NotImplementedError

    def coef_and_intercept(self, point: Any) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,), or one row for two classes."""
        raise NotImplementedError

    @staticmethod
    def certificates_of(parts: Sequence[Any], points: Sequence[Any]) -> list[Certificate]:
        """Certify a point of each of several problems of this kind."""
        return [part.certificate(mine) for part, mine in zip(parts, points, strict=True)]

    @staticmethod
    def coefs_of(parts: Sequence[Any], points: Sequence[Any]) -> tuple[Array, Array]:
        """Return the weights of several linear problems of this kind: (k, d) and (k,)."""
        rows = [part.coef_and_intercept(mine) for part, mine in zip(parts, points, strict=True)]
        return np.vstack([coef for coef, _ in rows]), np.concatenate([intercept for _, intercept in rows])

    def free_bias(self, point: Any) -> Array:
        """Return the unpenalised bias of each column; zero where there is none."""
        return np.zeros(1)

    def expansion(self, point: Any) -> Expansion:
        """Return the kernel model that a point is, without labels: the samples with a nonzero dual variable."""
        gram, dual = self.gram, self.dual_columns(point)
        support = np.flatnonzero(dual.any(axis=1))
        # A constant feature has the weight bias * sum of the duals (maths: linear SVM, section 2).
        intercept = gram.bias**2 * dual.sum(axis=0) + self.free_bias(point)
        return Expansion(gram.kernel, gram.vectors(support), support, gram.n, dual[support], intercept)

    def model(self, point: Any, classes: Array, info: Mapping[str, Any] | None = None) -> LinearModel | KernelExpansion:
        """Return the model that a point is."""
        if self.is_expansion:
            return KernelExpansion(classes, *self.expansion(point), info or {})
        return LinearModel(classes, *self.coef_and_intercept(point), info or {})


def small_gram(gram: Gram) -> Gram:
    """Return the kernel matrix of two points, in the same precision; Newton's method needs the linear kernel."""
    return Gram(Linear() if gram.is_linear else Rbf(1.0), np.array([[-1.0], [1.0]], dtype=gram.dtype))
