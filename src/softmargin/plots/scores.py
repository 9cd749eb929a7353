"""Scores of cross-validation over the grid."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softmargin.plots.display import Display

__all__ = ["ScoresDisplay"]

Array = NDArray[Any]


class ScoresDisplay(Display):
    """Mean scores of held-out rows, with their spread over the folds.

    Parameters
    ----------
    values : array of shape (rows, points), or (points,) for all rows
        The setting that varies along a row of the grid.
    scores : array of shape (folds, rows, points)
        NaN where a point was given up.
    chosen : float
        The value that was chosen.
    names : sequence of str
        Of the rows; empty names where there is one.
    setting : str
    """

    def __init__(self, values: Any, scores: Any, *, chosen: Any, names: Sequence[str], setting: str) -> None:
        self.scores = np.asarray(scores, dtype=np.float64)
        self.values = np.broadcast_to(np.asarray(values, dtype=np.float64), self.scores.shape[1:])
        self.chosen, self.names, self.setting = chosen, list(names), setting

    def plot(self, ax: Any = None, **lines: Any) -> Self:
        """Draw a line per row with a band of one standard deviation; crosses are points that were given up."""
        ax = self._axes(ax)
        n_scored = np.isfinite(self.scores).sum(axis=0)
        sums = np.nansum(self.scores, axis=0)
        means = np.divide(sums, n_scored, out=np.full(sums.shape, np.nan), where=n_scored > 0)
        self.lines_ = []
        for r, name in enumerate(self.names):
            whole = n_scored[r] == len(self.scores)
            x, mean = self.values[r][whole], means[r][whole]
            self.lines_ += ax.plot(x, mean, **{"marker": ".", **({"label": name} if name else {}), **lines})
            color, spread = self.lines_[-1].get_color(), self.scores[:, r, whole].std(axis=0)
            ax.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0.0)
            ax.plot(self.values[r][~whole], means[r][~whole], "x", color=color, alpha=0.5)
        for value in np.unique(np.asarray(self.chosen, dtype=np.float64)):
            ax.axvline(value, color="tab:gray", linestyle=":", linewidth=1.0)
        ax.set(xscale="log", xlabel=self.setting, ylabel="score of held-out rows")
        if any(self.names):
            ax.legend(fontsize="small")
        return self
