"""Estimators on Dask collections: what a fit checks before its first pass, and the problem of landmarks.

A fitted model is one of NumPy arrays, as of any fit; what has a number for every row, as dual variables have, is not
kept.
"""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.distributed.rows import DaskRows
from softmargin.distributed.rows import checked_rows as rows_of
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import Posed
from softmargin.estimators.posing.fit import LARGEST_SQUARES
from softmargin.estimators.posing.kernels import KernelTask, kernel_of
from softmargin.estimators.posing.summed import class_prices, svm_sum
from softmargin.features.landmarks import choose_landmarks
from softmargin.kernels import scaled_gamma

__all__ = ["checked_rows", "gathered", "pose_landmarks"]

_OF_ROWS = ("support_", "dual_coef_")  # attributes that only a fit of local rows has


def checked_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Data:
    """Return Dask collections as checked partitions, by one pass; set what a fit says of its features."""
    if estimator.device is not None:
        raise IncompatibleError(
            f"device={estimator.device!r} moves a NumPy X, and the rows of a Dask collection stay; use device=None."
        )
    if getattr(estimator, "probability", None) not in (None, False):
        raise IncompatibleError(
            "probabilities are fitted to held-out rows, which Dask collections are not cut into; use probability=None, "
            "or SoftmaxRegression."
        )
    has_classes = is_classifier(estimator)
    rows = rows_of(X, y, sample_weight, is_classifier=has_classes, largest=LARGEST_SQUARES)
    if has_classes:
        check_classification_targets(np.tile(rows.labels, 3))  # of labels that occur once it warns
        if len(rows.labels) < 2:
            raise DataError(f"y has 1 class ({rows.labels.tolist()[0]!r}); a classifier needs at least 2 classes.")
    estimator.n_features_in_ = rows.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if rows.columns is not None and all(isinstance(name, str) for name in rows.columns):
        estimator.feature_names_in_ = np.array(rows.columns, dtype=object)
    for name in _OF_ROWS:
        estimator.__dict__.pop(name, None)
    return Data(rows, rows.labels, None, rows.labels if has_classes else None)


def gathered(estimator: Any, rows: DaskRows) -> Data:
    """Bring the rows of a cluster here; their features keep their names."""
    names = getattr(estimator, "feature_names_in_", None)
    data: Data = estimator._checked(*rows.gathered())
    if names is not None:
        estimator.feature_names_in_ = names
    return data


def pose_landmarks(estimator: Any, rows: DaskRows) -> Posed:
    """Pose a ``KernelSVC`` on the features of landmarks, drawn from all rows with equal chances."""
    settings = estimator._settings()
    settings.check_kernel()
    is_given = estimator.__sklearn_tags__().input_tags.pairwise
    if estimator.approximation is None or is_given or estimator.device is not None:
        raise IncompatibleError(
            "on Dask collections KernelSVC is a linear model on the features of landmarks; use "
            "approximation='nystroem', device=None and a kernel that is not precomputed."
        )
    has_scale = isinstance(estimator.gamma, str) and estimator.gamma == "scale"
    gamma = scaled_gamma(rows.n_features, rows.variance()) if has_scale else estimator.gamma
    like = np.empty((1, rows.n_features))
    kernel = kernel_of(estimator.kernel, gamma, estimator.degree, estimator.coef0, like)
    rng = np.random.default_rng(estimator._seed())
    vectors, codes, places = rows.sample(estimator.n_components, rng)
    bias = 0.0 if settings.has_free_bias else settings.bias
    landmarks = choose_landmarks(kernel, vectors, len(places), rng, bias=bias)._replace(rows=places)
    # The constant feature of the hinge is one of the kernel's.
    own = settings if settings.has_free_bias else settings._replace(fit_intercept=False)
    prices = class_prices(rows, estimator.C, estimator.class_weight)
    problem = svm_sum(rows, prices, own, landmarks.transform, landmarks.map.shape[1])
    task = KernelTask(problem, landmarks, rows.shape[0], False)

    def attributes(point: Any) -> dict[str, Any]:
        more = {"_stream": None, "_has_pairs": False}
        return {**estimator._attributes(task.expansion(point), codes, len(rows.labels)), **more}

    return Posed(problem, attributes)
