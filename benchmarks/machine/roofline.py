"""The limits of the machine, the work of a fit (``work_model``), and the picture of both."""

import contextlib
import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from machine.work_model import COUNTED, Work
from tools.common import log
from tools.curves import save_picture

_SIZES = [1 << power for power in range(18, 31, 2)]  # bytes that a triad goes through: 256 kB to 1 GB
_GEMM = 1500
_REPEATS = 5
_LEAST_SECONDS = 0.05


def measure_limits() -> dict[str, Any]:
    """Return the best of several: GFLOP/s of GEMM by precision, GB/s of a triad by the bytes it goes through."""
    rng = np.random.default_rng(0)
    gemm = {}
    for kind in ("float64", "float32"):
        A, B = (rng.standard_normal((_GEMM, _GEMM)).astype(kind) for _ in range(2))
        gemm[kind] = 2e-9 * _GEMM**3 / _best_seconds(partial(np.matmul, A, B, out=np.empty_like(A)))
    triad = {}
    for size in _SIZES:
        a, b = (np.ones(size // 16) for _ in range(2))
        # a += b: two arrays read, one written.
        triad[str(size)] = 24e-9 * len(a) / _best_seconds(partial(np.add, a, b, out=a))
    return {"gemm": gemm, "triad": triad}


def _best_seconds(call: Callable[[], Any]) -> float:
    """Return the least mean seconds of the processor over a few batches of calls."""
    call()
    best, count = np.inf, 1
    for _ in range(_REPEATS):
        while True:
            began = time.process_time()
            for _ in range(count):
                call()
            spent = time.process_time() - began
            if spent >= _LEAST_SECONDS:
                break
            count *= 2
        best = min(best, spent / count)
    return best


def bandwidth(limits: dict[str, Any], footprint: float) -> float:
    """Return the GB/s of a triad through at least so many bytes, or of the largest one."""
    sizes = sorted(int(size) for size in limits["triad"])
    size = next((size for size in sizes if size >= footprint), sizes[-1])
    return float(limits["triad"][str(size)])


class Counter:
    """Sums of work, by the function that did it; ``classes`` is k without padding."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.parts: dict[str, Work] = {}
        self.is_inside = False

    @property
    def total(self) -> Work:
        """The work in all."""
        return Work(*(float(sum(column)) for column in zip((0.0, 0.0), *self.parts.values(), strict=True)))

    def standing_in(self, name: str, original: Any, count: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what ``original`` does, and counts it unless another one counts already."""
        signature = inspect.signature(getattr(original, "py_func", original))

        def add(flops: float, bytes: float) -> None:
            done = self.parts.get(name, Work(0.0, 0.0))
            self.parts[name] = Work(done.flops + flops, done.bytes + bytes)

        def counted(*args: Any, **kwargs: Any) -> Any:
            if self.is_inside:
                return original(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = SimpleNamespace(**bound.arguments)

            def call(**new: Any) -> Any:
                bound.arguments.update(new)
                return original(*bound.args, **bound.kwargs)

            self.is_inside = True
            try:
                return count(call, given, add, self.classes)
            finally:
                self.is_inside = False

        return counted


@contextlib.contextmanager
def counting(classes: int) -> Iterator[Counter]:
    """Count the work of what runs inside. Everything must have been compiled before: loops cannot call a stand-in."""
    counter, undo = Counter(classes), []
    # All modules before the first stand-in: one imported later would keep it.
    homes = {path: importlib.import_module(f"softmargin.{path.partition(':')[0]}") for path in COUNTED}
    try:
        for path, count in COUNTED.items():
            home, name = homes[path], path.partition(":")[2]
            owner, _, method = name.rpartition(".")
            original = getattr(getattr(home, owner) if owner else home, method, None)
            if original is None:
                log.print(f"warning: softmargin.{path} is gone; its work is not counted")
                continue
            stand_in = counter.standing_in(name, original, count)
            places = (
                [getattr(home, owner)]
                if owner
                else [
                    module
                    for key, module in list(sys.modules.items())
                    if key.startswith("softmargin") and vars(module).get(name) is original
                ]
            )
            for place in places:
                undo.append((place, method, original))
                setattr(place, method, stand_in)
        yield counter
    finally:
        for place, method, original in reversed(undo):
            setattr(place, method, original)


def draw(rows: Sequence[dict[str, Any]], limits: dict[str, Any], path: Path) -> None:
    """Draw GFLOP/s against operations a byte: roofs of GEMM, memory and cache, a dot for every solver."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    picture, panel = plt.subplots(figsize=(9.0, 5.5), layout="constrained")
    intensities = [row["flops"] / row["bytes"] for row in rows]
    span = np.geomspace(min(0.05, *intensities) / 2.0, max(50.0, *intensities) * 2.0, 200)
    top = limits["gemm"]["float64"]
    sizes = sorted(limits["triad"], key=int)
    for size, style in ((sizes[0], ":"), (sizes[-1], "-")):
        speed = limits["triad"][size]
        label = f"{speed:.0f} GB/s, triad through {int(size) / 2**20:g} MB"
        panel.loglog(span, np.minimum(speed * span, top), "k", linestyle=style, linewidth=1, label=label)
    panel.axhline(limits["gemm"]["float32"], color="grey", linewidth=1, linestyle="--", label="GEMM in float32")
    markers = "osD^v<>Pphd*X8"
    for number, (row, intensity) in enumerate(zip(rows, intensities, strict=True)):
        speed = 1e-9 * row["flops"] / row["seconds"]
        marker = markers[number % len(markers)]
        panel.loglog(intensity, speed, linestyle="", marker=marker, color=f"C{number % 10}", label=row["solver"])
    panel.set(xlabel="operations a byte (model)", ylabel="GFLOP/s (model)")
    panel.grid(alpha=0.3, which="both")
    picture.legend(loc="outside right upper", fontsize=7)
    save_picture(picture, path)
