"""A linear regressor: predictions X coef' + intercept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softmargin.core.archive import read_archive
from softmargin.core.errors import DataError
from softmargin.core.files import blaming
from softmargin.models.shapes import Predictor, checked_scores, floats, require_arrays
from softmargin.models.weights import checked_coef, coef_arrays, linear_scores, stored_coef

__all__ = ["LinearRegressor"]


@dataclass(frozen=True, eq=False)
class LinearRegressor(Predictor):
    """A trained linear regressor; see `Predictor` for info.

    Parameters
    ----------
    coef : ndarray, sparse matrix or LowRank, shape (k, d)
    intercept : ndarray, shape (k,)
    is_flat : bool, default=False
        Whether predictions of the one target have shape (n,).
    info
        problem, radius, l2, fit_intercept, tol, certificate, ...
    """

    coef: Any
    intercept: np.ndarray
    is_flat: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        coef, intercept = checked_coef(self.coef), floats(self.intercept)
        if len(coef.shape) != 2 or intercept.shape != (coef.shape[0],) or (self.is_flat and coef.shape[0] != 1):
            raise DataError(
                f"coef has shape {coef.shape} and the intercept {intercept.shape}; (k, d) and (k,) are needed, and one "
                "target where predictions are flat."
            )
        for name, value in (("coef", coef), ("intercept", intercept), ("is_flat", bool(self.is_flat))):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of columns d the model was trained on."""
        return int(self.coef.shape[1])

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions, shape (n,) or (n, k)."""
        scores = checked_scores(linear_scores(X, self.coef, self.intercept), 0)
        return scores[:, 0] if self.is_flat else scores

    def stored(self) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """Return what a file holds: the arrays and the meta of `docs/format.md`."""
        return {"intercept": self.intercept, **coef_arrays(self.coef)}, {"is_flat": self.is_flat, "info": self.info}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearRegressor:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, meta = read_archive(path, kind=cls.__name__)
        require_arrays(arrays, ("intercept",), path)
        with blaming(path, advice="Train again."):
            return cls(stored_coef(arrays), arrays["intercept"], meta["is_flat"], dict(meta["info"]))
