"""MatrixSensing: a matrix of low rank from linear measurements of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.estimators.frame.ball_kinds import BallRegressor
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import CertifiedEstimator
from softmargin.estimators.l1_ball import EntryWeights

__all__ = ["MatrixSensing"]

Array = NDArray[Any]


class MatrixSensing(EntryWeights, BallRegressor):
    r"""Least squares for a matrix that is seen through measurements: y_i = <A_i, W>, over the trace-norm ball.

    Minimises mean of (<A_i, W> + b - y_i)^2 / 2 + l2 / 2 \|W\|^2 over all W of this shape whose singular values sum to
    at most ``radius``; the intercept is free. It is affine sensing of a matrix of low rank. Entries alone are cheaper
    as ``TraceBallRegressor`` with NaN for those that were not seen; here an A_i may be any matrix.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of W. Row i of X holds the entries of A_i, row by row: ``A.reshape(n, -1)``.
    radius : float, default=1.0
        Size of the ball: what the singular values of W may sum to.
    l2, fit_intercept, solver, tol, max_iter, max_seconds, warm_start, random_state, n_jobs, verbose
        As in L1BallRegressor; "auto" is "accelerated_gradient", which takes all singular values in every step. Solvers
        made for the l1 ball or for factors refuse.

    Attributes
    ----------
    coef_ : array of shape (rows * columns,)
    coef_matrix_ : array of shape (rows, columns)
        The same numbers as the matrix W.
    intercept_ : float
    is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in L1BallClassifier.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import MatrixSensing
    >>> A = np.random.default_rng(0).standard_normal((40, 3, 4))
    >>> W = np.outer([1.0, 2.0, 0.0], [1.0, 0.0, 1.0, 0.0])
    >>> y = np.einsum("ijc,jc->i", A, W)
    >>> reg = MatrixSensing((3, 4), radius=0.999 * np.linalg.norm(W, "nuc"), tol=1e-6).fit(A.reshape(40, -1), y)
    >>> reg.coef_matrix_.round(2) + 0.0
    array([[1., 0., 1., 0.],
           [2., 0., 2., 0.],
           [0., 0., 0., 0.]])
    """

    _norm = "trace"
    _is_summed_there = False
    _pose_rows = CertifiedEstimator._pose_rows  # nor on a cluster

    def __init__(
        self,
        shape: tuple[int, int],
        radius: float = 1.0,
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    @property
    def coef_matrix_(self) -> Array:
        """The weights as a matrix."""
        return self.coef_.reshape(self.shape)

    def _shape(self) -> tuple[int, int]:
        return self.shape

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Data:
        data = super()._checked(X, y, sample_weight)
        rows, columns = self.shape
        if data.X.shape[1] != rows * columns:
            raise DataError(
                f"X has {data.X.shape[1]} columns, but shape={self.shape} has {rows * columns} entries; give one "
                "column per entry, A.reshape(n, -1)."
            )
        if data.y.ndim == 2 and data.y.shape[1] != 1:
            raise DataError(f"y has shape {data.y.shape}; a measurement of a matrix is one number, shape (n,).")
        return data._replace(y=np.asarray(data.y).ravel())
