"""Curves of a run: passes, seconds and suboptimality, thinned to what a plot can show; and pictures of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.common import log

LEAST = 1e-10  # suboptimalities below this are no longer known
_SPACING = 1.02  # factor between the times that are kept of a curve
Point = tuple[float, float, float]  # passes, seconds, suboptimality


def thinned(points: Sequence[Point], targets: Sequence[float]) -> list[Point]:
    """Return the points with enough time between them, and the first within each target."""
    kept, least = list(points[:1]), points[0][2]
    for point in points[1:]:
        is_first = any(point[2] <= target < least for target in targets)
        least = min(least, point[2])
        if is_first or point is points[-1] or point[1] >= _SPACING * kept[-1][1]:
            kept.append(point)
    return kept


def save_picture(picture: Any, path: Path) -> None:
    """Write a picture of matplotlib's as PNG, and forget it."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=90)
    plt.close(picture)
    log.print(f"drawn: {path}")
