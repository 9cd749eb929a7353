"""Where the time of a kernel fit on a GPU goes: seconds, arithmetic and memory traffic of every stage.

Functions of the library are wrapped while a fit runs. The device is waited for before and after each, so that a fit
takes a little longer than without; the seconds of a stage are without those of stages within it. Arithmetic and
traffic are counted from shapes: what an ideal program would do.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tools.common import log

Work = Callable[..., tuple[float, float]]  # multiplications and additions, bytes


class Stage(NamedTuple):
    """A function of the library."""

    name: str
    owner: Any
    function: str
    work: Work


def _nothing(*_: Any) -> tuple[float, float]:
    return 0.0, 0.0


def _stages() -> list[Stage]:
    from softmargin.backends.shifted_inverse import ShiftedInverse
    from softmargin.matrices.device_gram import DeviceGram
    from softmargin.problems import KernelMulticlassSVM
    from softmargin.solvers.kernel_svm import splitting
    from softmargin.solvers.kernel_svm._device_rows import DeviceRows

    def square(gram: Any, index: Any) -> tuple[float, float]:
        return 2.0 * len(index) ** 2 * gram.points.longest, float(len(index) ** 2 * gram.points.dtype.itemsize)

    def factor(_: Any, K: Any, *__: Any) -> tuple[float, float]:
        return K.shape[0] ** 3 / 3.0, 1.5 * K.nbytes

    def product(part: Any, change: Any) -> tuple[float, float]:
        return 2.0 * part.K.shape[0] * change.shape[0] * change.shape[1], float(part.K.nbytes)

    def scores(gram: Any, _: Any, __: Any, change: Any) -> tuple[float, float]:
        return 2.0 * gram.n * int(change.any(axis=1).sum()) * (gram.points.longest + change.shape[1]), 0.0

    def wide_scores(gram: Any, alpha: Any) -> tuple[float, float]:
        return scores(gram, None, None, alpha)

    return [
        Stage("squares of K", DeviceGram, "_square", square),
        Stage("factors", ShiftedInverse, "__init__", factor),
        Stage("iterations", splitting, "_split", _nothing),
        Stage("products with K", DeviceRows, "product", product),
        Stage("scores of all rows, float32", DeviceGram, "add_change", scores),
        Stage("scores of all rows, float64", DeviceGram, "wide_scores", wide_scores),
        Stage("choice of rows", splitting.Splitting, "_rows", _nothing),
        Stage("certificate, without its scores", KernelMulticlassSVM, "certificate", _nothing),
    ]


class Clock:
    """Seconds, operations and bytes of stages that lie within one another."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait
        self.spent: dict[str, list[float]] = {}
        self._open: list[float] = []  # seconds of the stages within each open one

    def wrapped(self, stage: Stage, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its time counted."""

        def timed(*args: Any, **options: Any) -> Any:
            self.wait()
            began = time.perf_counter()
            self._open.append(0.0)
            try:
                return function(*args, **options)
            finally:
                self.wait()
                seconds = time.perf_counter() - began
                within = self._open.pop()
                if self._open:
                    self._open[-1] += seconds
                self.add(stage.name, seconds - within, *stage.work(*args))

        return timed

    def add(self, name: str, seconds: float, operations: float, traffic: float) -> None:
        """Add to a stage."""
        known = self.spent.setdefault(name, [0.0, 0.0, 0.0])
        for at, value in enumerate((seconds, operations, traffic)):
            known[at] += value


@contextlib.contextmanager
def timed_stages() -> Iterator[dict[str, Any]]:
    """Time the stages of the fits within; yield a dictionary that has them, and the rounds, afterwards."""
    import torch

    from softmargin.backends.shifted_inverse import ShiftedInverse
    from softmargin.solvers import Splitting

    clock, rounds = Clock(torch.cuda.synchronize), []
    found: dict[str, Any] = {}
    step, applied = Splitting.step, ShiftedInverse.applied
    began = time.perf_counter()

    def told(solver: Any, problem: Any, state: Any) -> Any:
        state = step(solver, problem, state)
        gap, seconds = solver.estimate(problem, state), time.perf_counter() - began
        rounds.append({"rows": len(state.rows), "in_play": state.in_play, "gap": gap, "seconds": seconds})
        log.print(f"{seconds:7.1f} s, {state.in_play} in play, {len(state.rows)} rows: {gap:.2e}", style="dim")
        return state

    def counted(inverse: Any, V: Any) -> Any:
        m, size = V.shape[1], inverse.dtype.itemsize
        clock.add("iterations", 0.0, 2.0 * m**2 * V.shape[0], float(m**2 * size))
        return applied(inverse, V)

    changed = [(stage.owner, stage.function, getattr(stage.owner, stage.function)) for stage in _stages()]
    changed += [(Splitting, "step", step), (ShiftedInverse, "applied", applied)]
    try:
        for stage in _stages():
            setattr(stage.owner, stage.function, clock.wrapped(stage, getattr(stage.owner, stage.function)))
        setattr(Splitting, "step", told)  # noqa: B010
        setattr(ShiftedInverse, "applied", counted)  # noqa: B010
        yield found
    finally:
        for owner, name, function in changed:
            setattr(owner, name, function)
        found["rounds"] = rounds
        found["stages"] = {
            name: {"seconds": seconds, "tflops": 1e-12 * operations, "terabytes": 1e-12 * traffic}
            for name, (seconds, operations, traffic) in clock.spent.items()
        }
