"""What linear and kernel SVMs share: their settings, and the dual variables that a fit leaves."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.estimators.frame.fit import CertifiedClassifier, Data
from softmargin.estimators.posing.svm import FIT_INTERCEPT, SvmData, SvmSettings

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
    fit_intercept : bool or "free", default=True
        With the hinge, True adds a constant feature, whose weight is penalised like every other one; "free" leaves the
        intercept unpenalised, as LIBSVM does, for two classes or one-vs-rest. That of the squared hinge always is free.
    intercept_scaling : float, default=1.0
        Value of the constant feature (hinge only); a larger one lessens the penalty on the intercept.
    """

    _allowed: ClassVar = {"fit_intercept": FIT_INTERCEPT}

    def _settings(self) -> SvmSettings:
        return SvmSettings(self.multiclass, self.loss, self.fit_intercept, self.intercept_scaling)

    def _svm(self, data: Data) -> SvmData:
        return SvmData(data.X, data.codes, len(data.classes), self._prices(data, self.C), self._settings())

    def _claim(self) -> dict[str, Any]:
        return self._settings().claim(self.C)

    def _last_dual(self, n: int) -> Array | None:
        """Return the dual columns of the last fit to n samples, (n, k) or (n, 1); None where there is none."""
        if getattr(self, "_n_samples", None) != n or not hasattr(self, "dual_coef_"):  # a stream has none
            return None
        dual = np.zeros((n, len(self.dual_coef_)))
        dual[self.support_] = self.dual_coef_.T
        return dual
