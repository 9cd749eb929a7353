"""What a solver over a ball evaluates: products with X, the losses of all scores, projections. Compiled where it pays.

    fill_scores, fill_adjoint,       X W and X' U: BLAS where X is dense, compiled loops where it is sparse
    scores_of, adjoint_of
    project_into                     the nearest point of the ball; compiled for the l1 ball
    fill_slopes, slope_rise,         of the losses at S + b, by one compiled pass over the entries where the loss has a
    losses, conjugates               compiled form (``losses.compiled_entries``), else by the methods of the problem
    square_of_norm, smoothness       how large the gradient's Lipschitz constant is
    checked_ball, check_dual, ...    refuse problems that a solver is not made for

A compiled pass allocates no array of the size of the scores. It reads rows in tiles of four classes (``_products``);
lanes that the last tile repeats have no weight in sums. With fewer than four classes, four samples make one row.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, load, pointer, splat, store, total
from softmargin.core.errors import IncompatibleError
from softmargin.core.pieces import ConvexSet
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices import sparse_products
from softmargin.matrices.operator import adjoint_product, product
from softmargin.matrices.rows import as_rows
from softmargin.sets import L1Ball
from softmargin.solvers.ball._products import fresh_lanes, tile_at
from softmargin.solvers.common.power_method import largest_eigenvalue

Ball = TypeVar("Ball", bound=ConvexSet)


class ObjectiveTuning(NamedTuple):
    """Constants of the power method."""

    n_products: int = 30  # of the power method; maths: ball, section 9
    margin: float = 1.02  # the power method approaches the norm from below; maths: ball, section 9


_TUNING = ObjectiveTuning()


def checked_ball(problem: ConstrainedProblem, name: str, use: str, *kinds: type[Ball]) -> Ball:
    """Return the problem's set if it is of one of these kinds; else refuse and say what to use."""
    if not isinstance(problem.ball, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise IncompatibleError(f"{name} needs a set of kind {wanted}; found {problem.ball!r}. Use {use}.")
    return problem.ball


def check_dual(problem: ConstrainedProblem, name: str) -> L1Ball:
    """Return the l1 ball; refuse a problem whose dual is not smooth in U alone."""
    ball = checked_ball(problem, name, "BallGradient", L1Ball)
    if problem.l2 == 0.0:
        raise IncompatibleError(f"{name} needs l2 > 0; found 0. Use BallGradient or BallWorkingSet.")
    check_dual_step(problem, name, "BallGradient")
    if problem.fit_intercept:
        raise IncompatibleError(
            f"{name} fits no intercept; fit_intercept is True. Use BallGradient or BallWorkingSet, or centre the data."
        )
    return ball


def check_dual_step(problem: ConstrainedProblem, name: str, use: str) -> None:
    """Refuse a loss without a dual step."""
    if not hasattr(problem.loss, "dual_step"):
        raise IncompatibleError(f"{name} needs a loss with a dual step; {problem.loss!r} has none. Use {use}.")


def check_entrywise(problem: ConstrainedProblem, name: str, use: str) -> None:
    """Refuse a loss that takes the scores of a row together."""
    if problem.loss.is_joint:
        raise IncompatibleError(
            f"{name} needs a loss of every score by itself; {problem.loss!r} takes those of a row together. Use {use}."
        )


def square_of_norm(problem: ConstrainedProblem, rng: np.random.Generator) -> float:
    """Return about |diag(p)^(1/2) X|_2^2, from below."""
    X, p = problem.X, problem.weights[:, None]
    start = rng.standard_normal(X.shape[1])
    return largest_eigenvalue(
        lambda v: adjoint_product(X, p * product(X, v[:, None]))[:, 0], start, steps=_TUNING.n_products
    )


def smoothness(problem: ConstrainedProblem, rng: np.random.Generator) -> float:
    """Return a Lipschitz constant of the gradient of the losses, without the ridge penalty."""
    return problem.loss.curvature * _TUNING.margin * square_of_norm(problem, rng)


def fill_scores(X: Any, W: Array, out: Array) -> None:
    """Write X W, (n, k)."""
    if isinstance(X, np.ndarray):
        out[:] = product(X, W)
    else:
        sparse_products.fill_scores(as_rows(X), W.reshape(-1), W.shape[1], out.reshape(-1))


def fill_adjoint(X: Any, U: Array, out: Array) -> None:
    """Write X' U, (d, k)."""
    if isinstance(X, np.ndarray):
        out[:] = adjoint_product(X, U)
    else:
        out[:] = 0.0
        sparse_products.add_adjoint(as_rows(X), U.reshape(-1), U.shape[1], out.reshape(-1))


def scores_of(X: Any, W: Array) -> Array:
    """Return X W, (n, k)."""
    out = np.empty((X.shape[0], W.shape[1]))
    fill_scores(X, np.ascontiguousarray(W), out)
    return out


def adjoint_of(X: Any, U: Array) -> Array:
    """Return X' U, (d, k)."""
    out = np.empty((X.shape[1], U.shape[1]))
    fill_adjoint(X, np.ascontiguousarray(U), out)
    return out


def project_into(ball: ConvexSet, V: Array, guess: float, out: Array) -> float:
    """Write the point of the ball nearest to V; return the threshold of an l1 ball, a guess for the next one."""
    if not isinstance(ball, L1Ball):
        out[:] = ball.project(V)
        return 0.0
    theta = ball.level(V, guess)
    ball.shrink_into(V, theta, 1.0, out)
    return theta


def fill_slopes(problem: ConstrainedProblem, scores: Array, intercept: Array, out: Array) -> None:
    """Write p_i f'(s_ic + b_c, t_ic); (n, k)."""
    loss = compiled_loss(problem)
    if loss is None:
        out[:] = problem.slopes(scores, intercept)
        return
    parts = entries_by_part(problem, scores, out)
    for part in parts:
        _slopes(loss, _by_row(intercept), *part)
    rest = len(out) % WIDTH
    if rest and out.shape[1] < WIDTH:
        out[-rest:] = parts[-1][-1].reshape(WIDTH, -1)[:rest]


def slope_rise(problem: ConstrainedProblem, scores: Array, intercept: Array, U: Array, before: Array) -> float:
    """Return < p f'(s + b) - U , s - before >."""
    loss = compiled_loss(problem)
    if loss is None:
        return float(np.vdot(problem.slopes(scores, intercept) - U, scores - before))
    shift = _by_row(intercept)
    return sum(float(_slope_rise(loss, shift, *part)) for part in entries_by_part(problem, scores, U, before))


def losses(problem: ConstrainedProblem, scores: Array, intercept: Array) -> float:
    """Return sum_i p_i sum_c f(s_ic + b_c, t_ic)."""
    sums = _both_sums(problem, scores, intercept)
    return problem.losses(scores, intercept) if sums is None else float(sums[0])


def conjugates(problem: ConstrainedProblem, scores: Array, intercept: Array) -> float:
    """Return sum_i p_i sum_c f*(u_ic, t_ic) at the slopes u of these scores."""
    sums = _both_sums(problem, scores, intercept)
    if sums is not None:
        return float(sums[1])
    U = problem.loss.slope(scores + intercept, problem.target)
    return float(problem.weights @ problem.loss.conjugate(U, problem.target).sum(axis=1))


def _both_sums(problem: ConstrainedProblem, scores: Array, intercept: Array) -> Any:
    loss = compiled_loss(problem)
    if loss is None:
        return None
    return np.sum([_loss_sums(loss, _by_row(intercept), *part) for part in entries_by_part(problem, scores)], axis=0)


def compiled_loss(problem: ConstrainedProblem) -> Any:
    """Return the compiled form of the loss, or None for a loss that has only its NumPy methods."""
    return getattr(problem.loss, "compiled", None)


def _by_row(b: Array) -> Array:
    """Return the intercepts of a row of the compiled passes."""
    return b if len(b) >= WIDTH else np.concatenate([b] * WIDTH)  # np.tile takes ten times as long


def entries_by_part(problem: ConstrainedProblem, scores: Array, *more: Array) -> list[list[Array]]:
    """Return weights, targets, scores and more arrays, flat, in one or two parts whose rows hold at least one tile.

    With fewer than four classes, the second part holds the remaining samples, padded with zeros.
    """
    n, k = scores.shape
    arrays = (problem.target, scores, *more)
    if k >= WIDTH:
        return [[problem.weights, *(array.reshape(-1) for array in arrays)]]
    rest = n % WIDTH
    by_entry = (problem.weights[:, None] if k == 1 else np.repeat(problem.weights, k).reshape(n, k), *arrays)
    parts = [[array[: n - rest].reshape(-1) for array in by_entry]] if n > rest else []
    if rest:
        parts.append([np.zeros(WIDTH * k) for _ in by_entry])
        for room, array in zip(parts[-1], by_entry, strict=True):
            room[: rest * k] = array[n - rest :].reshape(-1)
    return parts


@inline
def tile_weights(p: Any, i: int, o: int, k: int, is_by_entry: bool) -> Any:
    """Return the weights of a tile."""
    return load(p, i * k + o) if is_by_entry else splat(p[i])


@jit
def _slopes(loss: Any, b: Array, p: Array, T: Array, S: Array, out: Array) -> None:
    """Write p f'."""
    p_, T_, S_, b_, out_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(out)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    for i in range(S.shape[0] // k):
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            slope, _ = loss.slope_and_bend(load(S_, i * k + o) + load(b_, o), load(T_, i * k + o))
            store(out_, i * k + o, tile_weights(p_, i, o, k, is_by_entry) * slope)


@jit
def _slope_rise(loss: Any, b: Array, p: Array, T: Array, S: Array, U: Array, S0: Array) -> float:
    """Return < p f' - U , S - S0 >."""
    p_, T_, S_, b_, U_, S0_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(U), pointer(S0)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    rise = 0.0
    for i in range(S.shape[0] // k):
        rises = splat(0.0)
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            s = load(S_, i * k + o)
            slope, _ = loss.slope_and_bend(s + load(b_, o), load(T_, i * k + o))
            change = tile_weights(p_, i, o, k, is_by_entry) * slope - load(U_, i * k + o)
            rises = rises + fresh_lanes(c, k) * change * (s - load(S0_, i * k + o))
        rise += total(rises)
    return rise


@jit
def _loss_sums(loss: Any, b: Array, p: Array, T: Array, S: Array) -> tuple[float, float]:
    """Return the sums of p f and p f*(f')."""
    p_, T_, S_, b_ = pointer(p), pointer(T), pointer(S), pointer(b)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    losses, conjugates = 0.0, 0.0
    for i in range(S.shape[0] // k):
        row_losses, row_conjugates = splat(0.0), splat(0.0)
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            value, conjugate = loss.loss_and_conjugate(load(S_, i * k + o) + load(b_, o), load(T_, i * k + o))
            weight = fresh_lanes(c, k) * tile_weights(p_, i, o, k, is_by_entry)
            row_losses = row_losses + weight * value
            row_conjugates = row_conjugates + weight * conjugate
        losses += total(row_losses)
        conjugates += total(row_conjugates)
    return losses, conjugates
