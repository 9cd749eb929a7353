"""What ``time_to_gap`` and ``time_to_optimum`` measure, and one timing a cell."""

import math
import statistics
from typing import Any, NamedTuple

from tools.common import BENCHMARKS, CONVERGED, MULTICLASS, OVER_CAP, Records


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
