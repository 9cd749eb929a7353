"""Several binary problems as one: the sum of their objectives, each class against all others.

P = sum_c P_c and D = sum_c D_c, so the gap is the sum of the gaps, and one certificate holds for all classes.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, summed
from softmargin.core.errors import DataError
from softmargin.core.rounding import Rounded
from softmargin.matrices.gram import Gram
from softmargin.problems.margin_models import MarginModels

__all__ = ["OneVsRest"]

Array = NDArray[Any]


class OneVsRest(MarginModels):
    """Independent binary problems with one certificate.

    Parameters
    ----------
    parts : sequence of MarginProblem
        One per class, or one alone for two classes; kernel problems share their kernel matrix.
    scale : float, default=1
        Multiplies the objective (a binary hinge SVM is twice its joint two-class form, maths: notation, eq. 4).
    """

    def __init__(self, parts: Sequence[Any], *, scale: float = 1.0) -> None:
        if not parts:
            raise DataError("one-vs-rest needs at least one binary problem; found none.")
        self.parts = list(parts)
        self.scale = scale

    @property
    def kind(self) -> str:
        """The kind of its parts."""
        return str(self.parts[0].kind)

    @property
    def gram(self) -> Gram:  # type: ignore[override]
        """The kernel matrix that the parts share."""
        gram: Gram = self.parts[0].gram
        return gram

    @property
    def is_expansion(self) -> bool:  # type: ignore[override]
        """Whether models are expansions over samples, as those of its parts."""
        return bool(self.parts[0].is_expansion)

    def zero(self) -> list[Any]:
        """Return the zero of every class."""
        return [part.zero() for part in self.parts]

    def certificate(self, point: Sequence[Any]) -> Certificate:
        """Certify one point per class."""
        found: list[Certificate] = self.parts[0].certificates_of(self.parts, point)
        return found[0] if len(found) == 1 and self.scale == 1.0 else summed(found, self.scale)

    @property
    def certificate_work(self) -> Callable[[Sequence[Any] | None], float]:
        """How long a certificate takes: a sum over the parts, where these tell it."""
        works = [part.certificate_work for part in self.parts]
        return lambda point: sum(work(mine) for work, mine in zip(works, point or [None] * len(works), strict=True))

    def dual_columns(self, point: Sequence[Any]) -> Array:
        """Return the dual variables with their signs, one column per class; (n, k), or (n, 1) for two classes."""
        return np.hstack([part.dual_columns(mine) for part, mine in zip(self.parts, point, strict=True)])

    def warm_point(self, dual: Array) -> list[Any] | None:
        """Return a feasible point near the dual columns of a model; None where they have another shape."""
        if dual.shape[1] != len(self.parts):
            return None
        points = [part.warm_point(column[:, None]) for part, column in zip(self.parts, dual.T, strict=True)]
        return None if any(point is None for point in points) else points

    def primal_at(self, coef: Array, intercept: Array) -> Rounded:
        """Return P at the weights of a linear model."""
        rows = zip(self.parts, coef, intercept, strict=True)
        values = (part.primal_at(row[None, :], np.array([b])) for part, row, b in rows)
        return sum(values, Rounded(0.0)).times(self.scale)

    def model_point(self, coef: Array, intercept: Array) -> list[Any]:
        """Return the weights of a linear model, one point per class."""
        rows = zip(self.parts, coef, intercept, strict=True)
        return [part.model_point(row[None, :], np.array([b])) for part, row, b in rows]

    def coef_and_intercept(self, point: Sequence[Any]) -> tuple[Array, Array]:
        """Return the weights of linear parts in scikit-learn's shapes: (k, d) and (k,)."""
        weights: tuple[Array, Array] = self.parts[0].coefs_of(self.parts, point)
        return weights

    def free_bias(self, point: Sequence[Any]) -> Array:
        """Return the unpenalised bias of every part; (k,)."""
        return np.concatenate([part.free_bias(mine) for part, mine in zip(self.parts, point, strict=True)])

    def expansion_point(self, dual: Array, intercept: Array) -> list[Any]:
        """Return the point that the dual columns (n, k) and intercepts (k,) of a model are, feasible or not."""
        columns = zip(self.parts, dual.T, intercept, strict=True)
        return [part.expansion_point(column[:, None], np.array([b])) for part, column, b in columns]

    def small_problem(self) -> "OneVsRest | None":
        """Return a problem of two rows that needs the same compiled loops; None where there is none."""
        small = self.parts[0].small_problem()
        return None if small is None else OneVsRest([small])

    def fingerprint(self) -> str:
        """Return a hash of all parts."""
        return hashlib.sha256("".join(part.fingerprint() for part in self.parts).encode()).hexdigest()
