"""Paths: one fit for every value of a setting, each from the solution of the last, each with its certificate."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import CertifiedEstimator
from softmargin.run import Result

__all__ = ["FittedPath", "along", "demand_host"]

Array = NDArray[Any]


def demand_host(model: CertifiedEstimator, path: str) -> None:
    """Refuse a model that moves its data to a device."""
    if model.device is not None:
        raise IncompatibleError(f"{path} computes in the memory of the processor; use device=None.")


def along(model: CertifiedEstimator, data: Data, setting: str, values: Iterable[float]) -> Iterator[Result]:
    """Fit a model to checked data for every value of one of its settings, each from the solution of the last."""
    posed = None
    for value in values:
        setattr(model, setting, float(value))
        posed = model._pose(data) if posed is None else model._pose_again(data, posed)
        yield model._solve(data, posed, posed.warm_point())


class FittedPath:
    """The models along a path."""

    _setting: ClassVar[str]  # that varies; its values are in ``_values``
    estimators: list[Any]  # fitted, one for each point

    @property
    def _values(self) -> Array:
        raise NotImplementedError

    @property
    def coefs(self) -> Array:
        """The weights, (m, k, d), or (m, d) for a regressor with one target; computed at every access."""
        return np.stack([estimator.coef_ for estimator in self.estimators])

    @property
    def intercepts(self) -> Array:
        """(m, k), or (m,) for a regressor with one target."""
        return np.stack([estimator.intercept_ for estimator in self.estimators])

    @property
    def certificates(self) -> list[Certificate]:
        """What is proven at every point."""
        return [estimator.certificate_ for estimator in self.estimators]

    @property
    def n_iters(self) -> list[int]:
        """Passes over the data at every point."""
        return [estimator.n_iter_ for estimator in self.estimators]

    @property
    def statuses(self) -> list[str]:
        """How every run ended."""
        return [estimator.status_ for estimator in self.estimators]

    def plot(self, ax: Any = None, *, n_features: int = 10, feature_names: Any = None, **lines: Any) -> Any:
        """Plot the weights of the ``n_features`` features with the largest ones; of a kernel, the support vectors.

        Returns a PathDisplay; needs matplotlib. ``lines`` goes to its ``plot``.
        """
        from softmargin.plots import PathDisplay

        if not hasattr(self.estimators[0], "coef_"):  # a kernel without weights
            curve = np.array([len(estimator.support_) for estimator in self.estimators])
            display = PathDisplay(self._values, {"all classes": curve}, setting=self._setting, what="support vectors")
            return display.plot(ax, **lines)
        names = getattr(self.estimators[0], "feature_names_in_", None) if feature_names is None else feature_names
        how: dict[str, Any] = {"setting": self._setting, "n_features": n_features, "names": names}
        return PathDisplay.from_weights(self._values, self.coefs, **how).plot(ax, **lines)
