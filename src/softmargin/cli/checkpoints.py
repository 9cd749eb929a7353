"""Checkpoints of `train`: a full disk never ends a run, and a state goes on only on the data it came from."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from softmargin.backends.lanes import padded
from softmargin.core.errors import DataError, ModelFileError, SoftmarginError
from softmargin.run.watchers import Checkpoint, SavedState, load_checkpoint

__all__ = ["LastingCheckpoint", "read_checkpoint"]

# Squared lengths of rows are summed in another order here than in the compiled loop.
_SAME = 1e-9
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
    found = len(state.sqnorms), len(state.weights) // size - 1, len(state.alpha) // max(len(state.sqnorms), 1)
    wanted = {"alpha": n * size, "weights": (d + 1) * size, "order": n, "gaps": n, "idle": n, "sqnorms": n}
    if any(getattr(state, name).shape != (length,) for name, length in wanted.items()):
        raise DataError(
            f"{path!r} was written for {found[0]} rows, {found[1]} features and up to {found[2]} classes; these data have "
            f"{n} rows, {d} features and {k} classes. Resume with the same data, --test-size and --seed."
        )
    if not (0 <= state.n_active <= state.n_open <= n and np.array_equal(np.sort(state.order), np.arange(n))):
        raise ModelFileError(f"{path!r} is damaged: its order of rows is none. Start afresh.")
    if not np.allclose(state.sqnorms, _squared_lengths(problem), rtol=_SAME, atol=0.0):
        raise DataError(
            f"{path!r} was written for other rows of the same sizes. Resume with the same data, --test-size, --seed, "
            "--normalize, --float32 and intercept."
        )
    alpha = state.alpha.reshape(n, size)
    outside = problem.loss.infeasibility(alpha[:, :k], problem.y, problem.C)
    if alpha[:, k:].any() or not outside <= _FEASIBLE:
        raise DataError(
            f"{path!r} was written for another problem on these rows. Resume with the same -C, --multiclass, "
            "--class-weight and labels."
        )
    return saved


def _squared_lengths(problem: Any) -> Any:
    X = problem.X
    if isinstance(X, np.ndarray):
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    else:
        row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        squares = np.bincount(row_of, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[0])
    return squares + problem.bias**2
