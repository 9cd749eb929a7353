"""What linear and kernel SVMs share: their settings, and the dual variables that a fit leaves."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.estimators.frame.fit import CertifiedClassifier, Data
from softmargin.estimators.posing.svm import FIT_INTERCEPT, SvmData, SvmSettings
from softmargin.run import Result

__all__ = ["SvmClassifier"]

Array = NDArray[Any]


class SvmClassifier(CertifiedClassifier):
    """A classifier with a hinge loss, or its square.

    Parameters
    ----------
    multiclass : {"weston_watkins", "crammer_singer", "one_vs_rest"}, default="weston_watkins"
        A joint loss, or one binary problem per class.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        How a violated margin is charged. "squared_hinge" needs two classes or ``multiclass="one_vs_rest"``.
    fit_intercept : bool, "free" or "penalized", default=True
        "penalized" adds a constant feature, whose weight is penalised like every other one, as LIBLINEAR and
        scikit-learn's LinearSVC do; "free" leaves the intercept unpenalised, as LIBSVM does, for two classes or
        one-vs-rest. True is "penalized" for the hinge and "free" for the squared hinge, where "penalized" is for
        linear models.
    intercept_scaling : float, default=1.0
        Value of the constant feature of a penalised intercept; a larger one lessens the penalty.
    """

    _allowed: ClassVar = {"fit_intercept": FIT_INTERCEPT}

    def _settings(self) -> SvmSettings:
        return SvmSettings(self.multiclass, self.loss, self.fit_intercept, self.intercept_scaling)

    def _svm(self, data: Data) -> SvmData:
        return SvmData(data.X, data.codes, len(data.classes), self._prices(data, self.C), self._settings())

    def _claim(self) -> dict[str, Any]:
        return self._settings().claim(self.C)

    def _squares(self, data: Data) -> Array:
        """Return the squared length of every sample, without the constant feature; (n,)."""
        raise NotImplementedError

    def _keep(self, result: Result, attributes: dict[str, Any], n: int) -> None:
        super()._keep(result, attributes, n)
        self._last_C = self.C

    def _last_dual(self, data: Data) -> Array | None:
        """Return dual columns to start at, (n, k) or (n, 1): those of the last fit to as many samples; None for none.

        Where C has grown since, they grow by the factor t of 1 .. C / C_last at which the dual value t L - t^2 / 2 Q is
        the largest: maths, notation, eq. 9.
        """
        n = len(data.y)
        if getattr(self, "_n_samples", None) != n or not hasattr(self, "dual_coef_"):  # a stream has none
            return None
        dual = np.zeros((n, len(self.dual_coef_)))
        dual[self.support_] = self.dual_coef_.T
        most = self.C / self._last_C
        if most > 1.0:
            dual *= self._growth(dual, self._prices(data, self._last_C), most)
        return dual

    def _growth(self, dual: Array, prices: Array, most: float) -> float:
        is_joint = self.loss == "hinge" and self.multiclass != "one_vs_rest"
        linear = (0.5 if is_joint else 1.0) * float(np.abs(dual).sum())
        if self.loss == "hinge":
            square = 2.0 * (linear - self.certificate_.primal)
        else:
            losses = float((dual**2).sum(axis=1) @ (0.5 / np.where(prices > 0.0, prices, 1.0)))
            square = linear - (1.0 - 1.0 / most) * losses
        return min(max(linear / square, 1.0), most) if square > 0.0 else most
