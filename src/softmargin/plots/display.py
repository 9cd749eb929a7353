"""What all displays share: axes to draw into, and where they are found afterwards."""

from typing import Any

from softmargin.core.errors import SoftmarginError

__all__ = ["Display"]


class Display:
    """Numbers that can be drawn.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Set by ``plot``.
    """

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any) -> Any:
        """Return the axes to draw into: the given ones, or those of a new figure."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as problem:
                raise SoftmarginError("plots need matplotlib: pip install 'softmargin[plot]'.") from problem
            ax = pyplot.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax
