"""The tables of ``certified.py``: what was certified, what was not, what others reach, and what has changed."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tools.common import OURS
from tools.markdown_tables import markdown, write

Row = dict[str, Any]
_QUICK = 2.0  # seconds: fits that were certified within them shall not get slower
_SLOWER = 1.1
_LEAST = 0.05  # seconds: below them a ratio of two times says nothing


def show(rows: list[Row], budget: float, before: list[Row]) -> None:
    """Print all tables."""
    ours = [row for row in rows if row["contender"] == OURS]
    done = [row for row in ours if is_certified(row, budget)]
    write(f"**{len(done)} of {len(ours)} fits certified** within {budget:g} s of one core; {late(ours, budget)}.\n")
    write(markdown(_HEAD, [line(name, part, budget) for name, part in by(ours, setting_of)]))
    missed = [row for row in ours if not is_certified(row, budget)]
    write("\n### Not certified\n")
    write(markdown(_MISSED_HEAD, map(missed_line, sorted(missed, key=lambda row: -gap(row)))) if missed else "None.")
    peers = [row for row in rows if row["contender"] != OURS]
    if peers:
        write("\n### Other libraries, each by its own problem\n")
        write(markdown(_PEER_HEAD, [peer_line(name, part, budget) for name, part in by(peers, peer_of)]))
    if before:
        show_changes(ours, before, budget)


_HEAD = ("setting", "tol", "fits", "certified", "worst gap", "median s", "90 % s", "longest s")
_MISSED_HEAD = ("data", "form", "setting", "tol", "gap", "seconds", "end")
_PEER_HEAD = (
    "contender",
    "setting",
    "tol",
    "fits",
    "certified",
    "no model in time",
    "median gap",
    "worst gap",
    "median s",
)
_CHANGE_HEAD = ("data", "form", "setting", "tol", "gap before", "s before", "gap now", "s now")


def is_certified(row: Row, budget: float) -> bool:
    """Say whether a fit was proven to be within tol, in the budget."""
    return row["residual"] is not None and row["residual"] <= row["tol"] and row["seconds"] <= budget


def gap(row: Row) -> float:
    """Return the relative gap; infinite where there is no model."""
    return math.inf if row["residual"] is None or math.isnan(row["residual"]) else float(row["residual"])


def setting_of(row: Row) -> tuple[str, str]:
    """Return a setting with its C, and tol."""
    return f"{row['setting']}, {row['C']:g}", f"{row['tol']:g}"


def peer_of(row: Row) -> tuple[str, ...]:
    """Return a peer, and its setting."""
    return row["contender"], *setting_of(row)


def by(rows: Iterable[Row], name: Callable[[Row], tuple[str, ...]]) -> list[tuple[tuple[str, ...], list[Row]]]:
    """Return the rows by what ``name`` says of them, in the order in which the names come."""
    found = defaultdict(list)
    for row in rows:
        found[name(row)].append(row)
    return sorted(found.items())


def late(rows: list[Row], budget: float) -> str:
    """Say how many fits took more than a tenth longer than they might."""
    return f"{sum(row['seconds'] > _SLOWER * budget for row in rows)} took more than {_SLOWER * budget:g} s"


def line(name: tuple[str, ...], rows: list[Row], budget: float) -> tuple[str, ...]:
    """Return the line of one setting."""
    seconds = sorted(row["seconds"] for row in rows)
    nine_tenths = seconds[math.ceil(0.9 * len(seconds)) - 1]
    return (
        *name,
        f"{len(rows)}",
        f"{sum(is_certified(row, budget) for row in rows)}",
        shown_gap(max(map(gap, rows))),
        *(f"{value:.3g}" for value in (statistics.median(seconds), nine_tenths, seconds[-1])),
    )


def missed_line(row: Row) -> tuple[str, ...]:
    """Return the line of a fit that was not certified."""
    end = row.get("error") or row["status"]
    return row["data"], row["form"], *setting_of(row), shown_gap(gap(row)), f"{row['seconds']:.3g}", end


def peer_line(name: tuple[str, ...], rows: list[Row], budget: float) -> tuple[str, ...]:
    """Return the line of one peer."""
    gaps = [gap(row) for row in rows]
    found = [value for value in gaps if value < math.inf]
    return (
        *name,
        f"{len(rows)}",
        f"{sum(is_certified(row, budget) for row in rows)}",
        f"{len(rows) - len(found)}",
        shown_gap(statistics.median(gaps)),
        shown_gap(max(found, default=math.inf)),
        f"{statistics.median(row['seconds'] for row in rows):.3g}",
    )


def shown_gap(value: float) -> str:
    """Return a gap with two digits."""
    return "–" if value == math.inf else f"{value:.1e}"


def show_changes(rows: list[Row], before: list[Row], budget: float) -> None:
    """Print what was certified before and is not, what is now, and what was quick and got slower."""
    old = {key(row): row for row in before}
    pairs = [(old[key(row)], row) for row in rows if key(row) in old]
    won = [pair for pair in pairs if not is_certified(pair[0], budget) and is_certified(pair[1], budget)]
    lost = [pair for pair in pairs if is_certified(pair[0], budget) and not is_certified(pair[1], budget)]
    slower = [pair for pair in pairs if is_slower(*pair, budget)]
    write(f"\n### Before and now, {len(pairs)} fits\n")
    for title, found in (("certified now", won), ("no longer certified", lost), ("slower", slower)):
        write(f"\n{len(found)} {title}\n")
        if found:
            write(markdown(_CHANGE_HEAD, [change_line(*pair) for pair in found]))


def key(row: Row) -> tuple[Any, ...]:
    """Return which fit a row is of."""
    return tuple(row[name] for name in ("data", "form", "setting", "C", "tol", "contender"))


def is_slower(old: Row, new: Row, budget: float) -> bool:
    """Say whether a fit that was quick takes a tenth longer."""
    was_quick = is_certified(old, budget) and old["seconds"] <= _QUICK
    return was_quick and new["seconds"] > _SLOWER * max(old["seconds"], _LEAST)


def change_line(old: Row, new: Row) -> tuple[str, ...]:
    """Return the line of a fit that has changed."""
    values = [text for row in (old, new) for text in (shown_gap(gap(row)), f"{row['seconds']:.3g}")]
    return new["data"], new["form"], *setting_of(new), *values
