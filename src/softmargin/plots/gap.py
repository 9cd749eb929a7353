"""The proven gap of a run, certificate by certificate."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softmargin.core.parameters import OneOf, checked
from softmargin.plots.display import Display

__all__ = ["GapDisplay"]

Array = NDArray[Any]
_LEAST = 1e-17  # where a gap of zero is drawn: the axis is logarithmic
_LABELS = {"seconds": "seconds of the solver", "iteration": "passes over the data"}


class GapDisplay(Display):
    """The relative gap against the seconds or the passes of a run.

    Parameters
    ----------
    iteration, seconds, residual : arrays of shape (m,)
        One entry for every certificate.
    tol : float, optional
        The tolerance that was asked for; drawn as a line.
    name : str, optional
        What the legend says.
    """

    def __init__(
        self, *, iteration: Any, seconds: Any, residual: Any, tol: float | None = None, name: str = ""
    ) -> None:
        self.iteration, self.seconds, self.residual = (
            np.asarray(column, dtype=np.float64) for column in (iteration, seconds, residual)
        )
        self.tol, self.name = tol, name

    @classmethod
    def from_trace(cls, trace: Any, *, tol: float | None = None, name: str = "") -> Self:
        """Take the trace of a run."""
        columns = trace.columns()
        return cls(**{key: columns[key] for key in ("iteration", "seconds", "residual")}, tol=tol, name=name)

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None) -> Self:
        """Take the trace of a fitted estimator."""
        name = type(estimator).__name__ if name is None else name
        return cls.from_trace(estimator.trace_, tol=estimator.tol, name=name)

    def plot(self, ax: Any = None, *, by: str = "seconds", name: str | None = None, **line: Any) -> Self:
        """Draw the gap, in logarithm; ``by`` is "seconds" or "iteration", ``line`` goes to matplotlib's ``plot``."""
        checked("by", by, OneOf(*_LABELS))
        ax, name = self._axes(ax), self.name if name is None else name
        is_known = np.isfinite(self.residual)
        x, gaps = getattr(self, by)[is_known], np.maximum(self.residual[is_known], _LEAST)
        (self.line_,) = ax.plot(x, gaps, **{"marker": ".", **({"label": name} if name else {}), **line})
        if self.tol:
            ax.axhline(self.tol, color=self.line_.get_color(), linestyle=":", linewidth=1.0)
        ax.set(yscale="log", xlabel=_LABELS[by], ylabel="relative gap, proven")
        if name:
            ax.legend()
        return self
