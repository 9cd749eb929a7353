"""Matrices of low rank, and what is measured of them."""

from typing import Any

import numpy as np


def measured(n: int, d: int, k: int, rank: int, *, unit_rows: bool, rng: np.random.Generator) -> dict[str, Any]:
    """Return X (n, d), X W0 (n, k) and the trace norm of W0, which has the given rank."""
    rank = min(rank, d, k)
    W0 = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, k)) / np.sqrt(rank)
    X = rng.standard_normal((n, d))
    if unit_rows:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    return {"X": X, "y": X @ W0, "trace_norm": float(np.linalg.norm(W0, "nuc"))}
