"""What every model in a ball does, whichever ball it is: the problem, and how scores come from the weights.

    minimise over W in the ball, b:   sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,   s_i = W' x_i + b
                                                                                                      maths: ball, eq. 1

p_i is the share of sample i: its weight over the sum of all weights, times the weight of its class. What y means, and
what is predicted, is said by ``frame.ball_kinds``.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from softmargin.core.sparse import checked_sparse
from softmargin.core.threads import threads
from softmargin.estimators.frame.data import X_KINDS, Data
from softmargin.estimators.frame.fit import CertifiedEstimator, Posed
from softmargin.estimators.frame.placed import placed_scores
from softmargin.estimators.frame.warnings import InactiveBallWarning, inactive_ball
from softmargin.estimators.posing.ball import ball_problem, make_ball
from softmargin.problems import BallPoint, Constrained

__all__ = ["BallEstimator"]

Array = NDArray[Any]


class InactiveTuning(NamedTuple):
    """When a ball counts as inactive: the solution inside it is proven to be one of a wider ball as well."""

    wider: float = 2.0  # radius of the wider ball, in radii; by hand
    slack: float = 4.0  # how much looser the proof there may be; by hand
    finest: float = 1e-6  # relative gap below which rounding decides


class BallEstimator(CertifiedEstimator):
    """A linear model with weights in a ball.

    A subclass says which targets y means (``_target``), which ball it is (``_norm``) and how weights are
    kept (``_kept``, ``_stored``, ``_weights``, ``_coef``, ``_products``).

    Parameters
    ----------
    l2 : float, default=1e-4
        Strength of the ridge. A little of it makes the optimum unique and the proof quick; 0 is allowed, and the
        certificate is then a Frank-Wolfe gap.
    loss : str, default="smooth_hinge"
        "smooth_hinge", "squared_hinge" or "logistic": every class against all others, and how a margin w = t s is
        charged: the hinge with its corner rounded off; [1 - w]_+^2 / 2; log(1 + exp(-w)). "multinomial",
        "crammer_singer" or "weston_watkins": all classes at once, as in SoftmaxRegression and LinearSVC; of two classes
        these are the logistic loss and the hinge. The last two are not smooth, which takes more iterations.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the loss of a sample by the weight of its class.

    Attributes
    ----------
    is_on_boundary_ : bool
        Whether W touches the boundary of the ball. Where it does not, a larger radius changes nothing, and an
        ``InactiveBallWarning`` says so.
    """

    _is_summed_there: ClassVar[bool] = True
    _norm: ClassVar[str]
    _tuning: ClassVar[InactiveTuning] = InactiveTuning()
    _is_flat = False  # is coef_ (d,), as of a regressor with one target?

    def _target(self, data: Data) -> tuple[tuple[Array, Any], Array]:
        """Return the targets (n, k) with their loss, and the share of every sample (n,)."""
        raise NotImplementedError

    def _kept(self, weights: Any) -> Any:
        """Return the weights of a point, (d, k), as a model has them."""
        return weights

    def _stored(self, weights: Any, is_flat: bool) -> dict[str, Any]:
        raise NotImplementedError

    def _weights(self) -> Any:
        raise NotImplementedError

    def _coef(self) -> Any:
        """Return the weights as a model keeps them; (k, d)."""
        raise NotImplementedError

    def _products(self, X: Any) -> Array:
        raise NotImplementedError

    def _factors_there(self) -> tuple[Any, ...]:
        """Return matrices on a device whose product, (d, k), are the weights; none where they are NumPy's."""
        raise NotImplementedError

    def _pose_rows(self, rows: Any) -> Posed:
        from softmargin.estimators.frame.summed import pose_ball

        return pose_ball(self, rows, getattr(self, "loss", "squared"))

    def _shape(self) -> Any:
        """Return the shape of matrices whose entries are the features; None where features are no matrices."""
        return None

    def _ball(self, radius: float) -> Any:
        return make_ball(self._norm, radius, self._shape())

    def _pose(self, data: Data) -> Posed:
        settings = {"radius": self.radius, "l2": self.l2, "fit_intercept": self.fit_intercept, "shape": self._shape()}
        return self._posed(ball_problem(data.X, *self._target(data), norm=self._norm, **settings), data)

    def _pose_again(self, data: Data, posed: Posed) -> Posed:
        return self._posed(posed.problem.within(self._ball(self.radius)), data)

    def _posed(self, problem: Constrained, data: Data) -> Posed:
        """Say how to come back from a problem of these data, whatever its radius."""
        is_flat = data.classes is None and data.y.ndim == 1
        is_multilabel = data.classes is not None and data.codes is None

        def is_inside(point: BallPoint) -> bool:
            # An interior point gets to the boundary as its gap gets to zero.
            return problem.is_inactive(point) and self._is_optimal_in_wider_ball(problem, point)

        def attributes(point: BallPoint) -> dict[str, Any]:
            weights = self._kept(point.weights)
            intercept = problem.origin.far(weights, point.intercept)
            return {
                **self._stored(weights, is_flat),
                "intercept_": float(intercept[0]) if is_flat else np.array(intercept),
                "is_on_boundary_": not is_inside(point),
                "_is_flat": is_flat,
                "_is_multilabel": is_multilabel,
            }

        def warm_point() -> BallPoint | None:
            if not hasattr(self, "is_on_boundary_"):
                return None
            return problem.warm_point(self._weights(), np.atleast_1d(self.intercept_))

        def doubt(point: BallPoint) -> InactiveBallWarning | None:
            if not is_inside(point):
                return None
            return inactive_ball(self._norm, problem.ball.size(point.weights) * problem.ball.radius, problem)

        return Posed(problem, attributes, warm_point, doubt=doubt)

    def _is_optimal_in_wider_ball(self, problem: Constrained, point: BallPoint) -> bool:
        wider = problem.within(self._ball(self._tuning.wider * problem.ball.radius))
        return wider.certificate(point).meets(self._tuning.slack * max(self.tol, self._tuning.finest))

    def _scores(self, X: Any) -> Array:
        """Return the scores of rows; (n, k)."""
        check_is_fitted(self)
        if factors := self._factors_there():
            return placed_scores(self, X, factors)
        X = validate_data(self, checked_sparse(X), reset=False, **X_KINDS)
        with threads(self.n_jobs):
            return self._products(X) + self.intercept_
