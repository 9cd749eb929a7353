"""What fits to parts of the samples leave, so that the fit to all of them starts near its end."""

from typing import Any

from numpy.typing import NDArray

from softmargin.estimators.frame.data import Data

__all__ = ["FoldStarts"]

Array = NDArray[Any]


class FoldStarts:
    """The hooks of an estimator whose fits to folds are a start; without them the fit to all data starts afresh."""

    def _start_numbers(self, data: Data) -> int:
        """Return how many numbers ``_start`` has, at most; 0 where fits to parts of the samples are no start."""
        return 0

    def _start(self) -> Any:
        """Return what this model leaves for a fit to more samples."""
        raise NotImplementedError

    def _begin_at(self, starts: list[tuple[Array, Any]], n: int) -> None:
        """Take the mean of what fits to parts of n samples left, each with its samples, for a fit to all to start."""
        raise NotImplementedError
