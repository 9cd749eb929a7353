"""The suites of the repository: which scripts of its ``benchmarks`` folder answer which paper, and how to run them."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from softmargin.core.errors import DataError

__all__ = ["FOLDER_VARIABLE", "SUITES", "Script", "command_of", "find_scripts", "known_words", "run_script"]

FOLDER_VARIABLE = "SOFTMARGIN_BENCHMARKS"


class Script(NamedTuple):
    """A script with its arguments; {out} is a folder for results and pictures."""

    block: str
    """Where its tables stand on the suite's page of docs/results."""
    question: str
    words: tuple[str, ...]
    measures: bool = True
    """False where it only shows what others measured: the user's arguments are not passed on."""


def _script(block: str, question: str, line: str, *, measures: bool = True) -> Script:
    return Script(block, question, tuple(line.split()), measures)


def _gap(question: str, benchmark: str, more: str = "") -> Script:
    return _script(
        benchmark, question, f"races/time_to_gap.py --benchmark {benchmark} -o {{out}}/{benchmark}.jsonl {more}"
    )


_PEERS = "--peers --tols 1e-2 1e-3 1e-4 --repeats 3 --cap 10 --bound-seconds 60"
_KERNELS = {"l2_svm": "--kernel rbf linear"}
_RACES = ("multiclass_svm_linear", "multiclass_svm_kernel", "l2_svm", "kernel_hinge", "l1_ball", "trace_ball")
_TABLES = " ".join(f"{{out}}/{name}.jsonl" for name in (*_RACES, "softmax"))
_OPTIMUM = "races/time_to_optimum.py --best-of sklearn --repeats 3 --cap 6 --optimum-seconds 60"

SUITES: dict[str, tuple[Script, ...]] = {
    "walrus": (
        _gap(
            "paper 004: seconds to a relative gap, linear joint SVMs",
            "multiclass_svm_linear",
            "--data digits dna letter leaves100 reuters-r52 news20 20ng-bydate mnist --repeats 3 --cap 20 "
            "--bound-seconds 60",
        ),
        _script(
            "accuracy",
            "paper 004: accuracies, Tables 4 to 6",
            "papers/paper_accuracy.py -o {out}/accuracy.jsonl --data dna letter news20",
        ),
        _script(
            "accuracy-mnist",
            "paper 004: accuracies on mnist, by the default solver",
            "papers/paper_accuracy.py -o {out}/accuracy-mnist.jsonl --data mnist --solver default",
        ),
        _script("block", "paper 004: the block alone, Tables 8 and 9", "papers/block_alone.py -o {out}/block.jsonl"),
        _script(
            "decay",
            "paper 004: decrease of the gap, Figures 1 and 2",
            "papers/gap_decay.py -o {out}/decay.jsonl --plots {out} --cap 15",
        ),
    ),
    "large-scale-svms": (
        _script(
            "figure1",
            "paper 000, Figure 1: distance to the optimum against time",
            "papers/suboptimality.py -o {out}/figure1.jsonl --plot {out}/figure1.png --cap 20",
        ),
        _gap(
            "seconds to a relative gap, kernel joint SVMs",
            "multiclass_svm_kernel",
            "--data digits dna letter mnist --repeats 3 --cap 20",
        ),
        _gap(
            "seconds to a relative gap, L2-SVM",
            "l2_svm",
            "--kernel rbf linear --data digits kr-vs-kp w8a --repeats 3 --cap 20",
        ),
        _script("mnist", "all of mnist, beside scikit-learn's SVC", "papers/mnist_kernel.py -o {out}/mnist.jsonl"),
    ),
    "softmax": (
        _script("optimum", "seconds to the optimum, beside scikit-learn", f"{_OPTIMUM} -o {{out}}/optimum.jsonl"),
        _script(
            "figures",
            "paper 003, Figures 1 to 3",
            "papers/softmax_figures.py -o {out}/figures.jsonl --plots {out} --cap 10",
        ),
        _script("path", "a whole l1 path", "papers/softmax_path.py -o {out}/path.jsonl --repeats 1 --cap 100"),
    ),
    "balls": (
        _gap(
            "seconds to a relative gap, l1 ball",
            "l1_ball",
            "--best-of named --data duke news20-binary w8a.rb mnist-0-9.rb shuttle.rb --repeats 1 --cap 2",
        ),
        _gap(
            "seconds to a relative gap, trace-norm ball",
            "trace_ball",
            "--best-of named --ridge 10 --repeats 1 --cap 3",
        ),
        _script(
            "figures",
            "paper 001, Table 2 and Figures 1 to 3",
            "papers/ball_figures.py -o {out}/figures.jsonl --plots {out} --cap 2",
        ),
        _script(
            "classes",
            "softmax of low rank, 100 classes",
            "papers/low_rank_classes.py -o {out}/classes.jsonl",
        ),
    ),
    "scs": (
        _script(
            "table",
            "paper 002, Table 1 and Figures 1 and 2",
            "papers/scs_table.py -o {out}/table.jsonl --plots {out} --cap 30",
        ),
        _script("large", "3.5 million rows", "papers/scs_table.py --large -o {out}/large.jsonl"),
    ),
    "peers": (
        *(_gap(f"every other library, {name}", name, f"{_PEERS} {_KERNELS.get(name, '')}") for name in _RACES),
        _script(
            "softmax",
            "every other library, softmax",
            "races/time_to_optimum.py -o {out}/softmax.jsonl --peers --tols 1e-2 1e-3 1e-4 --repeats 3 --cap 6 "
            "--optimum-seconds 60",
        ),
        _script(
            "summary",
            "the fastest of them beside ours",
            f"races/peer_table.py {_TABLES} --plot {{out}}/peers.png",
            measures=False,
        ),
        _script("cells", "every cell of it", f"races/peer_table.py --cells {_TABLES}", measures=False),
    ),
    "migration": (
        _script("fits", "one line of scikit-learn ported to ours", "races/migration.py -o {out}/migration.jsonl"),
        _script("drawn", "the same on drawn data", "races/drawn.py --draws 80 -o {out}/drawn.jsonl"),
        _script(
            "streams",
            "partial_fit beside SGDClassifier",
            "races/streams.py --data 20ng-bydate letter a9a w8a -o {out}/streams.jsonl",
        ),
    ),
    "hard": (
        _script(
            "fits",
            "which ordinary fits end with a proof, on data as they come",
            "hard/certified.py --peers -o {out}/hard.jsonl",
        ),
        _script(
            "sharp",
            "which of them reach a gap of 1e-8, on data sets of at most 10,000 rows",
            "hard/certified.py --forms standardised --rows 10000 --C 1 --tol 1e-8 --seconds 60 "
            "--settings linear-ww kernel-ww softmax-l2 softmax-l1 -o {out}/sharp.jsonl",
        ),
    ),
    "scaling": (
        _script(
            "growth", "growth with n, d, k and nnz", "machine/scaling.py --memory -o {out}/scaling.jsonl --plots {out}"
        ),
        _script("cores", "the same work on more cores", "machine/cores.py -o {out}/cores.jsonl"),
        _script("profiles", "where the time goes", "machine/profiles.py -o {out}/profiles.jsonl --plots {out}"),
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


def command_of(script: Script, out: Path, more: Sequence[str] = ()) -> list[str]:
    """Return the words of a script, its file first."""
    return [word.format(out=out) for word in script.words] + list(more)


def known_words(scripts: Path, suite: Sequence[Script], more: Sequence[str]) -> list[list[str]]:
    """Return, for every script of a suite, those of the user's options that it knows, with their values.

    An option that none of them knows is refused.
    """
    options = _options(more)
    if not options:
        return [[] for _ in suite]
    known = [_known_options(scripts / script.words[0]) if script.measures else set() for script in suite]
    strange = [words[0] for words in options if not any(_name(words) in names for names in known)]
    if strange:
        found = ", ".join(sorted(set().union(*known)))
        raise DataError(f"no script of this suite knows {', '.join(strange)}; --more takes {found}.")
    return [[word for words in options if _name(words) in names for word in words] for names in known]


def _options(more: Sequence[str]) -> list[list[str]]:
    """Return the user's words option by option, each with the values that follow it."""
    options: list[list[str]] = []
    for word in more:
        if re.match("--[a-zA-Z]", word):
            options.append([word])
        elif options:
            options[-1].append(word)
        else:
            raise DataError(f"--more={word} comes first, but is no option; write --more=--cap --more=10.")
    return options


def _name(words: Sequence[str]) -> str:
    return words[0].partition("=")[0]


def _known_options(script: Path) -> set[str]:
    """Return the options of a script: those that its usage names."""
    done = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        raise DataError(f"{script.name} --help ended with exit code {done.returncode}: {done.stderr[-500:].strip()}")
    usage = done.stdout.partition("\n\n")[0]
    return set(re.findall(r"[\[|]\s*(--[\w-]+)", usage))


def run_script(scripts: Path, command: Sequence[str]) -> str:
    """Run a script, show its log, and return its output."""
    words = [sys.executable, str(scripts / command[0]), *command[1:]]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise DataError(f"{command[0]} ended with exit code {done.returncode}; see its output above.")
    return done.stdout
