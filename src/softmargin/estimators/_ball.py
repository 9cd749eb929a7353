"""What the models of a ball share: the problem, the run, and the question whether the ball matters at all.

    minimise over W in the ball, b:   sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,   s_i = W' x_i + b        spec 1.1

p_i is the share of sample i: its weight over the sum of all weights, times the weight of its class.
"""

import copy
import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from softmargin.estimators._base import X_KINDS, CertifiedEstimator
from softmargin.estimators._warnings import InactiveBallWarning, inactive_ball
from softmargin.estimators._weights import loss_prices
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Result
from softmargin.sets.balls import checked_radius

__all__ = ["BallEstimator", "Task", "shares_of", "within"]

Array = NDArray[Any]
WIDER = 2.0  # the larger ball in which an idle one is proven idle
SLACK = 4.0  # how much looser the proof there may be
FINEST = 1e-6  # relative gap below which rounding speaks


class Task(NamedTuple):
    """Data as they are trained on."""

    X: Any
    y: Array
    sample_weight: Array | None
    target: Array  # (n, k)
    shares: Array  # (n,)


def within(problem: Constrained, ball: Any) -> Constrained:
    """Return the same problem over another ball; the data, and what was made of them, are shared."""
    other = copy.copy(problem)
    other.ball = ball
    return other


class BallEstimator(CertifiedEstimator):
    """A linear model with weights in a ball.

    A subclass says which targets y means (``_task``), which loss is charged (``_entrywise``), which ball it is
    (``_ball``, ``_norm``) and how weights are kept (``_stored``, ``_weights``, ``_products``).
    """

    _ball: ClassVar[Any]
    _norm: ClassVar[str]
    _is_flat = False  # is coef_ (d,), as of a regressor with one target?

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Task:
        raise NotImplementedError

    def _entrywise(self, task: Task) -> Any:
        raise NotImplementedError

    def _stored(self, weights: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _weights(self) -> Any:
        raise NotImplementedError

    def _products(self, X: Any) -> Array:
        raise NotImplementedError

    def _posed(self, task: Task) -> Constrained:
        """Return the problem of the data."""
        return Constrained(
            task.X,
            task.target,
            loss=self._entrywise(task),
            ball=self._ball(checked_radius(self.radius)),
            l2=self.l2,
            weights=task.shares,
            fit_intercept=bool(self.fit_intercept),
        )

    def _trained(self, task: Task, problem: Constrained, init: Any) -> Result:
        """Solve the problem and keep what is left of the run."""

        def attributes(point: Any) -> dict[str, Any]:
            return {
                **self._stored(point.weights),
                "intercept_": float(point.intercept[0]) if self._is_flat else np.array(point.intercept),
                "is_on_boundary_": not problem.is_inactive(point),
            }

        result = self._run(problem, task, attributes, init)
        self._keep(result, attributes(result.point), len(task.target))
        return result

    def _start(self, problem: Constrained) -> BallPoint | None:
        """Return what the last fit left, where it has the right shape."""
        if not hasattr(self, "is_on_boundary_"):
            return None
        weights = self._weights()
        return BallPoint(weights, np.atleast_1d(self.intercept_)) if weights.shape == problem.shape else None

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        task = self._task(X, y, sample_weight)
        problem = self._posed(task)
        result = self._trained(task, problem, self._start(problem) if self.warm_start else None)
        self._warn(result, stacklevel=3)
        if self._is_idle(problem, result.point):
            size = problem.ball.size(result.point.weights) * problem.ball.radius
            warnings.warn(inactive_ball(self._norm, size, problem), InactiveBallWarning, stacklevel=3)
        return self

    def _is_idle(self, problem: Constrained, point: BallPoint) -> bool:
        """Say whether the ball is proven to do nothing: the point solves the problem in a wider one as well."""
        if not problem.is_inactive(point):
            return False
        wider = within(problem, self._ball(WIDER * problem.ball.radius))
        return wider.certificate(point).meets(SLACK * max(self.tol, FINEST))

    def _scores(self, X: Any) -> Array:
        """Return the scores of rows; (n, k)."""
        check_is_fitted(self)
        return self._products(validate_data(self, X, reset=False, **X_KINDS)) + self.intercept_


def shares_of(n: int, sample_weight: Array | None) -> Array:
    """Return each sample's share of the weight; they sum to 1."""
    weights = loss_prices(np.zeros(n, dtype=int), np.zeros(1), 1.0, None, sample_weight)
    return weights / weights.sum()
