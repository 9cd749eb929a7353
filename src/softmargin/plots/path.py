"""How a model changes along a path: weights of features, or support vectors of a kernel model."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from softmargin.plots.display import Display

__all__ = ["PathDisplay"]

Array = NDArray[Any]


class PathDisplay(Display):
    """Curves over the setting that varies along a path.

    Parameters
    ----------
    values : array of shape (m,)
        C or the radius.
    curves : dict of arrays of shape (m,)
        By name.
    setting, what : str
        Labels of the axes.
    """

    def __init__(self, values: Any, curves: dict[str, Array], *, setting: str, what: str) -> None:
        self.values, self.curves = np.asarray(values, dtype=np.float64), curves
        self.setting, self.what = setting, what

    @classmethod
    def from_weights(
        cls, values: Any, coefs: Any, *, setting: str, n_features: int = 10, names: Sequence[str] | None = None
    ) -> Self:
        """Take the weights of every point, (k, d) or (d,) each: curves of the features with the largest weights.

        A curve is the weight where there is one column, else the norm over the columns.
        """
        points = [np.atleast_2d(coef.toarray() if issparse(coef) else np.asarray(coef)) for coef in coefs]
        is_single = points[0].shape[0] == 1
        sizes = np.stack([point[0] if is_single else np.linalg.norm(point, axis=0) for point in points])  # (m, d)
        largest = np.argsort(-np.abs(sizes).max(axis=0), kind="stable")[:n_features]
        labels = [f"feature {j}" if names is None else str(names[j]) for j in largest]
        what = "weight" if is_single else "norm of the weights of a feature"
        return cls(values, dict(zip(labels, sizes[:, largest].T, strict=True)), setting=setting, what=what)

    def plot(self, ax: Any = None, **lines: Any) -> Self:
        """Draw the curves; ``lines`` goes to matplotlib's ``plot``."""
        ax = self._axes(ax)
        self.lines_ = []
        for name, curve in self.curves.items():
            self.lines_ += ax.plot(self.values, curve, **{"marker": ".", "label": name, **lines})
        ax.set(xscale="log", xlabel=self.setting, ylabel=self.what)
        for text in ax.legend(fontsize="small").get_texts():
            text.set_parse_math(False)
        return self
