"""Margins of labelled rows: how far the score of the own class is above all others."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.plots.display import Display

__all__ = ["MarginDisplay", "margins_of"]

Array = NDArray[Any]
_ALIKE = 1e-9  # differences of this share of the margins are rounding, of which no bins can be made; by hand


def margins_of(scores: Array, codes: Array) -> Array:
    """Return the score of every row's own class less the largest of the others; (n, k) scores, or (n,) of two."""
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


def _span(margins: Array) -> tuple[float, float] | None:
    """Return the ends of a histogram of margins that differ by rounding alone; None of others, and of none."""
    size = float(np.abs(margins).max(initial=0.0))
    if not margins.size or np.ptp(margins) > _ALIKE * size:
        return None
    middle, half = float(margins[0]), 0.5 * size or 0.5
    return middle - half, middle + half


class MarginDisplay(Display):
    """The margins of labelled rows as a histogram: errors lie below zero, and below one a hinge loss is paid.

    Parameters
    ----------
    margins : array of shape (n,)
    name : str, optional
        What the legend says.
    """

    def __init__(self, margins: Any, *, name: str = "") -> None:
        self.margins, self.name = np.asarray(margins, dtype=np.float64), name

    @classmethod
    def from_predictions(cls, classes: Any, y: Any, scores: Any, *, name: str = "") -> Self:
        """Take scores, (n, k) or (n,) for two classes, and the labels of the rows, all of them among ``classes``."""
        classes, y = np.asarray(classes), np.asarray(y)
        order = np.argsort(classes)
        codes = order[np.minimum(np.searchsorted(classes, y, sorter=order), len(classes) - 1)]
        if not (classes[codes] == y).all():
            strange = y[classes[codes] != y][0]
            raise DataError(f"y holds the label {strange!r}, which the model does not know; leave such rows out.")
        return cls(margins_of(np.asarray(scores), codes), name=name)

    def plot(self, ax: Any = None, *, bins: Any = 50, name: str | None = None, **patches: Any) -> Self:
        """Draw the histogram; ``bins`` and ``patches`` go to matplotlib's ``hist``."""
        ax, name = self._axes(ax), self.name if name is None else name
        label = {"label": name} if name else {}
        span = {"alpha": 0.7, "range": _span(self.margins), **label, **patches}
        self.counts_, self.edges_, self.patches_ = ax.hist(self.margins, bins, **span)
        ax.axvline(0.0, color="tab:red", linewidth=1.0)
        ax.axvline(1.0, color="tab:gray", linestyle=":", linewidth=1.0)
        ax.set(xlabel="margin: score of the own class less the best other", ylabel="rows")
        if name:
            ax.legend()
        return self
