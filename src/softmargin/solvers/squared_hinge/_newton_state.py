"""The iterate of Newton's method for the linear L2-SVM, the quadratic piece of P there, and its constants."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.matrices.operator import SCATTERED
from softmargin.solvers.squared_hinge._newton_loop import CentredSamples, PieceSums
from softmargin.solvers.squared_hinge._newton_steps import Iterate, Numbers

__all__ = ["NewtonState", "Piece", "PrimalNewtonTuning"]

Array = NDArray[Any]


class PrimalNewtonTuning(NamedTuple):
    """When each way to solve the Newton system is used, and how exactly it is solved."""

    dense_features: int = 2000  # most features for which a dense Hessian is formed; by hand
    block: int = 1 << 16  # numbers of X converted to float64 at once, at least: they stay in the cache; by hand
    few: int = 1 << 20  # multiplications of a step up to which a compiled one is faster than BLAS; by timings
    most_steps: int = 8  # of these at once; by hand
    short: int = 16  # entries per row up to which a loop over pairs of them replaces BLAS; by hand
    least_exact: float = 0.03  # relative residual at which conjugate gradients may stop; by hand
    most_exact: float = 1e-12  # the smallest residual asked of them; by hand
    diagonal_share: float = 0.01  # of the diagonal in the preconditioner; measured: 1 takes more products on text
    max_products: int = 500  # of one solve by conjugate gradients; by hand
    fewest_products: int = 8  # fewer than these are not tried in the place of Cholesky; by hand
    product: float = 40.0  # BLAS multiplications in the time of an entry of a product with sparse rows: 2 ns
    call: float = 3e5  # the same of the other work of a product: 15 us
    touched: float = 100.0  # the same of an entry of a matrix, beside its factor: 5 ns
    most_samples: int = 3000  # with one unknown each, for sparse X of many features: 72 MB; by hand
    scattered: float = SCATTERED  # BLAS multiplications in the time of one that scatters its result
    kept_features: int = 1000  # most for which the sum over I is kept between steps: 8 MB for every class; by hand
    long: int = 100  # entries per row above which the squares of rows take most of a step; by hand
    sampled: int = 8  # rows per feature of the first sum over I, where all rows are many more; by hand
    cut: float = 0.3  # a step below this part of its move was cut short: lambda grows; measured on mnist 0..255
    whole: float = 0.4  # a step above it was not: the next move has no lambda
    near: float = 0.3  # of P by which a piece may fall for its minimiser to be tried as a dual point; by hand
    growth: float = 10.0  # of lambda


@dataclass
class NewtonState:
    """The iterate, which a checkpoint holds, and scratch."""

    weights: Array  # (d,)
    bias: float  # of the centred columns
    mean: Array  # (d,) subtracted from the columns
    scores: Array  # (n,) of the centred columns
    alpha: Array  # (n,) the best dual point that a piece implied
    held: Array  # (n,) prices of the rows in ``squares``; empty where that is not kept
    squares: Array  # (d, d) sum of held_i (x_i - mean)(x_i - mean)', its upper triangle
    bound: float = 0.0  # the dual value at alpha
    drift: int = 0  # rows by which ``squares`` was changed since it was summed afresh
    damping: float = 0.0  # lambda
    is_hard: bool = False  # conjugate gradients took too much work
    X: Any = field(default=None, init=False, repr=False)  # (n, d) as given, or as an array; scratch from here on
    samples: CentredSamples | None = field(default=None, init=False, repr=False)
    piece: "Piece | None" = field(default=None, init=False, repr=False)  # at the iterate, once evaluated
    sums: PieceSums = field(init=False, repr=False)
    slack: Array = field(init=False, repr=False)  # (n,)
    fall: Array = field(init=False, repr=False)  # (n,)

    @property
    def iterate(self) -> Iterate:
        """The vectors, as compiled loops see them."""
        return Iterate(self.weights, self.scores, self.alpha, self.slack, self.fall)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        prices, self.slack, self.fall = np.empty((3, len(self.scores)))
        self.sums = PieceSums(prices, *np.empty((3, len(self.weights))))


class Piece(NamedTuple):
    """The quadratic piece of P at (w, b)."""

    prices: Array  # (n,) C_i in I, else 0
    total: float  # M
    centre: Array  # (d,) mu, of the centred columns
    right: Array  # (d,) -g_w + mu g_b
    primal: float  # P(w, b)
    best_bias: float  # for w, of the centred columns
    residual: float  # relative gap at the best bias
    is_behind: bool  # the losses there imply no better dual point than an earlier piece, or zero
    numbers: Numbers
