"""The program of the authors of paper 004, where somebody has built it: WALRUS_TRAIN names the executable.

    train -s 30 -c C -t PASSES data.libsvm model          -s 31 is its re-implementation of Shark

It prints a line after every pass, ``milliseconds,sum of alpha,1/2 |W|^2,C * loss,primal``; its clock is CPU time and
stands still while it evaluates these. It also ends by itself once the gap has fallen to a share of that after the first
pass, a constant fixed when it was built; a tolerance beyond that point is reported as "stopped short".
"""

import math
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchopt import BaseSolver

from benchmark_utils.bounds import data_key
from benchmark_utils.folders import cache_folder
from benchmark_utils.racing import CONVERGED, OVER_CAP, STOPPED_SHORT, GapReached, Lap
from softmargin.core.certificate import duality_gap
from softmargin.core.rounding import Rounded
from softmargin.data import write_libsvm
from softmargin.models.liblinear import read_liblinear

VARIABLE = "WALRUS_TRAIN"
_ENDLESS = 10**9
_SOLVER_TYPE = {"walrus": 30, "shark": 31}
# Its Shark solves the problem for 4 C and half the weights (paper 004, A.29), and saves them unscaled.
_WEIGHT_SCALE = {"walrus": 1.0, "shark": 0.5}
_LOADING_SECONDS = 60.0  # reading the text file is not on its clock


class _Pass(NamedTuple):
    seconds: float
    primal: float


class Solver(BaseSolver):
    """The authors' modified LIBLINEAR, as a program of its own."""

    name = "walrus_cpp"
    parameters = {"scheme": ["walrus", "shark"]}
    sampling_strategy = "iteration"
    leans_on_bound = True
    is_peer = True
    stopping_criterion = GapReached()  # not the objective's: benchopt writes the strategy of the first solver into it

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.multiclass != "weston_watkins":
            return True, f"the program has no {problem.multiclass} machine of its own"
        program = os.environ.get(VARIABLE)
        if not program:
            return True, f"{VARIABLE} is not set to the authors' train program"
        if shutil.which(program) is None:
            return True, f"{VARIABLE}={program} is not a program"
        if problem.n_classes < 3:
            return True, "the program saves two-class models damaged"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        """Write the data as text, once for every C."""
        self.C, self.n_features = C, problem.X.shape[1]
        self.program = os.environ[VARIABLE]
        self.data = cache_folder() / f"walrus-{data_key(problem)}.libsvm"
        if not self.data.exists():
            unfinished = self.data.with_suffix(f".{os.getpid()}")
            write_libsvm(unfinished, problem.X, problem.y)
            unfinished.replace(self.data)
        self.folder = tempfile.TemporaryDirectory(prefix="walrus-")
        self.model = Path(self.folder.name) / "model"

    def run(self, passes: int) -> None:
        subprocess.run(self._command(min(passes, _ENDLESS)), check=True, stdout=subprocess.DEVNULL)

    def get_result(self) -> dict[str, Any]:
        weights = read_liblinear(self.model).coef.T
        return {"weights": weights * _WEIGHT_SCALE[self.scheme]}

    def laps(
        self, tols: Sequence[float], *, objective: Any, cap: float, repeat: int, settings: Mapping[float, float]
    ) -> Iterator[Lap]:
        """Read off one run when its primal value first comes within each tolerance of the proven bound."""
        pending = sorted(tols, reverse=True)
        bound = objective.bound.bound
        last, count, residual = _Pass(0.0, math.inf), 0, math.inf
        for count, last in enumerate(self._passes(cap), start=1):
            residual = duality_gap(Rounded(last.primal), Rounded(bound)).residual
            if last.seconds > cap:
                break
            while pending and residual <= pending[0]:
                yield Lap(pending.pop(0), last.seconds, residual, count, CONVERGED)
            if not pending:
                return
        is_over = last.seconds > cap or self.timed_out
        yield Lap(pending[0], last.seconds, residual, count, OVER_CAP if is_over else STOPPED_SHORT)

    def _passes(self, cap: float) -> Iterator[_Pass]:
        """Run the program and yield what it prints; stop it when no more is needed, or when time is up."""
        self.timed_out = False
        with subprocess.Popen(self._command(_ENDLESS), stdout=subprocess.PIPE, text=True) as process:
            # Its evaluations take about as long as its passes.
            timer = threading.Timer(3.0 * cap + _LOADING_SECONDS, self._time_out, args=(process,))
            timer.start()
            try:
                for line in process.stdout:
                    fields = line.split(",")
                    if len(fields) == 5 and line.endswith("\n"):
                        milliseconds, _, half_norm, loss, _ = map(float, fields)
                        yield _Pass(milliseconds / 1000.0, half_norm + loss)
            finally:
                timer.cancel()
                process.kill()

    def _time_out(self, process: subprocess.Popen) -> None:
        self.timed_out = True
        process.kill()

    def _command(self, passes: int) -> list[str]:
        solver_type = _SOLVER_TYPE[self.scheme]
        options = ["-s", str(solver_type), "-c", repr(self.C), "-t", str(passes)]
        return [self.program, *options, str(self.data), str(self.model)]
