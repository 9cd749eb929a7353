"""A whole path of l1-penalised multinomial regression: ours and scikit-learn's saga, warm-started along the same Cs.

    softmax_path    softmax_path(X, y, Cs=..., tol=level): every point is certified, on the clock
    saga            LogisticRegression(solver="saga", l1_ratio=1, warm_start=True), refitted for one C after the other

The grid begins where the first weight is about to leave zero. Every point must be within the level, (F - F*) / F*, with
F* from our own path at a hundredth of the level. saga has no such tolerance: its tol is tightened by half decades until
the last point, fitted from zero, is within the level, then further until all points of the path are; the time is that
of the last path alone. Started again with the same file, the command continues where it was stopped.
"""

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import CONVERGED, OVER_CAP, Records, choose, command, load_benchmark, load_data, log, one_thread
from tools.markdown_tables import markdown, write

DATA = ("news20", "reuters-r52")
OURS, SAGA = "softmax_path", "saga"
_SHARPER = 0.01  # share of the level to which F* is known
_ENDLESS = 10**6


class PathRun(NamedTuple):
    """One run over a path: seconds in all; suboptimality (off), weights in use and proven gap of every point."""

    seconds: float
    off: list[float]
    in_use: list[int]
    gaps: list[float] | None = None


class Trail:
    """The problems along a grid of C, with the least objective of each, and both ways to solve them."""

    def __init__(self, X: Any, codes: np.ndarray, options: argparse.Namespace) -> None:
        from softmargin import softmax_problem
        from softmargin.penalties import L1

        self.X, self.codes = X, codes
        self.settings = {"fit_intercept": not options.no_intercept}
        sharp = self._path(Cs=options.points, eps=1.0 / options.span, tol=_SHARPER * options.level)
        self.Cs = sharp.Cs
        self.optima = [certificate.primal for certificate in sharp.certificates]
        self.looseness = max(certificate.residual for certificate in sharp.certificates)
        self.problems = [softmax_problem(X, codes, C=C, penalty=L1(1.0), **self.settings) for C in self.Cs]

    def ours(self, level: float) -> PathRun:
        """Solve our path, all points certified to the level."""
        began = time.perf_counter()
        path = self._path(Cs=self.Cs, tol=level)
        seconds = time.perf_counter() - began
        models = list(zip(path.coefs, path.intercepts, strict=True))
        return self._evaluated(seconds, models)._replace(
            gaps=[certificate.residual for certificate in path.certificates]
        )

    def saga(self, tol: float, points: slice = slice(None)) -> PathRun:
        """Refit one estimator along the path, or a part of it."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            solver="saga", l1_ratio=1.0, warm_start=True, tol=tol, max_iter=_ENDLESS, random_state=0, **self.settings
        )
        seconds, models = 0.0, []
        for C in self.Cs[points]:
            began = time.perf_counter()
            model.set_params(C=C).fit(self.X, self.codes)
            seconds += time.perf_counter() - began
            models.append((model.coef_.copy(), model.intercept_.copy()))
        return self._evaluated(seconds, models, points)

    def _path(self, **settings: Any) -> Any:
        from softmargin import softmax_path

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not certified: the objective measures it
            return softmax_path(self.X, self.codes, l1_ratio=1.0, **settings, **self.settings)

    def _evaluated(self, seconds: float, models: list[Any], points: slice = slice(None)) -> PathRun:
        from softmargin.problems import CompositePoint

        off = []
        for problem, least, (coef, intercept) in zip(self.problems[points], self.optima[points], models, strict=True):
            primal = problem.primal(CompositePoint(coef.T, np.broadcast_to(intercept, len(coef)))).value
            off.append(max(primal - least, 0.0) / least)
        return PathRun(seconds, off, [int(np.count_nonzero(coef)) for coef, _ in models])


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, and print the table."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    with one_thread():
        benchmark = load_benchmark("softmax")
        names = choose("data", options.data, [*DATA, "dna", "20ng-bydate"])
        records.start(cap=options.cap, repeats=options.repeats)
        for name in names if options.data else DATA:
            measure(benchmark, name, records, options)
    print_table(records)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"data sets (default: {' '.join(DATA)})")
    parser.add_argument("--points", type=int, default=30, help="values of C (default: 30)")
    parser.add_argument("--span", type=float, default=100.0, help="largest C / smallest C (default: 100)")
    parser.add_argument("--level", type=float, default=1e-3, help="suboptimality of every point (default: 1e-3)")
    parser.add_argument("--no-intercept", action="store_true", help="leave the intercept out")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the median is taken (default: 3)")
    parser.add_argument("--cap", type=float, default=900.0, help="seconds a path may take (default: 900)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def measure(benchmark: Any, name: str, records: Records, options: argparse.Namespace) -> None:
    """Solve the path of one data set as often as is still missing."""
    asked = {key: getattr(options, key) for key in ("points", "span", "level", "no_intercept")} | {"data": name}

    def known(contender: str) -> list[dict[str, Any]]:
        asked_of = asked | {"contender": contender}
        return [row for row in records.measurements() if all(row[key] == asked_of[key] for key in asked_of)]

    def is_missing(contender: str, repeat: int) -> bool:
        rows = known(contender)
        is_hopeless = any(row["status"] != CONVERGED and row["cap"] >= options.cap for row in rows)
        return not is_hopeless and not any(row["repeat"] == repeat and row["status"] == CONVERGED for row in rows)

    trail = None
    for repeat in range(options.repeats):
        for contender in (OURS, SAGA):
            if not is_missing(contender, repeat):
                continue
            trail = trail or make_trail(benchmark, name, options)
            tol, run = options.level, None
            if contender == OURS:
                run = trail.ours(options.level)
            else:
                tols = [row["tol"] for row in known(SAGA) if row["status"] == CONVERGED]
                tol, run = saga_within(trail, options, tols[-1] if tols else None)
            row = {"kind": "measurement", **asked, "contender": contender, "repeat": repeat, "tol": tol}
            found = {"seconds": None} if run is None else run._asdict()
            records.append(row | {"cap": options.cap, "status": OVER_CAP if run is None else CONVERGED} | found)
            said = f"> {options.cap:g} s" if run is None else f"{run.seconds:.4g} s, worst {max(run.off):.1e}"
            log.print(f"{name} repeat {repeat}: {contender} {said}", style="dim")


def make_trail(benchmark: Any, name: str, options: argparse.Namespace) -> Trail:
    """Load a data set and find its grid and its least objectives; this also compiles everything."""
    data = load_data(benchmark, name)
    trail = Trail(data["X"], np.unique(data["y"], return_inverse=True)[1], options)
    log.print(f"{name}: C = {trail.Cs[0]:.3g} .. {trail.Cs[-1]:.3g}; F* proven to {trail.looseness:.1e}", style="dim")
    return trail


def saga_within(trail: Trail, options: argparse.Namespace, known: float | None) -> tuple[float, PathRun | None]:
    """Return the loosest tol with which all of saga's path is within the level, and that path; None: not in time.

    A fit cannot be stopped, so it runs in a child that can.
    """
    from benchmark_utils.racing import bounded
    from benchmark_utils.softmax_solvers import TOL_GRID

    def solved(tol: float, points: slice) -> PathRun | None:
        return bounded(lambda: trail.saga(tol, points), options.cap)

    is_near = known is not None  # whether this tol is enough for the last point alone
    for tol in (tol for tol in TOL_GRID if known is None or tol <= known):
        if not is_near:
            run = solved(tol, slice(-1, None))
            if run is None:
                return tol, None
            is_near = max(run.off) <= options.level
        if is_near:
            run = solved(tol, slice(None))
            if run is None or max(run.off) <= options.level:
                return tol, run
    return TOL_GRID[-1], None


def print_table(records: Records) -> None:
    """Print seconds, how many times longer than ours, and what was reached."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records.measurements():
        where = (row["data"], "no" if row["no_intercept"] else "yes", row["points"], row["span"], row["level"])
        cells.setdefault((*where, row["contender"]), []).append(row)
    body = []
    for (*where, contender), rows in cells.items():
        ours = median(cells.get((*where, OURS), []))
        last, seconds = rows[-1], median(rows)
        if seconds is None:
            body.append(
                [*map(str, where), contender, f"> {last['cap']:g}", times(last["cap"], ours, "> "), "–", "–", "–"]
            )
            continue
        proven = "–" if last["gaps"] is None else f"{max(last['gaps']):.1e}"
        reached = [f"{max(last['off']):.1e}", proven, str(last["in_use"][-1])]
        body.append([*map(str, where), contender, f"{seconds:.2f}", times(seconds, ours), *reached])
    head = ["data", "intercept", "points", "span", "level", "path by", "seconds", "times ours"]
    write(markdown([*head, "worst suboptimality", "worst proven gap", "weights in use at the end"], body))


def median(rows: list[dict[str, Any]]) -> float | None:
    """Return the median time, None where any run missed."""
    if not rows or any(row["seconds"] is None for row in rows):
        return None
    return statistics.median(row["seconds"] for row in rows)


def times(seconds: float, ours: float | None, sign: str = "") -> str:
    """Return how many times longer than ours."""
    return "–" if ours is None else f"{sign}{seconds / ours:.1f}×"


if __name__ == "__main__":
    command(main)
