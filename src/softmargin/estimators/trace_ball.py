"""TraceBallClassifier and TraceBallRegressor: weights of low rank, by a ball of the trace norm, kept as factors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.estimators.frame.ball import BallEstimator
from softmargin.estimators.frame.ball_kinds import BallClassifier, BallRegressor
from softmargin.estimators.posing.ball import factors_of
from softmargin.matrices.operator import product
from softmargin.sets import LowRank

__all__ = ["TraceBallClassifier", "TraceBallRegressor"]

Array = NDArray[Any]


class _FactoredWeights(BallEstimator):
    """Weights kept as U diag(s) Vt, in a ball of their trace norm."""

    _norm = "trace"

    coef_factors_: tuple[Array, Array, Array]  # U (k, r), s (r,), Vt (r, d)

    @property
    def coef_(self) -> Array:
        """U diag(s) Vt, computed at every access."""
        U, s, Vt = self.coef_factors_
        coef = (U * s) @ Vt
        return coef[0] if self._is_flat else coef

    def _kept(self, weights: Any) -> LowRank:
        return factors_of(weights)

    def _stored(self, weights: LowRank, is_flat: bool) -> dict[str, Any]:
        return {"coef_factors_": (weights.V, weights.s, np.ascontiguousarray(weights.U.T))}

    def _weights(self) -> LowRank:
        U, s, Vt = (to_numpy(each) for each in self.coef_factors_)
        return LowRank(Vt.T, s, U)

    def _coef(self) -> LowRank:
        U, s, Vt = (to_numpy(each) for each in self.coef_factors_)
        return LowRank(U, s, Vt.T)

    def _factors_there(self) -> tuple[Any, ...]:
        U, s, Vt = self.coef_factors_
        if not is_foreign(s):
            return ()
        turned = home_of(s).xp.matrix_transpose
        return turned(Vt), turned(U * s)

    def _products(self, X: Any) -> Array:
        U, s, Vt = self.coef_factors_
        return product(X, np.ascontiguousarray(Vt.T)) @ (U * s).T


class TraceBallClassifier(_FactoredWeights, BallClassifier):
    r"""Classifier with weights of low rank: a margin loss over the trace-norm ball, trained to a certificate.

    Minimises the mean loss, summed over the classes, + l2 / 2 \|W\|^2 over all W whose singular values sum to at most
    ``radius``; the intercepts are free. Each class is separated from all others (two classes: one row of weights), or
    each label from its absence, or all classes from one another by a joint loss: softmax and multiclass SVMs of low
    rank. What classes have in common is learnt once. Scores go through the factors: d r + r k
    products per row instead of d k.

    Parameters
    ----------
    radius : float, default=1.0
        Size of the ball: what the singular values of W may sum to. Smaller means a lower rank.
    {l2, loss}
    fit_intercept : bool, default=True
    solver : str or solver object, default="auto"
        "auto" is "accelerated_gradient", or "newton" for one column of weights (two classes); where the former stalls,
        "newton" finishes, for more columns "interior_point", and with many weights "newton_cg". Also "primal_dual_bfw"
        (without an intercept, and with l2 > 0), "frank_wolfe", "block_frank_wolfe", "stochastic_frank_wolfe", "svrg",
        "scgs", "storc", "primal_dual". Joint hinges are solved by "primal_dual" alone, which takes all singular values
        in every step; the multinomial loss by all but the primal-dual ones, "newton_cg" and "interior_point". Or a
        solver object.
    {tol, max_iter, max_seconds, class_weight, warm_start, random_state, n_jobs, device, verbose}

    Attributes
    ----------
    classes_ : array of shape (k,)
    coef_factors_ : (U, s, Vt) of shapes (k, r), (r,), (r, d)
        Singular triples of the weights, s falling.
    coef_ : array of shape (k, d), or (1, d) for two classes
        U diag(s) Vt, computed at every access.
    intercept_ : array of shape (k,) or (1,)
    {is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_}

    Examples
    --------
    >>> from softmargin import TraceBallClassifier
    >>> clf = TraceBallClassifier(radius=0.5, tol=1e-6).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> clf.coef_.round(3), len(clf.coef_factors_[1])
    (array([[0.5]]), 1)
    """


class TraceBallRegressor(_FactoredWeights, BallRegressor):
    r"""Least squares for many targets at once: over the trace-norm ball, trained to a certificate.

    Minimises mean of \|s - y\|^2 / 2 + l2 / 2 \|W\|^2 over all W whose singular values sum to at most ``radius``; the
    intercepts are free. Targets that were not observed are NaN: with X the identity, that is matrix completion.

    Parameters
    ----------
    radius, l2, fit_intercept, solver, tol, max_iter, max_seconds, warm_start, random_state, n_jobs, device, verbose
        As in TraceBallClassifier.

    Attributes
    ----------
    coef_factors_ : (U, s, Vt) of shapes (k, r), (r,), (r, d)
        Singular triples of the weights, s falling.
    coef_ : array of shape (k, d), or (d,) for y of shape (n,)
        U diag(s) Vt, computed at every access.
    intercept_ : array of shape (k,), or float
    is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in TraceBallClassifier.

    Examples
    --------
    >>> from softmargin import TraceBallRegressor
    >>> X, Y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]
    >>> reg = TraceBallRegressor(radius=1.0, tol=1e-6).fit(X, Y)
    >>> len(reg.coef_factors_[1]), reg.coef_.shape
    (1, (2, 2))
    """
