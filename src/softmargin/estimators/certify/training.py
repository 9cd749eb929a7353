"""The data that a model was trained on, as ``certify`` is given them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.core.parameters import as_numbers, shown
from softmargin.estimators.posing.fit import codes_of, fit_problem, loss_prices
from softmargin.run import Result, Stop

__all__ = ["Training"]

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

    def check_columns(self, n_features: int) -> None:
        """Refuse other data than a model of so many features was trained on."""
        if self.X.shape[1] != n_features:
            raise DataError(f"the model has {n_features} features, X has {self.X.shape[1]}; pass the training data.")

    def codes(self, classes: Array) -> Array:
        """Return the class codes of y."""
        return codes_of(classes, self.y)

    def numbers(self, n_targets: int) -> Array:
        """Return y as numbers; refuse another number of targets than a regressor has; (n, k)."""
        y = as_numbers(self.y)
        if y is None or y.ndim not in (1, 2):
            raise DataError(f"a regressor needs numbers as y, (n,) or (n, k); found {shown(self.y)}.")
        y = y.reshape(len(y), -1)
        if y.shape[1] != n_targets:
            raise DataError(f"the model has {n_targets} targets, y has {y.shape[1]}; pass the training data.")
        return y

    def price(self, own: float | None) -> float:
        """Return the C of the user, or else the model's own; refuse where neither is known."""
        price = own if self.C is None else self.C
        if price is None:
            raise DataError(
                "the model does not say which C it was trained with; pass C=... (-c of LIBLINEAR and LIBSVM)."
            )
        return price

    def prices(self, codes: Array, classes: Array, C: float, class_weight: Any) -> Array:
        """Return the price of every sample; the class weights are the user's, or else the model's own; (n,)."""
        weight = class_weight if self.class_weight is None else self.class_weight
        return loss_prices(codes, classes, C, weight, self.sample_weight)

    def run(self, problem: Any, init: Any = None) -> Result:
        """Solve a problem within the budget."""
        return fit_problem(problem, stop=self.stop, seed=0, init=init, watchers=self.watchers)

    def bound(self, problem: Any, init: Any = None) -> float:
        """Return the best lower bound that our own solver proves."""
        return max(row.certificate.bound for row in self.run(problem, init).trace)

    def settled(self, problem: Any, point: Any) -> Certificate:
        """Certify a point; where its own dual point proves too little, by the bound of a run that starts at it."""
        own: Certificate = problem.certificate(point)
        if own.kind == "stationarity" or own.meets(self.stop.tol):
            return own
        start = point if own.primal <= problem.primal(problem.zero()).upper else None
        return own.with_bound(self.bound(problem, start))

    def among(self, n: int) -> "Training":
        """Return the same with the share of the budget that one of n problems has."""
        return self._replace(stop=self.stop._replace(max_seconds=self.stop.max_seconds / n))
