"""The best proven lower bound of a problem, found once and kept on disk.

LIBLINEAR and its kin leave weights but no dual variables, so nothing about them can be proven from their answer alone.
Their gap is therefore P(W) minus a bound that our solver proves beforehand: any feasible dual point bounds the optimum
from below, whatever found it. A loose bound would make another library look worse than it is, so it is driven to a
relative gap of TARGET, for at most BOUND_SECONDS; what was reached is kept beside the bound.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmark_utils.folders import cache_folder
from softmargin import __version__
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent

TARGET = 1e-6
BOUND_SECONDS = 600.0
_ENDLESS = 10**9  # passes: seconds are the only budget


class ProvenBound(NamedTuple):
    """A lower bound on the optimum, the relative gap it was proven with, and the budget it was given."""

    bound: float
    residual: float
    max_seconds: float


def data_key(problem: Any) -> str:
    """Return a hash of X and y by content."""
    X = problem.X
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    digest = hashlib.sha256(repr((X.shape, [str(part.dtype) for part in parts])).encode())
    for part in [*parts, problem.y]:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:24]


def proven_bound(problem: Any, C: float, *, max_seconds: float) -> ProvenBound:
    """Return the best known bound of this problem, from disk where it is good enough."""
    path = cache_folder() / f"bound-{data_key(problem)}-{problem.multiclass}-C{C!r}-v{__version__}.json"
    known = _read(path)
    if known is not None and (known.residual <= TARGET or known.max_seconds >= max_seconds):
        return known
    stop = Stop(tol=TARGET, max_iter=_ENDLESS, max_seconds=max_seconds)
    certificate = solve(problem, DualBlockDescent(), stop=stop, rng=0).certificate
    found = ProvenBound(certificate.bound, certificate.residual, max_seconds)
    if known is not None and known.bound > found.bound:
        found = known._replace(max_seconds=max_seconds)
    _write(path, found)
    return found


def _read(path: Path) -> ProvenBound | None:
    try:
        return ProvenBound(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, found: ProvenBound) -> None:
    """Write whole or not at all: two benchmarks may share the folder."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w") as file:
        json.dump(found._asdict(), file)
    os.replace(temporary, path)
