"""Linear one-vs-rest hinges of all classes as one problem, each row with dual variables of all classes.

    minimise over W:                P(W) = 1/2 |W|^2 + sum_i C_i sum_c [1 - y_ic <w_c, x_i>]_+
    maximise over feasible alpha:   D(alpha) = sum_ic |alpha_ic| - 1/2 |X' alpha|^2,   W = X' alpha

y_ic is 1 at the label and -1 elsewhere, and is the sign of alpha_ic. ``OneVsRest`` has the same problem in parts, one
for each class; this one is for loops that go over all classes of a row.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.losses.multiclass_hinge import OneVsRestHinge
from softmargin.problems.multiclass_svm import MulticlassSVM

__all__ = ["RestHinges"]

Array = NDArray[Any]


class RestHinges(MulticlassSVM):
    """The one-vs-rest hinges of three or more classes.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    y : int array of shape (n,)
        Class codes 0 .. k-1.
    C : float or array of shape (n,)
        Price of one unit of loss, per sample.
    n_classes : int, optional
    bias : float, default=0
        Value of the constant feature; 0 means no intercept.
    """

    losses_known: ClassVar[Mapping[str, Any]] = {"one_vs_rest": OneVsRestHinge()}

    def __init__(self, X: Any, y: Array, *, C: Any = 1.0, n_classes: int | None = None, bias: float = 0.0) -> None:
        super().__init__(X, y, C=C, multiclass="one_vs_rest", n_classes=n_classes, bias=bias)

    def _own(self, alpha: Array) -> Array:
        """Return sum_c |alpha_ic|; shape (n,)."""
        return np.asarray(np.abs(alpha).sum(axis=1))

    def small_problem(self) -> None:
        """Return None: there is no smaller problem of its kind."""
