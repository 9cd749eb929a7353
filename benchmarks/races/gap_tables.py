"""What ``time_to_gap`` and ``time_to_optimum`` measure, and measurements as tables."""

import math
import statistics
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from tools.common import BENCHMARKS, CONVERGED, MULTICLASS, OURS, OVER_CAP, Records, console, log


class Kind(NamedTuple):
    """What a benchmark varies besides data and C, and what is measured by default."""

    axis: str
    variants: tuple[str, ...]
    C: tuple[float, ...] = (1.0, 10.0)
    tols: tuple[float, ...] = (1e-3, 1e-6)
    residual: str = "gap"
    price: str = "C"  # what the objective calls the number that stands for C


KINDS = {
    "multiclass_svm_linear": Kind("multiclass", MULTICLASS, C=(0.125, 1.0), tols=(1e-2, 1e-3, 1e-4)),
    "multiclass_svm_kernel": Kind("multiclass", MULTICLASS),
    "l2_svm": Kind("kernel", ("rbf",)),
    "l1_ball": Kind("ridge", ("1", "10", "100"), C=(300.0,), price="radius"),
    "trace_ball": Kind("ridge", ("10",), C=(0.9,), price="radius"),
    "kernel_hinge": Kind("kernel", ("rbf",), C=(1e-4, 1e-3), price="lam"),
    "softmax": Kind("penalty", ("l2", "l1", "elastic_net"), residual="at"),
}


class Cell(NamedTuple):
    """What one number of the table stands for; ``variant`` is a loss or a kernel."""

    benchmark: str
    variant: str
    data: str
    C: float
    solver: str
    tol: float

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Cell":
        """Return the cell a measurement belongs to."""
        benchmark = row.get("benchmark", BENCHMARKS[0])
        return cls(benchmark, row[KINDS[benchmark].axis], *(row[name] for name in cls._fields[2:]))


class Timing(NamedTuple):
    """One cell of the table: the median in seconds, or why there is none, and what it exceeds at least."""

    seconds: float
    text: str
    at_least: float = 0.0


def timings(records: Records) -> dict[Cell, Timing]:
    """Condense measurements to one timing a cell; tighter tolerances than a missed one count as missed."""
    by_cell: dict[Cell, list[dict[str, Any]]] = {}
    for row in records.measurements():
        by_cell.setdefault(Cell.of(row), []).append(row)
    found = {}
    for cell, rows in by_cell.items():
        latest = list({row["repeat"]: row for row in rows}.values())
        misses = [row for row in latest if row["status"] != CONVERGED]
        if misses:
            found[cell] = missed(misses[-1])
        else:
            median = statistics.median(row["seconds"] for row in latest)
            found[cell] = Timing(median, f"{median:.4f}" if median < 1.0 else f"{median:.2f}")
    tols = {cell.tol for cell in found}
    for cell, timing in list(found.items()):
        if math.isinf(timing.seconds):
            for tol in tols:
                if tol < cell.tol:
                    found.setdefault(cell._replace(tol=tol), timing)
    return found


def missed(row: dict[str, Any]) -> Timing:
    """Say why there is no time, and how far the contender came."""
    is_over = row["status"] == OVER_CAP
    text = f"> {row['cap']:g}" if is_over else row["status"]
    word = KINDS[row.get("benchmark", BENCHMARKS[0])].residual
    gap = "" if row["residual"] is None else f" ({word} {row['residual']:.0e})"
    return Timing(math.inf, text + gap, row["cap"] if is_over else 0.0)


def print_summary(records: Records) -> None:
    """Print a table for each loss or kernel, and the ratios in a few numbers."""
    found = timings(records)
    if not found:
        log.print("no measurements yet")
        return
    for benchmark, variant in dict.fromkeys(cell[:2] for cell in found):
        print_variant(variant, {cell: timing for cell, timing in found.items() if cell[:2] == (benchmark, variant)})


def print_variant(variant: str, cells: dict[Cell, Timing]) -> None:
    """Print seconds and the ratio ours / contender of one loss or kernel."""
    others = list(dict.fromkeys(cell.solver for cell in cells if cell.solver != OURS))
    table = Table(title=f"{variant}: seconds to a relative gap ({OURS} / contender; below 1 we are faster)")
    for name in ("data", "C", "tol", OURS):
        table.add_column(name, justify="left" if name == "data" else "right")
    for solver in others:
        table.add_column(escape(solver), justify="right", overflow="fold")
    ratios: dict[str, list[tuple[float, Cell]]] = {solver: [] for solver in others}
    names = list(dict.fromkeys(cell.data for cell in cells))
    rows = {cell._replace(solver=OURS) for cell in cells}
    for row in sorted(rows, key=lambda row: (names.index(row.data), row.C, -row.tol)):
        ours = cells.get(row, Timing(math.nan, "-"))
        texts = []
        for solver in others:
            cell = row._replace(solver=solver)
            theirs = cells.get(cell, Timing(math.nan, "-"))
            ratio = ours.seconds / theirs.seconds
            if math.isfinite(ratio) and math.isfinite(theirs.seconds):
                ratios[solver].append((ratio, cell))
                texts.append(f"{theirs.text} ({ratio:.2f})")
            elif theirs.at_least > ours.seconds:
                texts.append(f"{theirs.text} (< {ours.seconds / theirs.at_least:.2g})")
            else:
                texts.append(theirs.text)
        table.add_row(row.data, f"{row.C:g}", f"{row.tol:g}", ours.text, *texts)
    console.print(table)
    console.print(ratio_table(variant, ratios, cells))


def ratio_table(variant: str, ratios: dict[str, list[tuple[float, Cell]]], cells: dict[Cell, Timing]) -> Table:
    """Return geometric means by tolerance and the worst case, over cells that both finished."""
    tols = sorted({cell.tol for cell in cells}, reverse=True)
    table = Table(title=f"{variant}: {OURS} / contender, geometric means over cells both finished")
    for name in ("contender", *(f"tol {tol:g}" for tol in tols), "all", "worst case", "at", "missed by it", "by us"):
        table.add_column(name, justify="left" if name in ("contender", "at") else "right")
    for solver, pairs in ratios.items():
        means = [_geometric_mean([ratio for ratio, cell in pairs if cell.tol == tol]) for tol in tols]
        worst, where = max(pairs, default=(math.nan, None))
        at = "" if where is None else f"{where.data} C={where.C:g} tol={where.tol:g}"
        theirs = {cell: timing for cell, timing in cells.items() if cell.solver == solver}
        missed_by_it = sum(math.isinf(timing.seconds) for timing in theirs.values())
        ours = [cells.get(cell._replace(solver=OURS)) for cell in theirs]
        missed_by_us = sum(timing is not None and math.isinf(timing.seconds) for timing in ours)
        everything = _geometric_mean([ratio for ratio, _ in pairs])
        table.add_row(escape(solver), *means, everything, f"{worst:.2f}", at, str(missed_by_it), str(missed_by_us))
    return table


def _geometric_mean(ratios: list[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"
