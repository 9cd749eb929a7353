"""Paper 002, Table 1 and Figures 1 and 2: kernel SVMs by conjugate subgradients, beside other ways to the same model.

    f(w) = lam / 2 |w|^2 + (1/n) sum_i [1 - y_i <w, phi(x_i)>]_+       rbf kernel, gamma = 1 / d on standardised data

lam is one of 1e-2 .. 1e-5: the one at which the exact solver, trained on a part of at most 2000 training rows of the
first split, is most accurate on the rest of them. All contenders have the same one. Where there is no test file, a
quarter is held out, another one for every seed; accuracies are of at most 20,000 test rows. Contenders: see
scs_fits.py.

One run for each of 20 seeds on one thread, as many of them as a contender makes in ``--seconds`` on a data set, but one
at least; a child that takes far longer than the cap is ended. Every measurement is appended to the output file when it
is known; started again with the same file, the command continues, and once all is known it only prints the tables and
draws the plots. ``--large`` measures time and memory on 3.5 million rows instead.

Remark 3 of the paper says that SCS (i) reaches lower values of f than Pegasos and (ii) converges faster, and (iii) has
a stopping rule, |d| < eps. Its table has f on all training rows after the first and the last iterations of the figures,
the iterations and seconds to within NEAR of the proven bound, and when the rule would have stopped. An iteration of
Pegasos looks at one row, or at 256.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from papers.scs_fits import FITS, STEPS, TOL, Settings, is_possible
from tools.common import Records, choose, command, load_benchmark, log, one_thread
from tools.curves import save_picture
from tools.markdown_tables import markdown, write

LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
MOST_TO_CHOOSE = 2000
N_CHOICES = 5  # splits of these rows
FEW = 300  # rows that are enough to compile everything
ALLOWANCE = 3.0  # caps that a child may take, the prediction included
FIGURE_SETS = ("wdbc", "winequality")
FIGURES = {
    "wolfe": "wolfe-paper",
    "scs": "scs-paper",
    "wolfe improved": "wolfe",
    "scs improved": "scs",
    "pegasos, 1 row": "pegasos-1",
    "pegasos, 256 rows": "pegasos",
}
NEAR = 0.1  # of the proven bound: f within so much of it counts as reached in the table of Remark 3
EPS = 1e-3  # of the paper's stopping rule, in the same table
ENDS = 50
MOSTLY = 0.9  # share of the rows: a random draw of as many as there are leaves some out
# Table 1 of the paper: training rows, then accuracy and seconds of Wolfe's method, Pegasos and SCS.
PAPER = {
    "heart-failure": ("273", ".833 / 1.48", ".833 / 0.75", ".833 / 6.12"),
    "wdbc": ("500", ".97 / 2.28", ".95 / 1.14", ".97 / 4.92"),
    "winequality": ("680", ".87 / 4.19", ".855 / 3.93", ".86 / 12.49"),
    "avila": ("2,000", ".726 / 32.97", ".714 / 5.60", ".718 / 38.26"),
    "room-occupancy": ("7,500", "–", ".974 / 56.54", ".976 / 39.88"),
    "skin-nonskin": ("200,000", "–", ".93 / 176.45", ".97 / 19.68"),
    "hepmass-like": ("3,500,000", "–", ".83 / 3762.89", ".87 / 42.69"),
}


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, print the tables, draw the plots."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    with one_thread():
        load_benchmark("kernel_hinge")
        from benchmark_utils.binary_sets import MADE_UP, SETS

        names = choose("data", options.data, list(SETS))
        records.start(cap=options.cap)
        if options.large:
            import scs_large

            lam = lam_of(MADE_UP, records, options)
            scs_large.measure_all(records, lam, options)
            scs_large.print_table(records)
            return 0
        for name in names:
            measure(name, records, options)
        if options.plots is not None:
            for name in FIGURE_SETS:
                measure_curves(name, records, options)
    print_tables([name for name in names if rows_of(records, "table", data=name)], records)
    if options.plots is not None:
        curves = rows_of(records, "curve")
        print_curves(curves)
        draw(curves, slice(None, ENDS), options.plots / "scs-figure1.png")
        draw(curves, slice(-ENDS, None), options.plots / "scs-figure2.png")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help="data sets (default: all)")
    parser.add_argument("--fit", nargs="+", metavar="NAME", choices=list(FITS), default=list(FITS), help="default: all")
    parser.add_argument("--seeds", type=int, default=20, help="runs of every fit on every data set (default: 20)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="seconds after which a fit gets no further seed (default: 60)"
    )
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a fit may take (default: 60)")
    parser.add_argument("--components", type=int, default=500, help="landmarks (default: 500)")
    parser.add_argument("--rows", type=int, default=3_500_000, help="of the made-up data set (default: 3500000)")
    parser.add_argument("--large", action="store_true", help="time and memory on the made-up data set, instead")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="where to draw scs-figure1.png and scs-figure2.png"
    )
    return parser


def rows_of(records: Records, part: str, **cell: Any) -> list[dict[str, Any]]:
    """Return the measurements of a part of the file that belong to a cell."""
    return [
        row
        for row in records.measurements()
        if row["part"] == part and all(row[key] == value for key, value in cell.items())
    ]


def lam_of(name: str, records: Records, options: argparse.Namespace) -> float:
    """Return the lam of a data set, chosen where the file does not know it yet; a tie goes to the larger one."""
    from benchmark_utils.binary_sets import load_set
    from softmargin.data import Dataset, split

    X, y, _, _ = load_set(name, 0, options.rows)
    cell = {"data": name, "n": len(y)}
    known = rows_of(records, "lam", **cell)
    if known:
        return known[-1]["lam"]
    X, y = np.asarray(X[:MOST_TO_CHOOSE]), y[:MOST_TO_CHOOSE]
    accuracies = []
    for lam in LAMS:
        right = []
        for seed in range(N_CHOICES):
            parts = split(Dataset(name, X, y), seed=seed)
            model = FITS["block descent"](parts.X, parts.y, settings_of(X, lam, seed, options))
            right.append(float(np.mean(model.predict(parts.X_test) == parts.y_test)))
        accuracies.append(statistics.mean(right))
    lam = LAMS[int(np.argmax(accuracies))]
    found = {"lam": lam, "lams": LAMS, "accuracies": accuracies, "rows": len(y)}
    records.append({"kind": "measurement", "part": "lam", **cell, **found})
    log.print(f"{name}: lam = {lam:g}", style="dim")
    return lam


def settings_of(X: Any, lam: float, seed: int, options: argparse.Namespace) -> Settings:
    """Return the settings that all contenders share."""
    return Settings(lam, 1.0 / X.shape[1], seed, options.cap, options.components)


def measure(name: str, records: Records, options: argparse.Namespace) -> None:
    """Run the contenders whose results are not known."""
    from benchmark_utils.binary_sets import load_set
    from benchmark_utils.racing import bounded

    lam, is_warm = None, dict.fromkeys(FITS, False)
    for seed in range(options.seeds):
        parts = load_set(name, seed, options.rows)
        for fit in options.fit:
            spent = sum(row.get("seconds", row["cap"]) for row in rows_of(records, "table", data=name, fit=fit))
            if spent >= options.seconds:
                continue
            cell = {"data": name, "n": len(parts.y), "fit": fit, "seed": seed}
            known = [row for row in rows_of(records, "table", **cell) if row["cap"] >= options.cap]
            if known or not is_possible(fit, len(parts.y)):
                continue
            lam = lam or lam_of(name, records, options)
            settings = settings_of(parts.X, lam, seed, options)
            if not is_warm[fit]:
                is_warm[fit] = True
                FITS[fit](np.asarray(parts.X[:FEW]), parts.y[:FEW], settings).predict(parts.X_test[:FEW])
            found = bounded(
                lambda fit=fit, parts=parts, given=settings: measured(fit, parts, given), ALLOWANCE * options.cap
            )
            facts = {"d": parts.X.shape[1], "lam": lam, "cap": options.cap}
            records.append({"kind": "measurement", "part": "table", **cell, **facts, **(found or {"accuracy": None})})
            outcome = f"{found['accuracy']:.4f} after {found['seconds']:.3g} s" if found else "over the cap"
            log.print(f"{name}, seed {seed}: {fit}: {outcome}", style="dim")


def measured(fit: str, parts: Any, settings: Settings) -> dict[str, Any]:
    """Fit once, and say how well it predicts."""
    model = FITS[fit](parts.X, parts.y, settings)
    accuracy = float(np.mean(model.predict(parts.X_test) == parts.y_test))
    return {"accuracy": accuracy, "seconds": model.seconds, "rows": model.rows, "n_vectors": model.n_vectors}


def measure_curves(name: str, records: Records, options: argparse.Namespace) -> None:
    """Keep f on all training rows after every step, the seconds of the steps, and what no f can be below."""
    from benchmark_utils.binary_sets import load_set
    from benchmark_utils.hinge_solvers import METHODS, joint_of
    from softmargin.kernels import Rbf
    from softmargin.problems import KernelHinge
    from softmargin.run import Stop, solve
    from softmargin.solvers import KernelPairDescent, Pegasos

    methods = {**METHODS, "pegasos-1": Pegasos(block=1)}
    todo = [label for label in FIGURES if not rows_of(records, "curve", data=name, fit=label)]
    if not todo:
        return
    lam, parts = lam_of(name, records, options), load_set(name)
    problem = KernelHinge(Rbf(1.0 / parts.X.shape[1]), parts.X, parts.y, lam=lam)
    exact = solve(joint_of(problem), KernelPairDescent(), stop=Stop(tol=TOL / 10.0, max_seconds=options.cap), rng=0)
    bound, everyone = 2.0 * lam * exact.certificate.bound, np.arange(problem.n)
    whole, K = problem.points(everyone), np.empty((problem.n, problem.n))
    for label in todo:
        method, values, seconds, lengths = methods[FIGURES[label]], [], [], []
        state, n_known = method.start(problem, None, np.random.default_rng(0)), 0
        for _ in range(STEPS):
            started = time.perf_counter()
            state = method.step(problem, state)
            seconds.append(time.perf_counter() - started)
            point = method.point(problem, state)
            fresh = slice(n_known, len(point.samples))  # samples only come at the end
            if fresh.start < fresh.stop:
                K[:, fresh] = problem.block(whole, problem.points(point.samples[fresh]))
            n_known = fresh.stop
            scores = K[:, :n_known] @ point.alpha
            square = float(point.alpha @ scores[point.samples])
            values.append(problem.value(square, scores, parts.y, problem.shares(everyone)))
            lengths.append(method.direction_length(state) if hasattr(method, "direction_length") else None)
        cell = {"data": name, "fit": label, "lam": lam, "n": problem.n, "bound": bound, "values": values}
        cell |= {"seconds": seconds, "lengths": lengths}
        records.append({"kind": "measurement", "part": "curve", **cell})
        log.print(f"{name}: {label}: f = {values[-1]:.5g} after {STEPS} steps, bound {bound:.5g}", style="dim")


def print_tables(names: list[str], records: Records) -> None:
    """Print accuracies, seconds, and what the paper has."""
    fits = [fit for fit in FITS if rows_of(records, "table", fit=fit)]
    facts, accuracies, seconds = [], [], []
    for name in names:
        known = rows_of(records, "table", data=name)
        first = known[-1]
        latest = {(row["fit"], row["seed"]): row for row in known if row["n"] == first["n"]}
        known = list(latest.values())
        n_seeds = len({row["seed"] for row in known})
        facts.append([name, f"{first['n']:,}", str(first["d"]), f"{first['lam']:g}", str(n_seeds)])
        cells = [[row for row in known if row["fit"] == fit] for fit in fits]
        accuracies.append([name, *(spread(cell, "accuracy", "{:.4f}", n_seeds) for cell in cells)])
        seconds.append([name, *(spread(cell, "seconds", "{:.3g}", n_seeds) for cell in cells)])
    write("\n### Data\n")
    write(markdown(["data", "training rows", "features", "lam", "seeds"], facts))
    write("\n### Test accuracy\n")
    write(markdown(["data", *fits], accuracies))
    write("\n### Seconds to train\n")
    write(markdown(["data", *fits], seconds))
    write("\n### The paper's Table 1, accuracy / seconds\n")
    body = [[name, *PAPER[name]] for name in names if name in PAPER]
    write(markdown(["data", "training rows", "wolfe", "pegasos", "scs"], body))


def print_curves(curves: list[dict[str, Any]]) -> None:
    """Print what Remark 3 is about."""
    body = []
    for row in curves:
        values, bound, lengths = np.array(row["values"]), row["bound"], row["lengths"]
        reached = np.flatnonzero(values <= (1.0 + NEAR) * bound)
        stopped = np.flatnonzero([length is not None and 0.0 < length < EPS for length in lengths])
        when = ["–", "–"]
        if len(reached):
            when = [str(reached[0] + 1), f"{sum(row['seconds'][: reached[0] + 1]):.3g}"]
        rule = "no rule" if lengths[0] is None else "–"
        if len(stopped):
            rule = f"{stopped[0] + 1}, f {values[stopped[0]] / bound - 1.0:.1%} above"
        ends = [f"{values[step - 1]:.4f}" for step in (ENDS, len(values))]
        body.append([row["data"], row["fit"], *ends, f"{bound:.4f}", *when, rule])
    head = ["data", "method", f"f after {ENDS}", f"f after {STEPS}", "proven bound"]
    head += [f"iterations to {NEAR:.0%}", "seconds", f"\\|d\\| < {EPS:g} at"]
    write("\n### Remark 3: f on all training rows\n")
    write(markdown(head, body))


def spread(cell: list[dict[str, Any]], key: str, form: str, n_seeds: int) -> str:
    """Return mean and standard deviation, of how many seeds and rows where these were not all, and if the cap ended it.

    "3x" says that there were 3 seeds.
    """
    if not cell:
        return "–"
    if any(row["accuracy"] is None for row in cell):
        return "over the cap"
    values = [row[key] for row in cell]
    text = form.format(statistics.mean(values))
    if len(values) > 1:
        text += " ± " + form.format(statistics.stdev(values))
    text += f", {len(values)}x" if len(values) < n_seeds else ""
    if key == "seconds":
        return f"{text} (cap)" if max(values) >= cell[0]["cap"] else text
    return f"{text} ({cell[0]['rows']:,} rows)" if cell[0]["rows"] < MOSTLY * cell[0]["n"] else text


def draw(curves: list[dict[str, Any]], steps: slice, path: Path) -> None:
    """Draw f of the first or of the last iterations, a panel a data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    picture, axes = plt.subplots(1, len(FIGURE_SETS), figsize=(4.6 * len(FIGURE_SETS), 3.6), layout="constrained")
    for name, axis in zip(FIGURE_SETS, axes, strict=True):
        rows = [row for row in curves if row["data"] == name]
        for colour, row in enumerate(rows):
            numbers = range(1, len(row["values"]) + 1)[steps]
            axis.plot(numbers, row["values"][steps], label=row["fit"], color=f"C{colour}")
        if rows:
            axis.axhline(rows[0]["bound"], color="black", linewidth=0.8, linestyle=":", label="proven bound")
            axis.set(title=f"{name}, lam = {rows[0]['lam']:g}", xlabel="iteration", ylabel="f on all training rows")
            axis.set_yscale("log")
            axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    save_picture(picture, path)


if __name__ == "__main__":
    command(main)
