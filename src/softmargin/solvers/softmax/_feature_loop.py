"""The compiled loop of feature-wise proximal gradient, and the Lipschitz constants of gradient steps on the losses.

gradient of feature j    g = sum_i x_ij U_i ,  U = C (P - Y)                                      maths: softmax, eq. 21
its curvature            H_j = sum_i C_i x_ij^2 (diag p_i - p_i p_i') , at most           maths: softmax, eqs. 12 and 13
    anywhere             sum_i C_i x_ij^2 / 2                  (/ 4 where there is one column)
    at this point        2 max_c h_c ,  h_c = sum_i C_i x_ij^2 p_ic (1 - p_ic)       by Gershgorin's discs
                         (h itself where there is one column)

C p (1 - p) = |U| (1 - |U| / C)  holds for the label's class as for any other, so the loop needs U alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, any_nonzero, largest, load, maximum, pointer, splat, store, total, zeros
from softmargin.core.protocols import CompositeProblem
from softmargin.matrices.products import adjoint, times
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.solvers.common.power_method import largest_eigenvalue
from softmargin.solvers.softmax._losses import softmax_row, width_of

__all__ = [
    "LEAST_CONSTANT",
    "FeatureIterate",
    "SoftmaxData",
    "StepRule",
    "descend",
    "feature_constants",
    "softmax_data",
    "spectral_square",
]

Array = NDArray[Any]

EMPTY = 1e-40  # share of the largest square at which a column counts as zero: its step is as good as infinite
POWER_STEPS = 40  # most products of the power method; by hand
POWER_CHANGE = 1e-3  # relative change of the eigenvalue at which it stops; by hand
POWER_SAFETY = 1.05  # factor on its result, as it converges from below; by hand
LEAST_CONSTANT = 1e-20  # share of a global constant that a local one has at least: gradients may vanish for ever


def feature_constants(problem: CompositeProblem) -> Array:
    """Return the constant of every feature that holds anywhere, never zero; shape (d,)."""
    squares = np.empty(problem.X.shape[1])
    weighted_squares(as_rows(problem.X), problem.C, squares)
    return (0.25 if problem.is_pinned else 0.5) * np.maximum(squares, EMPTY * squares.max(initial=0.0) or 1.0)


def spectral_square(problem: CompositeProblem, bias: float, rng: np.random.Generator) -> float:
    """Return about the largest eigenvalue of [X, bias]' C [X, bias], rather more than less; never zero."""
    n, d = problem.X.shape
    flat, images = zeros((d + 1) * WIDTH), zeros(n * WIDTH)
    vectors = flat.reshape(-1, WIDTH)  # as many tries at once as one product takes

    def product(V: Array) -> Array:
        vectors[:] = V
        times(problem.X, flat, bias, WIDTH, images)
        images.reshape(n, WIDTH)[:] *= problem.C[:, None]
        adjoint(problem.X, images, bias, WIDTH, flat)
        return vectors

    first = rng.standard_normal(vectors.shape)
    return POWER_SAFETY * largest_eigenvalue(product, first, steps=POWER_STEPS, change=POWER_CHANGE) or 1.0


class SoftmaxData(NamedTuple):
    """What compiled loops read of the losses: labels, prices, and the layout of a row of W or S."""

    target: Array  # (n,)
    C: Array  # (n,)
    k: int  # numbers in a row
    n_columns: int  # those that are not padding
    is_pinned: bool
    tiles: Array  # first number of every tile of a row


def softmax_data(problem: CompositeProblem) -> SoftmaxData:
    """Return what compiled loops read of the losses of a problem."""
    k = width_of(problem)
    return SoftmaxData(problem.target, problem.C, k, problem.n_columns, problem.is_pinned, np.arange(0, k, WIDTH))


class StepRule(NamedTuple):
    """The sizes of proximal gradient steps, and the descent test."""

    constants: Array  # (d,) Lipschitz constants that hold anywhere
    is_local: bool  # whether to try the curvature at the point first
    scale: float  # step times L
    share: float  # of |D|^2 / step that the curvature may take
    gershgorin: float  # local constant over max_c h_c
    flattest: float  # share of a global constant below which a local one is not used


class FeatureIterate(NamedTuple):
    """The point, and what the loop keeps up to date with it."""

    W: Array  # ((d + 1) * k,)
    S: Array  # (n * k,) scores
    U: Array  # ((n + 1) * k,) C (P - Y), and a row of zeros
    seen: Array  # ((d + 1) * k,) every row of W as it was when its gradient was computed
    G: Array  # ((d + 1) * k,) these gradients
    moved: Array  # (d,) which rows moved


@jit
def descend(
    columns: Any,
    penalty: Any,
    order: Array,
    rule: StepRule,
    data: SoftmaxData,
    iterate: FeatureIterate,
    work: Array,
    alarm: Array,
) -> float:
    """Make a proximal gradient step in every feature of ``order``, until the alarm; keep the iterate up to date.

    A step of size t = scale / L moves the row by D, and is taken if <g(W + D) - g(W), D> <= share |D|^2 / t; else L
    doubles, up to the constant that holds anywhere. For a convex penalty and share = scale = 1 the objective cannot
    rise: it changes by at most <g(W + D), D> + penalty(W + D) - penalty(W), and the prox bounds the latter by
    -<g(W), D> - |D|^2 / t. For any other, share = 1/2 takes the place of 1, as the prox promises only half.

    Returns the sum of |D|^2 / t; ``work`` is (6, k).
    """
    C, k, n_columns, is_pinned = data.C, data.k, data.n_columns, data.is_pinned
    lipschitz, is_local, moved, tiles = rule.constants, rule.is_local, iterate.moved, data.tiles
    cols, W_, S_, U_ = columns.bare(), pointer(iterate.W), pointer(iterate.S), pointer(iterate.U)
    seen_, G_, tiles_ = pointer(iterate.seen), pointer(iterate.G), pointer(tiles)
    target_, C_ = pointer(data.target), pointer(C)
    zero, g, new, D, delta = pointer(work[0]), pointer(work[1]), pointer(work[2]), pointer(work[3]), pointer(work[4])
    curvatures = pointer(work[5])
    m = tiles.shape[0]
    nothing = splat(0.0)
    falls = 0.0
    for visit in range(order.shape[0]):
        if alarm[0] != 0:
            break
        j = order[visit]
        first = j * k
        begin, end = cols.entries(j)
        cols.scores(j, U_, k, zero, tiles_, m, g)
        for o in range(0, k, WIDTH):
            store(seen_, first + o, load(W_, first + o))
            store(G_, first + o, load(g, o))
            store(D, o, nothing)
        constant = lipschitz[j]
        is_probe, is_moved, fall = True, False, 0.0
        while True:
            step = rule.scale / constant
            for o in range(0, k, WIDTH):
                store(new, o, load(W_, first + o) - splat(step) * load(g, o))
            penalty.prox_row(new, 0, n_columns, step)
            is_moving = False
            squares, slopes = nothing, nothing
            for o in range(0, k, WIDTH):
                d = load(new, o) - load(W_, first + o)
                if any_nonzero(d):
                    is_moving = True
                squares = squares + d * d
                slopes = slopes + d * load(g, o)
                store(delta, o, d - load(D, o))
                if not is_probe or not is_local:
                    store(D, o, d)
            if is_probe:
                # The constant that holds anywhere decides, without a search, whether a row moves at all.
                if not is_moving:
                    break
                is_moved = True
                if is_local:
                    is_probe = False
                    for o in range(0, k, WIDTH):
                        store(curvatures, o, nothing)
                    for p in range(begin, end):
                        i = cols.column(j, p)
                        square, inverse = (
                            splat(cols.value(p) * cols.value(p)),
                            splat(1.0 / C_[i] if C_[i] > 0.0 else 0.0),
                        )
                        for o in range(0, k, WIDTH):
                            u = load(U_, i * k + o)
                            u = maximum(u, nothing - u)
                            store(curvatures, o, load(curvatures, o) + square * (u - u * u * inverse))
                    top = nothing
                    for o in range(0, k, WIDTH):
                        top = maximum(load(curvatures, o), top)
                    curvature = largest(top) if is_pinned else rule.gershgorin * largest(top)
                    constant = min(max(curvature, rule.flattest * lipschitz[j]), lipschitz[j])
                    continue
            slope = 0.0
            for p in range(begin, end):
                i = cols.column(j, p)
                x = cols.value(p)
                for o in range(0, k, WIDTH):
                    store(S_, i * k + o, load(S_, i * k + o) + splat(x) * load(delta, o))
                softmax_row(S_, i * k, k, is_pinned, U_, i * k)
                price = splat(C_[i])
                along = nothing
                for o in range(0, k, WIDTH):
                    u = price * load(U_, i * k + o)
                    along = along + u * load(D, o)
                    store(U_, i * k + o, u)
                label = target_[i]
                own = 0.0
                if label >= 0:
                    U_[i * k + label] -= C_[i]
                    own = C_[i] * D[label]
                slope += x * (total(along) - own)
            fall = total(squares) / step
            if constant >= lipschitz[j] or not slope - total(slopes) > rule.share * fall:
                break
            constant = min(2.0 * constant, lipschitz[j])
        moved[j] = is_moved
        if is_moved:
            for o in range(0, k, WIDTH):
                store(W_, first + o, load(new, o))  # not W + D: a bound must be met exactly
        falls += fall
    return falls
