"""`softmargin bench`: seconds to a proven gap, beside other libraries."""

import sys
from argparse import Namespace
from pathlib import Path

from softmargin.cli.show import json_line, note, print_json, print_table
from softmargin.core.errors import DataError
from softmargin.core.files import atomic_write
from softmargin.report import Section, build_page, image, machine_facts, preformatted, table

_HEAD = ("problem", "data", "gap", "softmargin, s", "best peer, s", "which", "times longer")


def run(args: Namespace) -> int:
    """Race, print the table, and write JSON lines, pictures and one HTML page."""
    out = Path(args.output)
    out.mkdir(parents=True, exist_ok=True)
    if args.name == "quick":
        _quick(args, out)
    else:
        _suite(args, out)
    note(args, f"everything is in {out / f'{args.name}.html'}")
    return 0


def _quick(args: Namespace, out: Path) -> None:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from softmargin.bench.quick import CASES, GAPS, race, summary

    rows = []
    with threadpool_limits(1):
        facts = machine_facts()
        for name, make in CASES.items():
            note(args, f"racing: {name}")
            rows += list(race(make(), gaps=tuple(args.gaps or GAPS), repeats=max(args.repeats, 1)))
    lines, mean = summary(rows)
    with atomic_write(out / "quick.jsonl", error=DataError) as file:
        measured = [{"kind": "measurement", **row._asdict()} for row in rows]
        file.writelines(json_line(line).encode() for line in [{"kind": "machine", **facts}, *measured])
    sections = [Section("Seconds to a proven gap", table(_HEAD, lines))]
    picture = _bars(lines, out / "quick.png")
    if picture is None:
        note(args, "no picture: matplotlib is not installed (pip install 'softmargin[plot]')")
    else:
        sections.append(Section("How many times longer the best peer takes", image(picture, "ratios")))
    build_page(out / "quick.html", "softmargin bench quick", sections, facts)
    if args.json:
        print_json({"rows": [dict(zip(_HEAD, line, strict=True)) for line in lines], "geometric_mean": mean})
        return
    print_table(_HEAD, lines)
    sys.stdout.write(f"\nThe best peer takes {mean:.2f} times longer, in the geometric mean.\n")


def _bars(lines: list[tuple[str, ...]], path: Path) -> Path | None:
    """Draw the ratios as bars; None without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        return None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [
        (f"{data}, {problem}, {gap}", float(ratio[:-1])) for problem, data, gap, *_, ratio in lines if ratio != "–"
    ]
    picture, axis = plt.subplots(figsize=(8, 0.35 * len(shown) + 1.2), layout="constrained")
    axis.barh([name for name, _ in shown][::-1], [ratio for _, ratio in shown][::-1])
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set(xscale="log", xlabel="best peer / softmargin, seconds at equal certified gap")
    picture.savefig(path, dpi=90)
    plt.close(picture)
    return path


def _suite(args: Namespace, out: Path) -> None:
    from softmargin.bench.results_page import fill_page
    from softmargin.bench.suites import SUITES, command_of, find_scripts, known_words, run_script

    scripts, sections, printed = find_scripts(args.benchmarks), [], []
    blocks = {}
    for script, more in zip(SUITES[args.name], known_words(scripts, SUITES[args.name], args.more), strict=True):
        command = command_of(script, out, more)
        note(args, f"{script.question}: {' '.join(command)}")
        text = run_script(scripts, command)
        printed.append({"question": script.question, "text": text})
        blocks[script.block] = text
        sections.append(Section(script.question, preformatted(text)))
        if not args.json:
            sys.stdout.write(text)
    sections += [Section(path.stem, image(path, path.stem)) for path in sorted(out.glob("*.png"))]
    build_page(out / f"{args.name}.html", f"softmargin bench {args.name}", sections, machine_facts())
    if args.page is not None:
        fill_page(Path(args.page), args.name, blocks, out)
    if args.json:
        print_json({"results": printed})
