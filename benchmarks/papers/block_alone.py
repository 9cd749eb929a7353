"""Paper 004, Tables 8 and 9: the Weston-Watkins block alone, beside a general solver of quadratic programs.

    minimise over 0 <= b <= C:   1/2 b'(I + 11')b - v'b      b in R^{k-1}, v standard normal       paper 004, eq. (4)

    table8   C = 1, k - 1 = 2^2 .. 2^12
    table9   k - 1 = 2^8, C = 10^-3 .. 10^3

The paper says only that v is random. It has MOSEK; here Clarabel, an interior-point method, is called without CVXPY:

    clarabel dense    the program as it stands, I + 11' a matrix
    clarabel sparse   the same with a variable s = 1'b: the matrix is then the identity, which the paper did not try

    shark, greedy     Shark's block with the accuracy of the paper's code, 1e-6, and with 1e-4

Our blocks start cold, b = 0, in a compiled loop over many instances; Clarabel solves the first ten of them, and its
time counts from the finished matrices. Seconds are means over the instances, as in the paper, and of our loops the
median of the repeats. Distances are the largest |b_j - b'_j|; the greedy blocks are inexact by design. One thread.
Every measurement is appended to the output file at once; started again with the same file, the command continues.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, log, one_thread
from tools.markdown_tables import markdown, write

Array = np.ndarray
BLOCKS = ("newton", "sort", "greedy", "shark")
INEXACT = {"greedy": 1e-4, "shark": 1e-6}  # KKT violations they accept; linear.cpp of the paper has the second
PROGRAMS = ("clarabel dense", "clarabel sparse")
SAME = 1e-6  # distance at which two solutions agree
TOLERANCE = 1e-10  # Clarabel's own
NUMBERS = 2**18  # of all instances of a cell together: enough for the clock


class PaperTable(NamedTuple):
    """A table of the paper: what varies, and seconds of its two solvers."""

    varies: str
    exponents: tuple[int, ...]
    walrus: tuple[float, ...]
    mosek: tuple[float, ...]

    def cell(self, exponent: int) -> tuple[int, float]:
        """Return k - 1 and C."""
        return (2**exponent, 1.0) if self.varies == "log2(k - 1)" else (2**8, 10.0**exponent)


PAPER = {
    "table8": PaperTable(
        "log2(k - 1)",
        (2, 4, 6, 8, 10, 12),
        (0.0009, 0.0001, 0.0001, 0.0001, 0.0002, 0.0005),
        (0.1052, 0.0708, 0.0705, 0.1082, 0.5721, 12.6057),
    ),
    "table9": PaperTable(
        "log10(C)",
        (-3, -2, -1, 0, 1, 2, 3),
        (0.0004, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001),
        (0.1177, 0.1044, 0.1046, 0.1005, 0.1050, 0.1127, 0.1206),
    ),
}


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet and print the tables."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    with one_thread():
        records.start(instances=options.instances, repeats=options.repeats)
        for name in options.table:
            for exponent in PAPER[name].exponents:
                measure_cell(name, exponent, records, options)
    for name in options.table:
        print_table(name, records)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs="+", choices=list(PAPER), default=list(PAPER), help="default: both")
    parser.add_argument("--instances", type=int, default=10, help="programs for Clarabel in a cell (default: 10)")
    parser.add_argument("--repeats", type=int, default=5, help="timings of our loops (default: 5)")
    parser.add_argument(
        "--dense-most", type=int, default=2**10, metavar="K", help="largest k - 1 of dense programs (default: 1024)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def measure_cell(name: str, exponent: int, records: Records, options: argparse.Namespace) -> None:
    """Time the solvers of one cell that are not known."""
    asked = {"programs": options.instances, "repeats": options.repeats}
    rows = find(records, name, exponent)
    known = {row["solver"] for row in rows if all(row[key] >= least for key, least in asked.items())}
    size, C = PAPER[name].cell(exponent)
    todo = [*BLOCKS, *(program for program in PROGRAMS if program != PROGRAMS[0] or size <= options.dense_most)]
    todo = [solver for solver in todo if solver not in known]
    if not todo:
        return
    v = np.random.default_rng(0).standard_normal((max(options.instances, NUMBERS // size), size))
    best, _ = by_block("newton", v, C, 1)
    for solver in todo:
        if solver in BLOCKS:
            b, seconds = by_block(solver, v, C, options.repeats)
        else:
            b, seconds = by_program(program_of(solver), v[: options.instances], C)
        distance = float(np.abs(b - best[: len(b)]).max())
        row = {"kind": "measurement", "table": name, "exponent": exponent, "solver": solver, "instances": len(b)}
        records.append(row | asked | {"seconds": seconds, "distance": distance})
        log.print(f"{name} {exponent} {solver}: {seconds:.2e} s, distance {distance:.1e}", style="dim")


@cache
def compiled_loop() -> Callable[..., None]:
    """Return the loop over instances: row i of ``alpha`` becomes the solution of row i of ``scores``, label k - 1."""
    from softmargin.backends.jit import jit
    from softmargin.backends.lanes import pointer

    @jit
    def minimise_all(block: Any, scores: Any, y: int, C: float, alpha: Any, work: Any) -> None:
        n, size = scores.shape
        bare = work.bare_workspace()
        rows = pointer(alpha)
        for i in range(n):
            m = work.lists.shape[1]
            block.block_step(pointer(scores[i]), y, 1.0, C, rows, i * size, bare.tiles, m, bare, 0.0)

    return minimise_all


def by_block(name: str, v: Array, C: float, repeats: int) -> tuple[Array, float]:
    """Return the solutions by a block, and the seconds of one."""
    from softmargin.backends.lanes import padded, zeros
    from softmargin.blocks import WestonWatkinsGreedy, find_block, new_workspace

    n, y = v.shape
    loop, work = compiled_loop(), new_workspace(y + 1)
    block = WestonWatkinsGreedy(INEXACT[name]) if name in INEXACT else find_block("weston_watkins", name)
    # With alpha = 0, |x|^2 = 1 and a score of 0 at the label, the other scores are v.
    scores = zeros(n, padded(y + 1))
    scores[:] = work.numbers[0]
    scores[:, :y] = v
    alpha = zeros(n * padded(y + 1))
    loop(block, scores[:1], y, C, alpha, work)  # compiles
    seconds = []
    for _ in range(repeats):
        alpha[:] = 0.0
        started = time.perf_counter()
        loop(block, scores, y, C, alpha, work)
        seconds.append((time.perf_counter() - started) / n)
    return -alpha.reshape(n, -1)[:, :y], statistics.median(seconds)


def program_of(solver: str) -> Callable[..., tuple[Any, ...]]:
    """Return what states the program of this name."""
    return dense_program if solver == PROGRAMS[0] else sparse_program


def dense_program(size: int, C: float) -> tuple[Any, ...]:
    """Return P, A, its bounds and the number of equations: minimise 1/2 b'Pb - v'b, A b <= bounds."""
    from scipy import sparse

    P = sparse.csc_matrix(np.triu(np.eye(size) + 1.0))  # Clarabel reads the upper triangle
    box = sparse.vstack([sparse.eye(size), -sparse.eye(size)], format="csc")
    return P, box, np.repeat([C, 0.0], size), 0


def sparse_program(size: int, C: float) -> tuple[Any, ...]:
    """Return the same with s = 1'b as a last variable and a first equation."""
    from scipy import sparse

    equation = sparse.csc_matrix(np.append(np.ones(size), -1.0))
    nothing = sparse.csc_matrix((size, 1))
    box = [sparse.hstack([sign * sparse.eye(size), nothing]) for sign in (1.0, -1.0)]
    A = sparse.vstack([equation, *box], format="csc")
    return sparse.eye(size + 1, format="csc"), A, np.append(0.0, np.repeat([C, 0.0], size)), 1


def by_program(program: Callable[..., tuple[Any, ...]], v: Array, C: float) -> tuple[Array, float]:
    """Return the solutions by Clarabel, and its mean seconds."""
    import clarabel

    size = v.shape[1]
    P, A, bounds, n_equations = program(size, C)
    cones = [clarabel.ZeroConeT(n_equations)] if n_equations else []
    cones.append(clarabel.NonnegativeConeT(2 * size))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    solutions, seconds = [], []
    for row in v:
        linear = np.zeros(P.shape[0])
        linear[:size] = -row
        started = time.perf_counter()
        solution = clarabel.DefaultSolver(P, linear, A, bounds, cones, settings).solve()
        seconds.append(time.perf_counter() - started)
        solutions.append(solution.x[:size])
    return np.array(solutions), statistics.fmean(seconds)


def find(records: Records, name: str, exponent: int) -> list[dict[str, Any]]:
    """Return what is known of one cell."""
    return [row for row in records.measurements() if row["table"] == name and row["exponent"] == exponent]


def print_table(name: str, records: Records) -> None:
    """Print the paper's seconds and ours, then the distances."""
    paper = PAPER[name]
    seconds, distances = [], []
    for exponent, walrus, mosek in zip(paper.exponents, paper.walrus, paper.mosek, strict=True):
        rows = {row["solver"]: row for row in find(records, name, exponent)}
        ours = [f"{rows[solver]['seconds']:.1e}" if solver in rows else "–" for solver in (*BLOCKS, *PROGRAMS)]
        general = [rows[solver] for solver in PROGRAMS if solver in rows]
        ratio = "–"
        if general and BLOCKS[0] in rows:
            fastest = min(row["seconds"] for row in general)
            ratio = f"{fastest / rows[BLOCKS[0]]['seconds']:,.0f}×"
        seconds.append([str(exponent), f"{walrus:.4f}", f"{mosek:.4f}", *ours, ratio])
        compared = [*BLOCKS[1:], *PROGRAMS]
        far = [f"{rows[solver]['distance']:.1e}" if solver in rows else "–" for solver in compared]
        agree = all(rows[s]["distance"] <= SAME for s in compared if s in rows and s not in INEXACT)
        distances.append([str(exponent), *far, "yes" if agree else "no"])
    ratio_head = f"fastest clarabel / {BLOCKS[0]}"
    write(f"\n### {name}: seconds of one block\n")
    write(markdown([paper.varies, "Walrus (paper)", "MOSEK (paper)", *BLOCKS, *PROGRAMS, ratio_head], seconds))
    write(f"\n### {name}: largest distance to {BLOCKS[0]}\n")
    write(markdown([paper.varies, *BLOCKS[1:], *PROGRAMS, f"exact ones agree to {SAME:g}"], distances))


if __name__ == "__main__":
    command(main)
