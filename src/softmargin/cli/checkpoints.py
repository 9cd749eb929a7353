"""Checkpoints of `train`: a full disk never ends a run, and a state goes on only on the data it came from."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from softmargin.backends.lanes import WIDTH, padded
from softmargin.cli.rows import squared_lengths
from softmargin.core.errors import DataError, ModelFileError, SoftmarginError
from softmargin.run.watchers import Checkpoint, SavedState, load_checkpoint

__all__ = ["LastingCheckpoint", "read_checkpoint"]

# Squared lengths of rows are summed in another order here than in the compiled loop.
_SAME = 1e-9
# The weights of a state have gathered rounding since they were last computed from its dual variables.
_DRIFT = 1e-6
# How far (relative to C) rounding may leave dual variables outside their set.
_FEASIBLE = 1e-9


class LastingCheckpoint(Checkpoint):
    """A checkpoint that reports a failed write and lets the run go on."""

    def __init__(self, path: str, *, every: float, report: Callable[[str], None]) -> None:
        super().__init__(path, every=every)
        self._report = report

    def save(self, progress: Any) -> None:
        """Write the state, or say why not and try again later."""
        try:
            super().save(progress)
        except SoftmarginError as problem:
            self._report(f"no checkpoint: {problem} The run goes on.")
            self._saved_at = time.perf_counter()


def read_checkpoint(path: str, solver: Any, problem: Any) -> SavedState:
    """Read a state and make sure that it belongs to this problem; a compiled loop would trust it blindly."""
    try:
        saved = load_checkpoint(path, solver)
    except (KeyError, TypeError) as trouble:
        raise ModelFileError(f"{path!r} is damaged or of another version ({trouble}). Start afresh.") from trouble
    state = saved.state
    n, k, d = len(problem.y), problem.n_classes, problem.X.shape[1]
    size = padded(k)
    n_found, k_found = len(state.sqnorms), state.n_classes
    d_found = len(state.weights) // padded(k_found) - 1
    wanted = {"alpha": n * size, "weights": (d + 1) * size, "order": n, "gaps": n, "idle": n, "sqnorms": n}
    if k_found != k or any(getattr(state, name).shape != (length,) for name, length in wanted.items()):
        raise DataError(
            f"{path!r} was written for {n_found} rows, {d_found} features and {k_found} classes; "
            f"these data have {n} rows, {d} features and {k} classes. "
            "Resume with the same data, --test-size and --seed."
        )
    words = -(-(size // WIDTH) // 64)
    is_order = 0 <= state.n_active <= state.n_open <= n and np.array_equal(np.sort(state.order), np.arange(n))
    if not (is_order and len(state.live) in (words, n * words)):
        raise ModelFileError(f"{path!r} is damaged: its lists of rows and classes are none. Start afresh.")
    alpha = state.alpha.reshape(n, size)
    weights = problem.point(np.ascontiguousarray(alpha[:, :k])).weights
    is_same_lengths = np.allclose(state.sqnorms, squared_lengths(problem.X) + problem.bias**2, rtol=_SAME, atol=0.0)
    drift = np.abs(state.weights.reshape(d + 1, size)[:, :k] - weights).max()
    if not (is_same_lengths and drift <= _DRIFT * max(np.abs(weights).max(), 1.0)):
        raise DataError(
            f"{path!r} was written for other rows of the same sizes. Resume with the same data, --test-size, --seed, "
            "--normalize, --float32 and intercept."
        )
    outside = problem.loss.infeasibility(alpha[:, :k], problem.y, problem.C)
    if alpha[:, k:].any() or not outside <= _FEASIBLE:
        raise DataError(
            f"{path!r} was written for another problem on these rows. Resume with the same -C, --multiclass, "
            "--class-weight and labels."
        )
    return saved
