"""The compiled loop of feature-wise proximal gradient, and the constants that all gradient steps on the losses need.

gradient of feature j    g = sum_i x_ij U_i ,  U = C (P - Y)                                              spec 3.3
its curvature            H_j = sum_i C_i x_ij^2 (diag p_i - p_i p_i') , at most                           spec 3.2
    anywhere             sum_i C_i x_ij^2 / 2                  (/ 4 where there is one column)
    at this point        2 max_c h_c ,  h_c = sum_i C_i x_ij^2 p_ic (1 - p_ic)       by Gershgorin's discs
                         (h itself where there is one column)

C p (1 - p) = |U| (1 - |U| / C)  holds for the label's class as for any other, so U is all that is kept.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, any_nonzero, largest, load, maximum, pointer, splat, store, total, zeros
from softmargin.matrices.products import adjoint, times
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.solvers.softmax._losses import softmax_row

__all__ = ["descend", "feature_squares", "spectral_square"]

Array = NDArray[Any]

GERSHGORIN = 1.25  # times the largest h_c; 2 is proven, 1 needed: the descent test decides
FLATTEST = 1e-4  # share of the constant for anywhere below which a local one is not trusted
EMPTY = 1e-40  # share of the largest square at which a column counts as zero: its step is as good as infinite
POWER_STEPS = 40
POWER_CHANGE = 1e-3  # relative change of the eigenvalue at which the power method stops
SAFETY = 1.05  # the power method comes from below


def feature_squares(problem: Any) -> Array:
    """Return sum_i C_i x_ij^2 for every feature, never zero; shape (d,)."""
    squares = np.empty(problem.X.shape[1])
    weighted_squares(as_rows(problem.X), problem.C, squares)
    return np.maximum(squares, EMPTY * squares.max(initial=0.0) or 1.0)


def spectral_square(problem: Any, bias: float, rng: np.random.Generator) -> float:
    """Return about the largest eigenvalue of [X, bias]' C [X, bias], a little more rather than less; never zero."""
    n, d = problem.X.shape
    v, images = zeros((d + 1) * WIDTH), zeros(n * WIDTH)
    vectors = v.reshape(-1, WIDTH)  # as many tries at once as one product takes
    vectors[:] = rng.standard_normal(vectors.shape)
    value = 0.0
    for _ in range(POWER_STEPS):
        vectors /= np.maximum(np.linalg.norm(vectors, axis=0), np.finfo(float).tiny)
        times(problem.X, v, bias, WIDTH, images)
        images.reshape(n, WIDTH)[:] *= problem.C[:, None]
        adjoint(problem.X, images, bias, WIDTH, v)
        value, before = float(np.linalg.norm(vectors, axis=0).max()), value
        if not value > before * (1.0 + POWER_CHANGE):
            break
    return SAFETY * value or 1.0


@jit
def descend(
    columns: Any,
    penalty: Any,
    order: Array,
    lipschitz: Array,
    is_local: bool,
    damping: float,
    share: float,
    target: Array,
    C: Array,
    k: int,
    n_columns: int,
    is_pinned: bool,
    W: Array,
    S: Array,
    U: Array,
    seen: Array,
    G: Array,
    moved: Array,
    tiles: Array,
    work: Array,
) -> float:
    """Make a proximal gradient step in every feature of ``order``; W, S and U follow.

    A step of size t = damping / L moves the row by D, and is taken if <g(W + D) - g(W), D> <= share |D|^2 / t; else L
    doubles, up to the constant that holds anywhere. For a convex penalty and share = damping = 1 the objective cannot
    rise: it changes by at most <g(W + D), D> + penalty(W + D) - penalty(W), and the prox bounds the latter by
    -<g(W), D> - |D|^2 / t. For any other, share = 1/2 takes the place of 1, for the prox promises only half.

    ``seen`` and ``G`` keep every row and its gradient as they were met; ``moved`` says which rows moved. Returns the
    sum of |D|^2 / t.
    """
    cols, W_, S_, U_ = columns.bare(), pointer(W), pointer(S), pointer(U)
    seen_, G_, tiles_, target_, C_ = pointer(seen), pointer(G), pointer(tiles), pointer(target), pointer(C)
    zero, g, new, D, delta = pointer(work[0]), pointer(work[1]), pointer(work[2]), pointer(work[3]), pointer(work[4])
    curvatures = pointer(work[5])
    m = tiles.shape[0]
    nothing = splat(0.0)
    falls = 0.0
    for visit in range(order.shape[0]):
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
            step = damping / constant
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
                # Whether a row moves at all is told by the constant that needs no search.
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
                    bend = largest(top) if is_pinned else GERSHGORIN * largest(top)
                    constant = min(max(bend, FLATTEST * lipschitz[j]), lipschitz[j])
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
            if constant >= lipschitz[j] or not slope - total(slopes) > share * fall:
                break
            constant = min(2.0 * constant, lipschitz[j])
        moved[j] = is_moved
        if is_moved:
            for o in range(0, k, WIDTH):
                store(W_, first + o, load(new, o))  # not W + D: a bound must be met exactly
        falls += fall
    return falls
