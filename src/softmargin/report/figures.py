"""Pictures inside a page: SVG in the colour of the page's text, to be read in the light and in the dark."""

import io
import re
from collections.abc import Callable
from typing import Any

__all__ = ["drawn"]

_INK = "#010203"  # a colour that nothing else has; the page sets its own in its place
_STYLE = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.framealpha": 0.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "softmargin",
}


def drawn(draw: Callable[[Any], None], *, columns: int = 1, height: float = 3.2) -> str:
    """Return what ``draw`` draws into an axes, or an array of so many, as HTML; without matplotlib, how to get it."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return "<p>Pictures need matplotlib: <code>pip install 'softmargin[plot]'</code>.</p>"
    with rc_context(_STYLE):
        figure = Figure(figsize=(4.8 * columns, height), layout="constrained")
        draw(figure.subplots(1, columns))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    return f'<div class="wide">{re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)}</div>'
