"""The data that a model was trained on, as ``certify`` is given them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.estimators.posing.fit import codes_of, fit_problem, loss_prices
from softmargin.run import Stop

__all__ = ["Training", "with_constant"]

Array = NDArray[Any]


class Training(NamedTuple):
    """Training data, what the user says of the prices, and the budget for a bound."""

    X: Any
    y: Any
    C: float | None
    class_weight: Any
    sample_weight: Any
    stop: Stop
    watchers: Sequence[Any]

    def codes(self, classes: Array, n_features: int | None = None) -> Array:
        """Return the class codes of y; refuse other data than a model of so many features was trained on."""
        if n_features is not None and self.X.shape[1] != n_features:
            raise DataError(f"the model has {n_features} features, X has {self.X.shape[1]}; pass the training data.")
        return codes_of(classes, self.y)

    def price(self, own: float | None) -> float:
        """Return the C of the user, or else the model's own; refuse where neither is known."""
        price = own if self.C is None else self.C
        if price is None:
            raise DataError("the model does not say which C it was trained with; pass C=... (LIBLINEAR's -c).")
        return price

    def prices(self, codes: Array, classes: Array, C: float, class_weight: Any) -> Array:
        """Return the price of every sample; the class weights are the user's, or else the model's own; (n,)."""
        weight = class_weight if self.class_weight is None else self.class_weight
        return loss_prices(codes, classes, C, weight, self.sample_weight)

    def bound(self, problem: Any, init: Any = None) -> float:
        """Return the best lower bound that our own solver proves, within the budget."""
        result = fit_problem(problem, stop=self.stop, seed=0, init=init, watchers=self.watchers)
        return max(row.certificate.bound for row in result.trace)


def with_constant(X: Any, value: float) -> Any:
    """Return [X, value]: a constant column, whose weight is then penalised like every other."""
    column = np.full((X.shape[0], 1), value, dtype=X.dtype)
    if isinstance(X, np.ndarray):
        return np.hstack([X, column])
    from scipy.sparse import hstack

    return hstack([X, column], format="csr")
