"""Classifiers of every pair of classes, which vote: kernel SVMs as LIBSVM keeps them, and linear ones.

pairs of classes   (0, 1), (0, 2), ..., (1, 2), ...
score of (c, e)    above zero for c, else for e                                       as in LIBSVM and scikit-learn
prediction         the class with the most votes, the first of those with as many
decision function  votes + s / (3 (|s| + 1)), s the sum of a class's scores: less than half a vote; scikit-learn's "ovr"
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.archive import read_archive
from softmargin.core.errors import DataError
from softmargin.core.files import blaming
from softmargin.kernels import Linear
from softmargin.models.kernel_expansion import (
    checked_vectors,
    given_sums,
    kernel_meta,
    kernel_sums,
    stored_kernel,
    stored_vectors,
    vector_arrays,
)
from softmargin.models.shapes import (
    Classifier,
    check_columns,
    checked_labels,
    checked_scores,
    dense,
    floats,
    matrix,
    require_arrays,
)
from softmargin.models.weights import checked_coef, coef_arrays, linear_scores, stored_coef

__all__ = ["LinearOneVsOne", "OneVsOne", "Votes"]

_ARRAYS = ("classes", "counts", "coef", "intercept", "support")
_LINEAR_ARRAYS = ("classes", "intercept")


class Votes(Classifier):
    """A classifier whose pairs of classes vote."""

    def pair_scores(self, X: Any) -> np.ndarray:
        """Return the score of every pair, (n, k (k - 1) / 2); above zero means the first class of the pair."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Return votes and less than half a vote for confidence, (n, k); for two classes the score of the second."""
        scores = self.pair_scores(X)
        if len(self.classes) == 2:
            return np.asarray(-scores[:, 0])
        votes = self._votes(scores >= 0.0)
        sums = np.zeros_like(votes)
        for p, (c, e) in enumerate(combinations(range(len(self.classes)), 2)):
            sums[:, c] += scores[:, p]
            sums[:, e] -= scores[:, p]
        return np.asarray(votes + sums / (3.0 * (np.abs(sums) + 1.0)))

    def votes(self, X: Any) -> np.ndarray:
        """Return the votes of every class, (n, k)."""
        return self._votes(self.pair_scores(X) > 0.0)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label with the most votes for every row, the first of those with as many, shape (n,)."""
        labels: np.ndarray = self.classes[self.votes(X).argmax(axis=1)]
        return labels

    def _votes(self, are_first: np.ndarray) -> np.ndarray:
        votes = np.zeros((len(are_first), len(self.classes)))
        for p, (c, e) in enumerate(combinations(range(len(self.classes)), 2)):
            votes[:, c] += are_first[:, p]
            votes[:, e] += ~are_first[:, p]
        return votes


@dataclass(frozen=True, eq=False)
class OneVsOne(Votes):
    """Kernel SVMs of every pair of classes, which vote; see `Classifier` for info.

    Parameters
    ----------
    classes : ndarray, shape (k,)
        The first of the classes with the most votes is predicted.
    kernel : kernel object
    vectors : array or CSR matrix, shape (n_support, d); None for a precomputed kernel
        Those of the first class first.
    counts : int array, shape (k,)
        Support vectors of each class.
    coef : ndarray, shape (n_support, k - 1)
        A vector of class c has its coefficient of the pair with e in column e, or e - 1 where e > c.
    intercept : ndarray, shape (k (k - 1) / 2,)
    support : int array, shape (n_support,), optional
        Positions of the support vectors in the training data; a LIBSVM file does not tell them.
    n_samples : int
        Rows of the training data.
    """

    classes: np.ndarray
    kernel: Any
    vectors: Any
    counts: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)
    support: np.ndarray | None = None
    n_samples: int = 0

    def __post_init__(self) -> None:
        classes, counts = checked_labels(self.classes), np.asarray(self.counts)
        coef, intercept = floats(self.coef), floats(self.intercept)
        k, n = len(classes), len(coef)
        vectors = checked_vectors(self.vectors, self.kernel, n)
        shapes = (counts.shape, coef.shape, intercept.shape)
        if shapes != ((k,), (n, k - 1), (k * (k - 1) // 2,)) or counts.min() < 0 or counts.sum() != n:
            raise DataError(
                f"{k} classes and {n} support vectors need counts (k,) that sum to {n}, coef ({n}, {k - 1}) and "
                f"{k * (k - 1) // 2} intercepts; found shapes {shapes} and a sum of {counts.sum()}."
            )
        checked = {"classes": classes, "counts": counts, "vectors": vectors, "coef": coef, "intercept": intercept}
        if self.support is not None:
            support = np.asarray(self.support)
            is_known = support.shape == (n,) and (n == 0 or support.dtype.kind in "iu")
            if not is_known or (n and not 0 <= support.min() <= support.max() < self.n_samples):
                raise DataError(f"support must hold {n} positions below {self.n_samples}; found {support.shape}.")
            checked["support"] = support.astype(np.intp)
        elif vectors is None:
            raise DataError("a precomputed kernel needs support, the positions of its support vectors.")
        for name, value in {**checked, "n_samples": int(self.n_samples)}.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Columns of X: of the support vectors, or rows of the training data where the kernel is precomputed."""
        return self.n_samples if self.vectors is None else int(self.vectors.shape[1])

    def pairs(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield every pair of classes, and the coefficients of all support vectors in it, (n_support,)."""
        of = np.repeat(np.arange(len(self.classes)), self.counts)
        for c, e in combinations(range(len(self.classes)), 2):
            column = np.zeros(len(of))
            column[of == c], column[of == e] = self.coef[of == c, e - 1], self.coef[of == e, c]
            yield c, e, column

    @cached_property
    def as_linear(self) -> LinearOneVsOne:
        """The same model as weights; only of a linear kernel."""
        columns = np.column_stack([column for _, _, column in self.pairs()])
        return LinearOneVsOne(
            self.classes, dense(self.vectors.T.astype(np.float64) @ columns).T, self.intercept, self.info
        )

    def pair_scores(self, X: Any) -> np.ndarray:
        """Return the score of every pair, (n, k (k - 1) / 2); kernel values are computed once for all of them."""
        X, vectors = self.fit_columns(X) if self.support is None else matrix(X), self.vectors
        if self.support is not None and isinstance(self.kernel, Linear):
            return self.as_linear.pair_scores(X)
        if self.support is None and X.shape[1] > vectors.shape[1]:
            vectors = csr_matrix((vectors.data, vectors.indices, vectors.indptr), (vectors.shape[0], X.shape[1]))
        elif self.support is not None:
            check_columns(X, self.n_features)
        columns = np.column_stack([column for _, _, column in self.pairs()])
        sums = (
            given_sums(X, self.support, columns) if vectors is None else kernel_sums(self.kernel, vectors, X, columns)
        )
        return checked_scores(sums + self.intercept, 0)

    def fit_columns(self, X: Any) -> Any:
        """Return sparse `X` with all columns of the support vectors; of a LIBSVM file, wider rows stay as they are."""
        X = matrix(X)
        if self.vectors is None:
            check_columns(X, self.n_features)
            return X
        return X if self.support is None and X.shape[1] > self.n_features else super().fit_columns(X)

    def stored(self) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """Return what a file holds: the arrays and the meta of `docs/format.md`."""
        arrays = {each: getattr(self, each) for each in _ARRAYS if getattr(self, each) is not None}
        meta = {**kernel_meta(self.kernel), "n_samples": self.n_samples, "n_features": self.n_features}
        arrays.update(vector_arrays(self.vectors))
        return arrays, {**meta, "info": self.info}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OneVsOne:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, meta = read_archive(path, kind=cls.__name__)
        require_arrays(arrays, _ARRAYS[:-1], path)
        with blaming(path, advice="Train again."):
            vectors = stored_vectors(arrays, (len(arrays["coef"]), meta["n_features"]))
            values: dict[str, Any] = {each: arrays[each] for each in _ARRAYS if each in arrays}
            more = {"n_samples": meta["n_samples"], "info": dict(meta["info"])}
            return cls(kernel=stored_kernel(meta), vectors=vectors, **values, **more)


@dataclass(frozen=True, eq=False)
class LinearOneVsOne(Votes):
    """Linear SVMs of every pair of classes, which vote; see `Classifier` for classes and info.

    Parameters
    ----------
    classes
    coef : ndarray, shape (k (k - 1) / 2, d)
    intercept : ndarray, shape (k (k - 1) / 2,)
    info
    """

    classes: np.ndarray
    coef: Any
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes, coef, intercept = checked_labels(self.classes), checked_coef(self.coef), floats(self.intercept)
        n_pairs = len(classes) * (len(classes) - 1) // 2
        if len(coef.shape) != 2 or coef.shape[0] != n_pairs or intercept.shape != (n_pairs,):
            raise DataError(
                f"{len(classes)} classes need coef ({n_pairs}, d) and {n_pairs} intercepts; found shapes {coef.shape} "
                f"and {intercept.shape}."
            )
        for name, value in (("classes", classes), ("coef", coef), ("intercept", intercept)):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of columns d the model was trained on."""
        return int(self.coef.shape[1])

    def pair_scores(self, X: Any) -> np.ndarray:
        """Return the score of every pair, X coef' + intercept; (n, k (k - 1) / 2)."""
        return checked_scores(linear_scores(X, self.coef, self.intercept), 0)

    def stored(self) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """Return what a file holds: the arrays and the meta of `docs/format.md`."""
        return {**{name: getattr(self, name) for name in _LINEAR_ARRAYS}, **coef_arrays(self.coef)}, self.info

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearOneVsOne:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, info = read_archive(path, kind=cls.__name__)
        require_arrays(arrays, _LINEAR_ARRAYS, path)
        with blaming(path, advice="Train again."):
            return cls(**{name: arrays[name] for name in _LINEAR_ARRAYS}, coef=stored_coef(arrays), info=info)
