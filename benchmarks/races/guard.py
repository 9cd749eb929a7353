"""A guard against getting slower: the quick race of ``softmargin.bench.quick`` beside a stored one.

    ratio     seconds of the best peer / ours, for each case and gap: above 1 we are faster
    change    ratio now / ratio stored; below 1 / factor we got slower, above factor faster

Peers and we run interleaved on the same machine, so that a ratio moves less from machine to machine than seconds do;
it still moves, by tens of percent on a busy one: hence the wide factor. ``--update`` stores a new baseline
(guard.json: ratios, machine, date). Given a file with ``-o``, cases measured with the same sources are not run again.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import OURS, Records, UserError, choose, command, log, one_thread, source_digest
from tools.markdown_tables import markdown, write

BASELINE = Path(__file__).with_name("guard.json")


def main(arguments: list[str] | None) -> int:
    """Race, compare with the baseline or store it; the exit code reports "slower" only with --strict."""
    options = parser().parse_args(arguments)
    if not options.update and not options.baseline.exists():
        log.print(f"no baseline at {options.baseline}; make it with: python benchmarks/races/guard.py --update")
        return 1 if options.strict else 0
    stored = None if options.update else load_baseline(options.baseline)
    with one_thread():
        from softmargin.bench.quick import CASES

        names = choose("case", options.case, list(CASES))
        if options.update and set(names) != set(CASES):
            raise UserError("--update stores all cases; leave out --case.")
        records = Records(options.output)
        records.start(repeats=options.repeats)
        for name in names:
            measure(name, records, options.repeats)
    now = {name: ratios(known(records, name, options.repeats)) for name in names}
    if stored is None:
        store(options.baseline, now, records, options)
        return 0
    verdicts = compare(now, stored, options.factor)
    return 1 if options.strict and "slower" in verdicts else 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", metavar="NAME", help="cases of the quick race (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="runs to take the median of (default: 5)")
    parser.add_argument("--factor", type=factor, default=1.5, help="change of a ratio that is reported (default: 1.5)")
    parser.add_argument("--baseline", type=Path, default=BASELINE, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--update", action="store_true", help="store this race as the baseline")
    parser.add_argument(
        "--note", default="", help="a remark that the new baseline keeps, such as what else was running"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 where something got slower")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def factor(text: str) -> float:
    """Return a number above 1, or tell argparse that it is none."""
    value = float(text)
    if not 1.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a factor above 1 is needed; found {text}")
    return value


def load_baseline(path: Path) -> dict[str, Any]:
    """Return the stored race."""
    try:
        stored = json.loads(path.read_text())
    except ValueError as problem:
        raise UserError(f"{path} is not JSON ({problem}); make it again with --update.") from problem
    if not isinstance(stored, dict) or "ratios" not in stored:
        raise UserError(f"{path} holds no ratios; make it again with --update.")
    return stored


def known(records: Records, name: str, repeats: int) -> list[dict[str, Any]]:
    """Return the times of one case that the present sources have, the latest race of it."""
    asked = {"case": name, "source": source_digest(), "repeats": repeats}
    rows = [row for row in records.measurements() if all(row.get(key) == asked[key] for key in asked)]
    return rows[-1]["times"] if rows else []


def measure(name: str, records: Records, repeats: int) -> None:
    """Run one case, if it is not known."""
    from softmargin.bench.quick import CASES, race

    if known(records, name, repeats):
        return
    log.print(name, style="dim", markup=False)
    times = [
        {
            "gap": row.gap,
            "contender": row.contender,
            "seconds": row.seconds if math.isfinite(row.seconds) else None,
        }
        for row in race(CASES[name](), repeats=repeats)
    ]
    facts = {"case": name, "source": source_digest(), "repeats": repeats}
    records.append({"kind": "measurement", **facts, "times": times})


def ratios(times: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each gap our seconds, those of the best peer, its name, and the ratio; no peer in time, no ratio."""
    found = {}
    for gap in dict.fromkeys(row["gap"] for row in times):
        cell = {row["contender"]: row["seconds"] for row in times if row["gap"] == gap and row["seconds"] is not None}
        ours = cell.pop(OURS, None)
        best = min(cell, key=lambda name: cell[name], default=None)
        theirs = None if best is None else cell[best]
        ratio = None if ours is None or theirs is None else theirs / ours
        found[f"{gap:g}"] = {"ours": ours, "peer": best, "theirs": theirs, "ratio": ratio}
    return found


def store(path: Path, now: dict[str, Any], records: Records, options: argparse.Namespace) -> None:
    """Write the baseline: what was found, on which machine, when."""
    machine = next(row for row in reversed(records.rows) if row["kind"] == "machine")
    facts = {"date": machine["date"], "note": options.note, "repeats": options.repeats, "machine": machine}
    unfinished = path.with_name(f"unfinished-{path.name}")
    unfinished.write_text(json.dumps({**facts, "ratios": now}, indent=1) + "\n")
    unfinished.replace(path)
    log.print(f"stored: {path}")


def compare(now: dict[str, Any], stored: dict[str, Any], factor: float) -> list[str]:
    """Print a line for each case and gap, and what changed in sum; return the verdicts."""
    body, changed, verdicts = [], [], []
    for name, gaps in now.items():
        for gap, cell in gaps.items():
            before = stored["ratios"].get(name, {}).get(gap, {}).get("ratio")
            verdict, change = verdict_of(cell["ratio"], before, factor)
            verdicts.append(verdict)
            if verdict in ("slower", "faster"):
                changed.append(f"{verdict}: {name} at {gap}, {change:.2f} times the ratio of the baseline")
            numbers = [_number(cell["ours"], ".4f"), _number(cell["theirs"], ".4f"), cell["peer"] or "–"]
            shown = [_number(value, ".2f") for value in (cell["ratio"], before, change)]
            body.append([name, gap, *numbers, *shown, verdict])
    write(f"\nbaseline of {stored['date']}, {stored['machine']['cpu']}. {stored['note']}\n")
    write(markdown(["case", "gap", "ours", "best peer", "which", "ratio", "baseline", "change", "verdict"], body))
    write("\n" + ("\n".join(changed) or f"nothing changed by more than a factor of {factor:g}"))
    return verdicts


def verdict_of(ratio: float | None, before: float | None, factor: float) -> tuple[str, float | None]:
    """Return "slower", "faster", "same" or "unknown", and the change of the ratio."""
    if ratio is None or before is None:
        return "unknown", None
    change = ratio / before
    return "slower" if change < 1.0 / factor else "faster" if change > factor else "same", change


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


if __name__ == "__main__":
    command(main)
