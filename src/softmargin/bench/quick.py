"""A quick race at equal certified gap: our estimators and scikit-learn's, on data that come with the library.

    ours     fit to tol = gap: the time of that fit, its proof included
    peers    tol is lowered by half decades until their model, too, is within the gap: the time of that fit alone

``certify`` measures every model against the same proven bound of the same problem, outside the timings. Times are
medians of the repeats, contenders interleaved, on one thread.
"""

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from softmargin import LinearSVC, SoftmaxRegression, certify
from softmargin.data import load

__all__ = ["CASES", "GAPS", "Case", "Row", "race", "summary"]

GAPS = (1e-2, 1e-3, 1e-4)
TOLS = tuple(10.0 ** (-power / 2) for power in range(1, 15))  # of the peers: half decades, 0.3 to 1e-7
ENDLESS = 10**6  # passes: only tol ends a fit
BOUND_TOL = 1e-6

Maker = Callable[..., Any]  # called with tol=...: an estimator


class Case(NamedTuple):
    """A problem and its contenders: functions from a tolerance to an estimator."""

    problem: str
    data: str
    C: float
    ours: Maker
    peers: dict[str, Maker]


class Row(NamedTuple):
    """One time: a contender, the gap required, the gap reached, and the tol it took."""

    problem: str
    data: str
    gap: float
    contender: str
    seconds: float
    residual: float
    tol: float


def _linear(C: float, data: str) -> Case:
    from sklearn.svm import LinearSVC as Peer

    ours = partial(LinearSVC, C=C, multiclass="crammer_singer", random_state=0)
    theirs = partial(Peer, C=C, multi_class="crammer_singer", max_iter=ENDLESS, random_state=0)
    return Case("Crammer-Singer SVM", data, C, ours, {"LinearSVC (LIBLINEAR)": theirs})


def _softmax(C: float, data: str, l1_ratio: float, solvers: tuple[str, ...]) -> Case:
    from sklearn.linear_model import LogisticRegression

    name = "softmax, l1" if l1_ratio == 1.0 else "softmax, l2"
    ours = partial(SoftmaxRegression, C=C, l1_ratio=l1_ratio, random_state=0)
    theirs = partial(LogisticRegression, C=C, l1_ratio=l1_ratio, max_iter=ENDLESS, random_state=0)
    peers: dict[str, Maker] = {f"LogisticRegression ({solver})": partial(theirs, solver=solver) for solver in solvers}
    return Case(name, data, C, ours, peers)


# Functions, as they import scikit-learn.
CASES: dict[str, Callable[[], Case]] = {
    "dna, Crammer-Singer": lambda: _linear(1.0, "dna"),
    "digits, Crammer-Singer": lambda: _linear(0.01, "digits"),
    "dna, softmax l2": lambda: _softmax(1.0, "dna", 0.0, ("lbfgs", "newton-cg")),
    "digits, softmax l2": lambda: _softmax(0.01, "digits", 0.0, ("lbfgs", "newton-cg")),
    "dna, softmax l1": lambda: _softmax(0.1, "dna", 1.0, ("saga",)),
}


def race(case: Case, *, gaps: tuple[float, ...] = GAPS, repeats: int = 3, cap: float = 10.0) -> Iterator[Row]:
    """Yield the median time of every contender to every gap; one that misses a gap does not try tighter ones."""
    data = load(case.data)
    X, y = (data.X if isinstance(data.X, np.ndarray) else data.X.toarray()), data.y
    contenders: dict[str, Maker] = {"softmargin": case.ours, **case.peers}
    for make in contenders.values():
        _timed(make, TOLS[0], X, y)  # compile, import
    settings = {name: list(TOLS) for name in case.peers}  # still to try
    alive = dict.fromkeys(contenders, True)
    for gap in sorted(gaps, reverse=True):
        tols: dict[str, float] = {}
        for name, make in contenders.items():
            if alive[name]:
                tols[name] = gap if name == "softmargin" else _enough(make, settings[name], gap, X, y, case.C, cap)
                alive[name] = math.isfinite(tols[name])
        times: dict[str, list[float]] = {name: [] for name in tols if alive[name]}
        residuals: dict[str, float] = {}
        for repeat in range(repeats):
            names = list(times)
            for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
                model, seconds = _timed(contenders[name], tols[name], X, y)
                times[name].append(seconds)
                if repeat == 0:
                    residuals[name] = certify(model, X, y, C=case.C, bound_tol=BOUND_TOL).residual
        for name in tols:
            seconds = statistics.median(times[name]) if alive[name] else math.inf
            yield Row(case.problem, case.data, gap, name, seconds, residuals.get(name, math.nan), tols[name])


def _enough(make: Maker, tols: list[float], gap: float, X: Any, y: Any, C: float, cap: float) -> float:
    """Return the loosest tol that brings a peer within the gap, and drop looser ones; inf where none does in time."""
    while tols:
        model, seconds = _timed(make, tols[0], X, y)
        if certify(model, X, y, C=C, bound_tol=BOUND_TOL).residual <= gap:
            return tols[0]
        tols.pop(0)
        if seconds > cap:
            return math.inf
    return math.inf


def _timed(make: Maker, tol: float, X: Any, y: Any) -> tuple[Any, float]:
    model = make(tol=tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged: its certificate will show it
        began = time.perf_counter()
        model.fit(X, y)
        return model, time.perf_counter() - began


def summary(rows: list[Row]) -> tuple[list[tuple[str, ...]], float]:
    """Return lines (problem, data, gap, ours, best peer, its name, ratio), and the geometric mean of the ratios."""
    lines: list[tuple[str, ...]] = []
    ratios: list[float] = []
    for problem, data, gap in dict.fromkeys(row[:3] for row in rows):
        cell = [row for row in rows if row[:3] == (problem, data, gap)]
        ours = next(row for row in cell if row.contender == "softmargin")
        best = min((row for row in cell if row is not ours), key=lambda row: row.seconds, default=None)
        found, name, ratio = "–", "–", "–"
        if best is not None and math.isfinite(best.seconds):
            ratios.append(best.seconds / ours.seconds)
            found, name, ratio = f"{best.seconds:.4f}", best.contender, f"{ratios[-1]:.2f}×"
        lines.append((problem, data, f"{gap:g}", f"{ours.seconds:.4f}", found, name, ratio))
    return lines, statistics.geometric_mean(ratios) if ratios else math.nan
