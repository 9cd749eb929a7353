"""Plots as scikit-learn has them: a Display holds the numbers, ``plot(ax)`` draws them; with matplotlib."""

from softmargin.plots.gap import GapDisplay
from softmargin.plots.margins import MarginDisplay
from softmargin.plots.path import PathDisplay
from softmargin.plots.scores import ScoresDisplay

__all__ = ["GapDisplay", "MarginDisplay", "PathDisplay", "ScoresDisplay"]
