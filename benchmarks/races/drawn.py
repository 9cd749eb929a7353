"""The ports of ``migration.py`` on data that nobody chose: drawn kinds, shapes, classes, prices and scales.

    python benchmarks/races/drawn.py --draws 60 --seed 0 -o drawn.jsonl

Constants of our solvers were found on the data sets of a folder. Here a seed draws the data: Gaussian classes, with
columns as they are or of other scales, texts, codes of categories, blobs, shells. Each has 100 to 10,000 rows
(``--rows 20000 100000``: large ones), up to 10,000 features, 2 to 20 classes, and a price of 0.1 to 100.

Theirs are fitted with their own settings, ``certify`` proves the relative gap of their model, and ours are fitted to
that gap, their proof included; both take turns, and the least time counts. What theirs do not solve is left out: a gap
above 0.05, or more than ``--cap`` seconds. The draws do not hang on times: another version of the library, another
machine, gets the same ones.
"""

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.datasets import make_blobs, make_classification
from sklearn.preprocessing import StandardScaler, normalize

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, log, one_thread
from tools.markdown_tables import markdown, write

Array = NDArray[Any]
Drawn = tuple[Any, Array]
LARGEST = 4_000_000  # numbers of an array
WORST_GAP = 0.05
SHARPEST = 1e-8  # where theirs end closer to the optimum than this, ours need not follow
LONG = 5e-3  # seconds of a fit that is more than its calls
KERNEL_ROWS = 4000
ROWS = (100, 10_000)


class Size(NamedTuple):
    """The shape of a draw."""

    n: int
    d: int
    k: int


def gaussian(size: Size, rng: np.random.Generator) -> Drawn:
    """Return classes around corners of a cube, with some labels drawn anew."""
    least = math.ceil(math.log2(2 * size.k)) + 1
    informative = max(least, int(size.d * rng.uniform(0.05, 1.0)))
    return make_classification(
        size.n,
        max(size.d, informative),
        n_informative=informative,
        n_redundant=0,
        n_classes=size.k,
        n_clusters_per_class=1,
        class_sep=rng.uniform(0.3, 2.0),
        flip_y=rng.choice([0.0, 0.01, 0.1, 0.3]),
        random_state=int(rng.integers(2**31)),
    )


def of_all_scales(size: Size, rng: np.random.Generator) -> Drawn:
    """Return the same with columns of other scales, and perhaps far from zero."""
    X, y = gaussian(size, rng)
    far = rng.choice([0.0, 1.0]) * 10.0 ** rng.uniform(-1.0, 2.0, X.shape[1])
    return X * 10.0 ** rng.uniform(-2.0, 2.0, X.shape[1]) + far, y


def text(size: Size, rng: np.random.Generator) -> Drawn:
    """Return counts of words, some of them of a topic; most texts have length 1."""
    d = int(10.0 ** rng.uniform(2.5, 4.0))
    lengths, topics = rng.poisson(rng.uniform(10, 80), size.n) + 1, rng.integers(0, size.k, size.n)
    rows, share = np.repeat(np.arange(size.n), lengths), 1.0 / np.arange(1, d + 1) ** rng.uniform(0.7, 1.2)
    words = rng.choice(d, len(rows), p=share / share.sum())
    is_own = rng.random(len(rows)) < rng.uniform(0.05, 0.3)
    words = np.where(is_own, (7 * words + 131 * topics[rows]) % d, words)
    X = csr_matrix((np.ones(len(rows)), (rows, words)), shape=(size.n, d))
    y = np.where(rng.random(size.n) < 0.05, rng.integers(0, size.k, size.n), topics)
    return normalize(X) if rng.random() < 0.7 else X, y


def codes(size: Size, rng: np.random.Generator) -> Drawn:
    """Return codes of categories, as an array or with the ones alone."""
    m, levels = int(rng.integers(3, 15)), int(rng.integers(2, 40))
    columns = rng.integers(0, levels, (size.n, m)) + levels * np.arange(m)
    ones = (np.ones(columns.size), (np.repeat(np.arange(size.n), m), columns.ravel()))
    X = csr_matrix(ones, shape=(size.n, m * levels))
    scores = X @ rng.standard_normal((m * levels, size.k))
    y = (scores + rng.uniform(0.1, 2.0) * rng.standard_normal(scores.shape)).argmax(axis=1)
    return X.toarray() if m * levels < 200 and rng.random() < 0.5 else X, y


def blobs(size: Size, rng: np.random.Generator) -> Drawn:
    """Return round classes, near to each other or not."""
    spread, state = rng.uniform(0.5, 8.0), int(rng.integers(2**31))
    return make_blobs(size.n, min(size.d, 50), centers=size.k, cluster_std=spread, random_state=state)


def shells(size: Size, rng: np.random.Generator) -> Drawn:
    """Return classes by their distance from zero: no linear model knows them."""
    X = rng.standard_normal((size.n, min(size.d, 8)))
    distance = np.linalg.norm(X, axis=1)
    y = np.digitize(distance, np.quantile(distance, np.linspace(0.0, 1.0, size.k + 1)[1:-1]))
    return X * (10.0 ** rng.uniform(-1.0, 2.0, X.shape[1]) if rng.random() < 0.5 else 1.0), y


KINDS: dict[str, Callable[[Size, np.random.Generator], Drawn]] = {
    "gaussian": gaussian,
    "of all scales": of_all_scales,
    "text": text,
    "codes": codes,
    "blobs": blobs,
    "shells": shells,
}


def draw(rng: np.random.Generator, rows: tuple[int, int] = ROWS) -> tuple[str, Any, Array, float]:
    """Return the name of a kind, so many rows with their labels, and a price."""
    least, most = (math.log10(number) for number in rows)
    kind, n = str(rng.choice(list(KINDS))), int(10.0 ** rng.uniform(least, most))
    d = max(min(int(10.0 ** rng.uniform(0.3, 3.0)), LARGEST // n), 2)
    X, y = KINDS[kind](Size(n, d, int(rng.choice([2, 2, 2, 3, 5, 10, 20]))), rng)
    if not issparse(X) and rng.random() < 0.5:
        X = StandardScaler().fit_transform(X)
    return kind, X, y, float(rng.choice([0.1, 1.0, 1.0, 10.0, 100.0]))


def lines() -> dict[str, Callable[[float], tuple[Any, Any]]]:
    """Return theirs and ours for a price, by the name of the line."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC
    from sklearn.svm import LinearSVC as TheirLinearSVC

    from softmargin import KernelSVC, LinearSVC, SoftmaxRegression

    own: dict[str, Any] = {"multiclass": "one_vs_rest", "fit_intercept": "penalized", "random_state": 0}
    pairs: dict[str, Any] = {"multiclass": "one_vs_one", "fit_intercept": "free", "random_state": 0}
    return {
        "squared hinge": lambda C: (TheirLinearSVC(C=C, random_state=0), LinearSVC(C, loss="squared_hinge", **own)),
        "hinge": lambda C: (TheirLinearSVC(C=C, loss="hinge", random_state=0), LinearSVC(C, **own)),
        "one-vs-one": lambda C: (SVC(C=C), KernelSVC(C, **pairs)),
        "joint kernel": lambda C: (SVC(C=C), KernelSVC(C, random_state=0)),
        "softmax": lambda C: (LogisticRegression(C=C), SoftmaxRegression(C, random_state=0)),
    }


def main(arguments: list[str] | None) -> int:
    """Measure the draws that are not known yet, and print the table."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    records.start(cap=options.cap)
    known = {(row["line"], row["seed"]) for row in records.measurements()}
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs may stop early: the gap tells
        for name, make in lines().items():
            if name not in options.lines:
                continue
            for seed in range(options.seed, options.seed + options.draws):
                if (name, seed) not in known:
                    measure(name, make, seed, options, records)
    print_tables(records.measurements(), options)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(lines())
    parser.add_argument("--lines", nargs="+", choices=names, default=names, metavar="LINE", help=", ".join(names))
    parser.add_argument("--draws", type=int, default=60, help="of each line (default: 60)")
    parser.add_argument("--rows", nargs=2, type=int, default=ROWS, metavar=("LEAST", "MOST"), help="of a draw")
    parser.add_argument("--seed", type=int, default=0, help="of the first draw (default: 0)")
    parser.add_argument("--cap", type=float, default=5.0, help="seconds that theirs may take (default: 5)")
    parser.add_argument("--repeats", type=int, default=3, help="to take the least of (default: 3)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def measure(
    line: str, make: Callable[[float], tuple[Any, Any]], seed: int, options: argparse.Namespace, records: Records
) -> None:
    """Time theirs and ours on a draw."""
    from softmargin import certify

    kind, X, y, C = draw(np.random.default_rng(seed), options.rows)
    if line in ("one-vs-one", "joint kernel"):
        X, y = X[:KERNEL_ROWS], y[:KERNEL_ROWS]
    if len(np.unique(y)) < 2:
        return
    theirs, ours = make(C)
    row = {"line": line, "seed": seed, "data": kind, "n": X.shape[0], "d": X.shape[1], "classes": len(np.unique(y))}
    row |= {"kind": "measurement", "C": C, "is_sparse": bool(issparse(X))}
    least = seconds(theirs, X, y)
    gap = certify(theirs, X, y, max_seconds=options.cap).residual if least <= options.cap else math.inf
    row["gap"] = gap if math.isfinite(gap) else None
    if gap <= WORST_GAP:
        ours.set_params(tol=max(gap, SHARPEST), max_seconds=10.0 * options.cap).fit(X, y)  # compiles
        turns = [(seconds(theirs, X, y), seconds(ours, X, y)) for _ in range(options.repeats)]
        row |= {"theirs_seconds": min(least, *(turn[0] for turn in turns)), "seconds": min(turn[1] for turn in turns)}
        row |= {"own_gap": ours.certificate_.residual, "status": ours.status_, "iterations": int(np.max(ours.n_iter_))}
        log.print(f"{line} {seed}: {row['seconds']:.3g} s, theirs {row['theirs_seconds']:.3g} s", style="dim")
    records.append(row)


def seconds(model: Any, X: Any, y: Array) -> float:
    """Return the processor seconds of a fit."""
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def print_tables(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print how many times faster ours are on each line, and the fits that lose most."""
    solved = [row for row in rows if "seconds" in row and row["line"] in options.lines]
    write("\n### drawn data, by line\n")
    means = []
    for name in dict.fromkeys(row["line"] for row in solved):
        own = [row for row in solved if row["line"] == name]
        long = [row for row in own if row["seconds"] > LONG]
        missed = sum(row["status"] != "converged" for row in own)
        lost = sum(faster(row) < 1.0 / 1.2 for row in long)
        means.append([name, f"{len(own)}", mean(own), f"{len(long)}", mean(long), f"{lost}", f"{missed}"])
    head = ["line", "fits", "times faster", "above 5 ms", "times faster there", "lost by more than 1.2 there", "missed"]
    write(markdown(head, means))
    write("\n### drawn data, the fits above 5 ms that lose most\n")
    worst = sorted((row for row in solved if row["seconds"] > LONG), key=faster)[:12]
    head = ["line", "seed", "data", "rows", "features", "classes", "C", "gap", "theirs, s", "ours, s", "times faster"]
    write(markdown(head, map(cells, worst)))


def mean(rows: list[dict[str, Any]]) -> str:
    """Return how many times faster some fits are, in the geometric mean."""
    return f"{statistics.geometric_mean(map(faster, rows)):.2f}" if rows else "–"


def cells(row: dict[str, Any]) -> list[str]:
    """Return what the table says of one fit."""
    words = [row["line"], f"{row['seed']}", row["data"], f"{row['n']}", f"{row['d']}", f"{row['classes']}"]
    words += [f"{row['C']:g}", f"{row['gap']:.0e}", f"{row['theirs_seconds']:.4f}", f"{row['seconds']:.4f}"]
    return [*words, f"{faster(row):.2f}"]


def faster(row: dict[str, Any]) -> float:
    """Return how many times longer theirs took."""
    return float(row["theirs_seconds"] / row["seconds"])


if __name__ == "__main__":
    command(main)
