"""Which points of a grid can still be the best by cross-validation, when some folds are scored.

    highest possible mean of a point  =  (its scores so far + the best possible score on each fold that is left) / folds

A point whose highest possible mean is below the mean of a point that all folds have scored cannot be the best, whatever
the folds that are left say: it is not fitted to them. So the choice is that of a search which scores everything.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Race", "best_of", "best_possible"]

Array = NDArray[Any]
# scikit-learn's names of scores that are never above 1; those that begin with "neg_" are never above 0.
_AT_MOST_ONE = (
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "d2_",
    "explained_variance",
    "f1",
    "jaccard",
    "matthews_corrcoef",
    "precision",
    "r2",
    "recall",
    "roc_auc",
    "top_k_accuracy",
)


def best_possible(scoring: Any) -> float | None:
    """Return what a score is never above; None where that is not known. The default scores are accuracy and R^2."""
    if scoring is None:
        return 1.0
    if not isinstance(scoring, str):
        return None
    return 0.0 if scoring.startswith("neg_") else 1.0 if scoring.startswith(_AT_MOST_ONE) else None


class Race:
    """Scores of the points of a grid, as they come in.

    Parameters
    ----------
    n_folds : int
    shape : tuple of int
        Of the grid: (rows, points of a row).
    highest : float or None
        The best possible score; None: no point is given up.
    """

    def __init__(self, n_folds: int, shape: tuple[int, int], highest: float | None) -> None:
        self.highest = highest
        self.scores = np.full((n_folds, *shape), np.nan)
        self.residuals = np.full((n_folds, *shape), np.nan)
        self.is_scored = np.zeros((n_folds, *shape), dtype=bool)

    def take(self, fold: int, row: int, points: Array, scores: list[float], residuals: list[float]) -> None:
        """Write down what a fold says of some points of a row."""
        self.scores[fold, row, points] = scores
        self.residuals[fold, row, points] = residuals
        self.is_scored[fold, row, points] = True

    @property
    def means(self) -> Array:
        """The mean score of every point; minus infinity where it is NaN or not all folds have scored it."""
        means = self.scores.mean(axis=0)
        return np.where(np.isnan(means), -np.inf, means)

    def can_win(self) -> Array:
        """Say of every point whether it may still be the best."""
        if self.highest is None:
            return np.ones(self.scores.shape[1:], dtype=bool)
        reachable = np.where(self.is_scored, self.scores, self.highest).mean(axis=0)
        return np.asarray(reachable >= self.means.max())

    def leader(self) -> Array:
        """Return a mask of the best point by the folds that all points have, and of those that its path passes."""
        known = self.scores[self.is_scored.all(axis=(1, 2))].mean(axis=0)
        row, point = best_of(known)
        mask = np.zeros(known.shape, dtype=bool)
        mask[row, : point + 1] = True
        return mask


def best_of(means: Array) -> Any:
    """Return the place of the highest mean, of equals the first; NaN is below all."""
    return np.unravel_index(np.where(np.isnan(means), -np.inf, means).argmax(), means.shape)
