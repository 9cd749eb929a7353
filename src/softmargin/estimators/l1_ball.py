"""L1BallClassifier and L1BallRegressor: few weights that are not zero, by a ball of the l1 norm."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.estimators.frame.ball import BallEstimator
from softmargin.estimators.frame.ball_kinds import BallClassifier, BallRegressor
from softmargin.matrices.operator import product

__all__ = ["EntryWeights", "L1BallClassifier", "L1BallRegressor"]

Array = NDArray[Any]


class EntryWeights(BallEstimator):
    """Weights kept as an array, in a ball of their l1 norm."""

    _norm = "l1"

    coef_: Array

    def _stored(self, weights: Array, is_flat: bool) -> dict[str, Any]:
        coef = np.array(weights[:, 0] if is_flat else weights.T, order="C")
        coef += 0.0  # a projection leaves negative zeros
        return {"coef_": coef}

    def _weights(self) -> Array:
        return np.ascontiguousarray(self._coef().T)

    def _coef(self) -> Array:
        return np.atleast_2d(to_numpy(self.coef_))

    def _factors_there(self) -> tuple[Any, ...]:
        coef = self.coef_
        if not is_foreign(coef):
            return ()
        return (coef[:, None] if len(coef.shape) == 1 else home_of(coef).xp.matrix_transpose(coef),)

    def _products(self, X: Any) -> Array:
        return product(X, self._weights())


class L1BallClassifier(EntryWeights, BallClassifier):
    r"""Classifier with few weights: a margin loss over the l1 ball, trained to a certificate.

    Minimises the mean loss + l2 / 2 \|W\|^2 over all W with sum \|W_jc\| <= radius; the intercept is free. Two classes
    have one row of weights; of three and more, each class is separated from all others, or all from one another by a
    joint loss, and their weights share the ball. The fit stops when a duality gap proves that the objective is within
    ``tol`` (relative) of the optimum.

    Parameters
    ----------
    radius : float, default=1.0
        Size of the ball: what sum \|W_jc\| may be. Smaller means fewer weights.
    {l2, loss}
    fit_intercept : bool, default=True
    solver : str or solver object, default="auto"
        "auto" is "dual_descent" without an intercept where l2 outweighs every sample, else "working_set", which hands
        over to "newton" where it stalls. Also "accelerated_gradient", "frank_wolfe", "pairwise_frank_wolfe",
        "block_frank_wolfe", "stochastic_frank_wolfe", "svrg", "scgs", "storc", "primal_dual", and "primal_dual_bfw" (as
        "dual_descent", without an intercept and with l2 > 0). Joint hinges are solved by "primal_dual" alone; the
        multinomial loss by all but "newton", "dual_descent", "pairwise_frank_wolfe" and the primal-dual ones. Or a
        solver object.
    {tol, max_iter, max_seconds, class_weight, warm_start, random_state, n_jobs, device, verbose}

    Attributes
    ----------
    classes_ : array of shape (k,)
    coef_ : array of shape (k, d), or (1, d) for two classes
    intercept_ : array of shape (k,) or (1,)
    {is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_}

    Examples
    --------
    >>> from softmargin import L1BallClassifier
    >>> clf = L1BallClassifier(radius=0.5, tol=1e-6).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0, 0, 1, 1])
    >>> clf.coef_.round(3)
    array([[0.5, 0. ]])
    """


class L1BallRegressor(EntryWeights, BallRegressor):
    r"""Least squares with few weights: over the l1 ball, trained to a certificate.

    Minimises mean of (s - y)^2 / 2 + l2 / 2 \|W\|^2 over all W with sum \|W_jc\| <= radius; the intercept is free. It
    is the Lasso in the form with a constraint: scikit-learn's ``Lasso(alpha)`` has the same solution for l2 = 0 and the
    radius that its own weights have.

    Parameters
    ----------
    radius, l2, fit_intercept, solver, tol, max_iter, max_seconds, warm_start, random_state, n_jobs, device, verbose
        As in L1BallClassifier. The weights of all targets share the ball.

    Attributes
    ----------
    coef_ : array of shape (d,), or (k, d) for y of shape (n, k)
    intercept_ : float, or array of shape (k,)
    is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in L1BallClassifier.

    Examples
    --------
    >>> from softmargin import L1BallRegressor
    >>> reg = L1BallRegressor(radius=1.0, tol=1e-6).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0, 2, 4, 6])
    >>> reg.coef_.round(3)
    array([1., 0.])
    """
