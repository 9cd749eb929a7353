"""A Cholesky factor of the Newton matrix in the weights, scaled to a diagonal of ones.

    H = identity + sum_i x_i x_i' (x) E M_i E'                                               maths: linear SVM, eq. 25

Scaling makes units of features irrelevant. A factor of float32 takes half of the time of one of float64, and is a
metric for conjugate gradients. Where rounding leaves no factor, float64 is taken, then a ridge that grows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsv, strsv
from scipy.linalg.lapack import dpotrf, spotrf

from softmargin.core.deadline import check_time, factor_work
from softmargin.core.threads import wide_blas
from softmargin.matrices.operator import row_slices
from softmargin.solvers.linear_svm._label_groups import LabelGroups

__all__ = ["FactorTuning", "ScaledFactor", "factored", "stiffened"]

Array = NDArray[Any]
SCALED = 1 << 17  # numbers that are scaled at once: they stay in the cache


class FactorTuning(NamedTuple):
    """What is added to a scaled matrix, and what is left out of it."""

    least_ridge: float = 1e-14  # of float64, where rounding leaves no factor; by hand
    growth: float = 100.0  # of this ridge, until there is a factor; by hand
    single_ridge: float = 3e-6  # of float32; measured: some steps of the interior point have no factor with 3e-7
    faint: float = 1e-9  # entries of float32 below it are zero: products of subnormal numbers take 3 to 5 times as long


class ScaledFactor(NamedTuple):
    """The factor: H = scale^-1 root root' scale^-1."""

    root: Array  # lower triangle by columns
    scale: Array

    def solve(self, groups: LabelGroups, right: Array) -> Array:
        """Return H^-1 right; (D, columns)."""
        if not right.size:  # features that are zero everywhere, and no intercept
            return right
        trsv = dtrsv if self.root.dtype == np.float64 else strsv
        scaled = self.scale * groups.inward(right).T[: groups.n_blocks].reshape(-1)
        # One triangle after the other: LAPACK's solution is made for many columns, and takes four times as long.
        x = trsv(self.root, scaled.astype(self.root.dtype, copy=False), lower=True, overwrite_x=True)
        x = trsv(self.root, x, lower=True, trans=True, overwrite_x=True)
        return np.asarray(groups.all_columns(groups.outward((self.scale * x).reshape(groups.n_blocks, -1).T)))


def factored(
    groups: LabelGroups, stiffness: Array, slope: Array | None, state: Any, tuning: FactorTuning
) -> ScaledFactor:
    """Return the factor for M_i = diag - a a'; the state of a run keeps what its factors need.

    ``state.is_single`` becomes false where float32 has no factor, and ``state.ridge`` grows where float64 has none.
    """
    while True:
        potrf, dtype = (spotrf, np.float32) if state.is_single else (dpotrf, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond float32 leave no factor, see below
            H = groups.newton_matrix(stiffness, slope, dtype)
        check_time(factor_work(len(H), dtype))
        scale = 1.0 / np.sqrt(np.einsum("jj->j", H))
        with np.errstate(over="ignore", invalid="ignore"):
            _scale(H, scale, tuning.faint if state.is_single else 0.0)
        H.flat[:: len(H) + 1] += tuning.single_ridge if state.is_single else state.ridge
        # The upper triangle by rows is the lower by columns.
        with wide_blas(len(H) ** 3.0 / 3.0):
            root, failed = potrf(H.T, lower=True, overwrite_a=True, clean=False)
        # LAPACK may call a factor of what is not finite a success.
        if not failed and (not state.is_single or np.isfinite(np.einsum("jj->j", root)).all()):
            return ScaledFactor(root, scale)
        if state.is_single:
            state.is_single = False
        elif state.ridge > 1.0:
            raise np.linalg.LinAlgError("no factor of the Newton matrix")
        else:
            state.ridge = max(tuning.growth * state.ridge, tuning.least_ridge)


def _scale(H: Array, scale: Array, faint: float) -> None:
    """Scale the upper triangle of H, some rows at a time, and make its entries below ``faint`` zero."""
    factors = scale.astype(H.dtype)
    for rows in row_slices(len(H), len(H), numbers=SCALED):
        part = H[rows, rows.start :]
        part *= factors[rows, None]
        part *= factors[rows.start :]
        if faint > 0.0:
            part *= np.abs(part) >= faint


def stiffened(stiffness: Array, slope: Array | None, dh: Array) -> Array:
    """Return M_i dh_i of every row: diag(stiffness), less a a' with a = slope stiffness."""
    change = stiffness * dh
    if slope is not None:
        change -= stiffness * (slope**2 * change.sum(axis=1))[:, None]
    return np.asarray(change)
