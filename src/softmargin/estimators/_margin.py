"""What the SVMs share: settings of the hinge losses, and warm starts from the dual variables of the last fit."""

from typing import Any

import numpy as np

from softmargin.estimators._base import CertifiedClassifier
from softmargin.estimators._problems import warm_point

__all__ = ["MarginClassifier"]


class MarginClassifier(CertifiedClassifier):
    """An SVM: ``C``, ``multiclass``, ``loss``, ``intercept_scaling`` are its settings, ``dual_coef_`` its dual."""

    def _first_point(self, problem: Any, n: int) -> Any:
        if not hasattr(self, "dual_coef_"):
            return None
        rows = len(self.classes_) if len(self.classes_) > 2 else 1
        if self._n_samples != n or len(self.dual_coef_) != rows:
            return None
        dual = np.zeros((n, rows))
        dual[self.support_] = self.dual_coef_.T
        return warm_point(problem, dual)

    def _claim(self) -> dict[str, Any]:
        is_squared = self.loss == "squared_hinge"
        return {
            "problem": "l2_svm" if is_squared else "multiclass_svm",
            # Two classes need no joint loss; what was solved is one class against the other.
            "multiclass": "one_vs_rest" if is_squared else self.multiclass,
            "loss": self.loss,
            "C": float(self.C),
            "intercept_scaling": float(self.intercept_scaling),
        }
