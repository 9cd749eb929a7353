"""Pictures inside a page: SVG in the colour of the page's text, to be read in the light and in the dark."""

import io
import re
from collections.abc import Callable
from typing import Any

__all__ = ["drawn"]

_INK = "#010203"  # a colour that nothing else has; the page sets its own in its place
_SIZE = (4.8, 3.2)  # inches
_STYLE = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.framealpha": 0.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "softmargin",
}


def drawn(*draws: Callable[[Any], Any]) -> str:
    """Return what each function draws into an axes, one picture each, as HTML; without matplotlib, how to get it."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return "<p>Pictures need matplotlib: <code>pip install 'softmargin[plot]'</code>.</p>"
    pictures = []
    with rc_context(_STYLE):
        for draw in draws:
            figure, text = Figure(figsize=_SIZE, layout="constrained"), io.StringIO()
            draw(figure.subplots())
            figure.savefig(text, format="svg", metadata={"Date": None})
            svg = text.getvalue()
            pictures.append(re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL))
    return f'<div class="pictures">{"".join(pictures).replace(_INK, "currentColor")}</div>'
