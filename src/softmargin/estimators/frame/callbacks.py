"""The bridge to scikit-learn's callbacks (1.9 and newer): our passes become their tasks.

Where the installed scikit-learn has no callbacks, ``CallbackSupportMixin`` is empty and nothing is bridged.
"""

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replaces the mixin of a scikit-learn without callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


__all__ = ["CallbackBridge", "CallbackSupportMixin", "with_callbacks"]


class CallbackBridge:
    """A watcher that reports every pass to scikit-learn's callbacks, and stops when one of them asks to.

    Parameters
    ----------
    estimator : estimator
        The one being fitted.
    X, y, sample_weight
        What it is fitted on.
    attributes : callable
        Fitted attributes at a point, computed only for callbacks that use them.
    """

    def __init__(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any, attributes: Callable[[Any], dict[str, Any]]
    ) -> None:
        self.estimator, self.attributes = estimator, attributes
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self.context: Any = None

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Open the fit task."""
        self.context = self.estimator._init_callback_context(max_subtasks=None)
        self.context.call_on_fit_task_begin(**self.data)

    def watch(self, progress: Any) -> bool:
        """Report one pass."""
        task = self.context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(**self.data)
        return bool(
            task.call_on_fit_task_end(
                **self.data,
                reconstruction_attributes=lambda: self.attributes(
                    progress.solver.point(progress.problem, progress.state)
                ),
            )
        )

    def end(self, result: Any) -> None:
        """Close the fit task."""
        self.context.call_on_fit_task_end(**self.data, reconstruction_attributes=lambda: self.attributes(result.point))
