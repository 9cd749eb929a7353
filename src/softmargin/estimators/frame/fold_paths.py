"""The fits of a search: the models along a part of a path on one fold, each with its score on the rows held out.

A job has all that the fits of one row of the grid need, so that it can be sent to another machine; a task (frame.waves)
says which part of it to do.
"""

import copy
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_method_params

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import Number, checked
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.path import along
from softmargin.estimators.frame.waves import Task
from softmargin.run import Result

__all__ = ["Found", "Job", "RowData", "path_scores"]

Array = NDArray[Any]


class RowData(NamedTuple):
    """What is fitted to the folds for one row of the grid."""

    data: Data
    is_pairwise: bool  # X is a kernel matrix
    settings: dict[str, Any] = {}  # noqa: RUF012  (of the estimator, beside those of the row)


class Job(NamedTuple):
    """All that the fits of one row of the grid need; it can be sent to another machine."""

    model: Any  # with the settings of the row
    setting: str  # that varies
    values: Array
    row: RowData
    folds: list[tuple[Array, Array]]
    scorer: Any
    score_params: dict[str, Any]
    config: dict[str, Any]  # of scikit-learn
    keeps_best: bool
    keeps_starts: bool


class Found(NamedTuple):
    """What a task found, point by point, and the model with the best score."""

    scores: list[float]
    results: list[Result]  # without points: the weights of all would fill the memory
    starts: list[Any]  # for the fit to all data; empty where they would fill the memory
    best: tuple[float, Any]


def path_scores(job: Job, task: Task) -> Found:
    """Fit and score a model for some values, one after the other."""
    (train, test), (data, is_pairwise, _) = job.folds[task.fold], job.row
    with config_context(**job.config):  # other threads have scikit-learn's defaults
        part, model = data.take(train, is_pairwise=is_pairwise), copy.copy(job.model)
        X_test, y_test = data.held_out(train, test, is_pairwise=is_pairwise), data.y[test]
        own_params = _check_method_params(data.X, params=job.score_params, indices=test)
        model.n_features_in_ = X_test.shape[1]
        scores, results, starts, best = [], [], [], (-math.inf, None)
        for result in along(model, part, job.setting, job.values[task.points]):
            try:
                scores.append(_as_score(job.scorer(model, X_test, y_test, **own_params)))
            except (AttributeError, NotFittedError) as problem:
                raise IncompatibleError(
                    f"{job.scorer} cannot score the {type(model).__name__} of a fold ({problem}). Probabilities are "
                    "fitted once, after the choice; use a scoring of labels or scores, such as 'accuracy'."
                ) from problem
            results.append(result._replace(point=None))
            if job.keeps_starts:
                starts.append(model._start())
            if job.keeps_best and (best[1] is None or scores[-1] > best[0]):
                best = scores[-1], copy.copy(model)
        return Found(scores, results, starts, best)


def _as_score(score: Any) -> float:
    """Return a score as a float; NaN is one, for rows that cannot be scored."""
    is_nan = isinstance(score, float | np.floating) and bool(np.isnan(score))
    return math.nan if is_nan else float(checked("what scoring returns", score, Number(is_finite=False)))
