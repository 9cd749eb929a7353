"""Facts of the machine, for readers of measured numbers."""

import contextlib
import datetime
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from softmargin.core.memory import machine_bytes

__all__ = ["machine_facts"]

PACKAGES = (
    *("softmargin", "numpy", "scipy", "numba", "llvmlite", "scikit-learn", "liblinear-official", "benchopt"),
    *("cvxpy", "clarabel"),
)


def machine_facts() -> dict[str, Any]:
    """Return architecture, processor, memory, versions, threads, load, date and command line; ready for JSON."""
    facts: dict[str, Any] = {
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
    }
    with contextlib.suppress(ImportError):
        import threadpoolctl  # type: ignore[import-untyped]

        facts["threads"] = {
            Path(pool["filepath"]).name: pool["num_threads"] for pool in threadpoolctl.threadpool_info()
        }
    return facts


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> float | None:
    """Return gigabytes, or None where the system does not say."""
    found = machine_bytes()
    return None if found is None else round(found / 2**30, 1)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return getattr(sys.modules.get(package), "__version__", None)
