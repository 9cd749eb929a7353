"""The suites of the repository: which scripts of its ``benchmarks`` folder answer which paper, and how to run them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from softmargin.core.errors import DataError

__all__ = ["FOLDER_VARIABLE", "SUITES", "Script", "find_scripts", "run_script"]

FOLDER_VARIABLE = "SOFTMARGIN_BENCHMARKS"


class Script(NamedTuple):
    """A script with its words; {out} is a folder for results and pictures."""

    question: str
    words: tuple[str, ...]
    measures: bool = True
    """False where it only shows what others measured: words for the scripts are not for it."""


def _gap(benchmark: str) -> tuple[str, ...]:
    return ("races/time_to_gap.py", "--benchmark", benchmark, "-o", f"{{out}}/{benchmark}.jsonl")


_PEERS = ("--peers", "--tols", "1e-2", "1e-3", "1e-4")
_KERNELS = {"l2_svm": ("--kernel", "rbf", "linear")}
_RACES = ("multiclass_svm_linear", "multiclass_svm_kernel", "l2_svm", "kernel_hinge", "l1_ball", "trace_ball")


SUITES: dict[str, tuple[Script, ...]] = {
    "walrus": (
        Script("paper 004: seconds to a relative gap, linear joint SVMs", _gap("multiclass_svm_linear")),
        Script("paper 004: accuracies, Tables 4 to 6", ("papers/paper_accuracy.py", "-o", "{out}/accuracy.jsonl")),
        Script("paper 004: the block alone, Tables 8 and 9", ("papers/block_alone.py", "-o", "{out}/block.jsonl")),
        Script(
            "paper 004: fall of the gap, Figures 1 and 2",
            ("papers/gap_decay.py", "-o", "{out}/decay.jsonl", "--plots", "{out}"),
        ),
    ),
    "large-scale-svms": (
        Script(
            "paper 000, Figure 1: distance to the optimum against time",
            ("papers/suboptimality.py", "-o", "{out}/figure1.jsonl", "--plot", "{out}/figure1.png"),
        ),
        Script("seconds to a relative gap, kernel joint SVMs", _gap("multiclass_svm_kernel")),
        Script("seconds to a relative gap, L2-SVM", _gap("l2_svm")),
    ),
    "softmax": (
        Script(
            "seconds to the optimum, beside scikit-learn", ("races/time_to_optimum.py", "-o", "{out}/optimum.jsonl")
        ),
        Script(
            "paper 003, Figures 1 to 3", ("papers/softmax_figures.py", "-o", "{out}/figures.jsonl", "--plots", "{out}")
        ),
        Script("a whole l1 path", ("papers/softmax_path.py", "-o", "{out}/path.jsonl")),
    ),
    "balls": (
        Script("seconds to a relative gap, l1 ball", _gap("l1_ball")),
        Script("seconds to a relative gap, trace-norm ball", _gap("trace_ball")),
        Script(
            "paper 001, Table 2 and Figures 1 to 3",
            ("papers/ball_figures.py", "-o", "{out}/figures.jsonl", "--plots", "{out}"),
        ),
    ),
    "scs": (
        Script(
            "paper 002, Table 1 and Figures 1 and 2",
            ("papers/scs_table.py", "-o", "{out}/table.jsonl", "--plots", "{out}"),
        ),
        Script("3.5 million rows", ("papers/scs_table.py", "--large", "-o", "{out}/large.jsonl")),
    ),
    "peers": (
        *(Script(f"every other library, {name}", (*_gap(name), *_PEERS, *_KERNELS.get(name, ()))) for name in _RACES),
        Script("every other library, softmax", ("races/time_to_optimum.py", "-o", "{out}/softmax.jsonl", *_PEERS)),
        Script(
            "the fastest of them beside ours",
            (
                "races/peer_table.py",
                *(f"{{out}}/{name}.jsonl" for name in (*_RACES, "softmax")),
                *("--plot", "{out}/peers.png"),
            ),
            measures=False,
        ),
    ),
    "scaling": (
        Script(
            "growth with n, d, k and nnz",
            ("machine/scaling.py", "--memory", "-o", "{out}/scaling.jsonl", "--plots", "{out}"),
        ),
        Script("where the time goes", ("machine/profiles.py", "-o", "{out}/profiles.jsonl", "--plots", "{out}")),
    ),
}


def find_scripts(folder: str | None) -> Path:
    """Return the ``benchmarks`` folder: the one given, SOFTMARGIN_BENCHMARKS, or the one here."""
    path = Path(folder or os.environ.get(FOLDER_VARIABLE) or "benchmarks")
    if not (path / "tools" / "common.py").is_file():
        raise DataError(
            f"the suites are scripts of the repository's benchmarks folder; {path} is not one. Run this in a checkout, "
            f"give --benchmarks DIR, or set {FOLDER_VARIABLE}. `softmargin bench quick` needs no folder."
        )
    return path


def run_script(scripts: Path, script: Script, out: Path, more: Sequence[str]) -> str:
    """Run a script, show what it logs, and return what it printed."""
    words = [word.format(out=out) for word in script.words]
    command = [sys.executable, str(scripts / words[0]), *words[1:], *(more if script.measures else ())]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise DataError(f"{words[0]} ended with exit code {done.returncode}; what it said stands above.")
    return done.stdout
