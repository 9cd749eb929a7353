"""A linear classifier: scores X coef' + intercept, and the label with the highest score."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softmargin.core.archive import read_archive
from softmargin.core.errors import DataError
from softmargin.core.files import blaming
from softmargin.models.shapes import (
    Classifier,
    checked_labels,
    checked_scores,
    floats,
    require_arrays,
)
from softmargin.models.weights import checked_coef, coef_arrays, linear_scores, stored_coef

__all__ = ["LinearModel"]

_ARRAYS = ("classes", "intercept")


@dataclass(frozen=True, eq=False)
class LinearModel(Classifier):
    """A trained linear classifier; see `Classifier` for classes, intercept and info.

    Parameters
    ----------
    classes, intercept
    coef : ndarray, sparse matrix or LowRank, shape (k, d), or (1, d) for two classes
    info
        problem, multiclass, C, fit_intercept, intercept_scaling, class_weight, tol, certificate, ... Models of the
        problem "softmax" have probabilities, and those with a "calibration".
    """

    classes: np.ndarray
    coef: Any
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes = checked_labels(self.classes)
        coef = checked_coef(self.coef)
        intercept = floats(self.intercept)
        k = len(classes)
        rows = 1 if k == 2 else k
        if len(coef.shape) != 2 or coef.shape[0] != rows:
            raise DataError(f"coef has shape {coef.shape}; {k} classes need shape ({rows}, d).")
        if intercept.shape != (rows,):
            raise DataError(f"intercept has shape {intercept.shape}; {k} classes need shape ({rows},).")
        for name, value in (("classes", classes), ("coef", coef), ("intercept", intercept)):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of columns d the model was trained on."""
        return int(self.coef.shape[1])

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores X coef' + intercept of every row, shape (n, k), or (n,) for two classes."""
        return checked_scores(linear_scores(X, self.coef, self.intercept), len(self.classes))

    def stored(self) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """Return what a file holds: the arrays and the meta of `docs/format.md`."""
        return {**{name: getattr(self, name) for name in _ARRAYS}, **coef_arrays(self.coef)}, self.info

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearModel:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, info = read_archive(path, kind=cls.__name__)
        require_arrays(arrays, _ARRAYS, path)
        with blaming(path, advice="Train again."):
            return cls(**{name: arrays[name] for name in _ARRAYS}, coef=stored_coef(arrays), info=info)
