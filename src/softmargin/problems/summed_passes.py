"""What one block of rows adds to a loss of linear scores: every pass over data that lie in blocks.

    s_i = W' [x_i, constant] ,      W (d + 1, k)

Every function here is pure: of a block and of arrays of the size of the weights. It returns sums over the rows of the
block, in float64, a tuple whose fields add up over the blocks. So a block may lie anywhere, and may be computed again.
"""

from typing import NamedTuple

import numpy as np

from softmargin.core.pieces import Array
from softmargin.core.rounding import Rounded, norms
from softmargin.losses.smoothed import bent, has_star, is_smooth
from softmargin.problems.block_rows import Block, Curved, Form, Rows
from softmargin.problems.linear_losses import BallPoint, LinearLosses, PullSums

__all__ = [
    "Balance",
    "Curvature",
    "Scored",
    "along",
    "balance",
    "block_digest",
    "class_mass",
    "curvature",
    "hessian_times",
    "metric",
    "pull",
    "scored",
    "squares",
    "thinned",
]

_OPERATIONS = 12  # roundings of a score beside its product, as problems.penalized counts them


class Scored(NamedTuple):
    """The losses of a point up to first order."""

    values: Array  # (4,) sums of p f_w, p f, p <u, s> and p H(u): f_w is f with rounded corners, u its slopes
    gradient: Array  # (d + 1, k) of the first
    drift: Array  # (d + 1, k) its derivative by the width; no rows where the loss is smooth


def scored(block: Block, form: Form, W: Array, width: float) -> Scored:
    """Return the losses and their gradient."""
    sums = _nothing(form, W)
    for rows in block.pieces(form, numbers=W.size):
        sums = _with_rows(sums, rows, form, rows.times(W, form.constant), width)[0]
    return sums


def _nothing(form: Form, W: Array) -> Scored:
    return Scored(np.zeros(4), np.zeros(W.shape), np.zeros((0 if is_smooth(form.loss) else len(W), W.shape[1])))


def _with_rows(sums: Scored, rows: Rows, form: Form, scores: Array, width: float) -> tuple[Scored, Array]:
    """Return the sums with some rows more, and the bends of these times p."""
    values, U, bends, entropies, drifts = rows.bent(form.loss, width, scores)
    p = rows.weights
    V = p[:, None] * U
    soft = rows.dot(p, values)
    own, drift = [soft, soft, rows.dot(V, scores), 0.0], sums.drift
    if drifts is not None:
        own[1], own[3] = rows.dot(p, rows.values(form.loss, scores)), rows.dot(p, entropies)
        drift = drift + rows.adjoint(p[:, None] * drifts, form.constant)
    return Scored(sums.values + own, sums.gradient + rows.adjoint(V, form.constant), drift), p[:, None] * bends


class Curvature(NamedTuple):
    """The losses of a point up to second order."""

    values: Array
    gradient: Array
    drift: Array
    hessian: (
        Array  # (k, d + 1, d + 1) one per column; of a joint loss (D, D), D = (d + 1) k; of some entries of W (m, m)
    )


def curvature(block: Block, form: Form, W: Array, width: float, entries: Array | None = None) -> Curvature:
    """Return the losses, their gradient and their Hessian, or its part for some entries of W."""
    if entries is not None:
        return _curvature_of(block, form, W, width, entries)
    (d, k), loss, sums = W.shape, form.loss, _nothing(form, W)
    H = np.zeros((d, k, d, k) if loss.is_joint else (k, d, d))
    for rows in block.pieces(form, d * k if loss.is_joint else d, H.size):
        sums, bends = _with_rows(sums, rows, form, rows.times(W, form.constant), width)
        curved = rows.curved(bends, form.constant)
        if not loss.is_joint:
            for c in range(k):
                H[c] += curved.gram(c)
        elif has_star(loss):
            _add_stars(curved, H)
        else:
            for c in range(k):
                H[:, c, :, c] += curved.gram(c)
            H -= curved.shared().reshape(H.shape)
    return Curvature(*sums, H.reshape(d * k, d * k) if loss.is_joint else H)


def _curvature_of(block: Block, form: Form, W: Array, width: float, entries: Array) -> Curvature:
    """Return the same for entries, those of the constant last; the loss is smooth."""
    k, m, sums = form.n_columns, len(entries), _nothing(form, W)
    (features, columns), H = np.divmod(entries, k), np.zeros((m, m))
    for rows in block.pieces(form, m, H.size):
        sums, bends = _with_rows(sums, rows, form, rows.times(W, form.constant), width)
        for c in range(k):
            mine = np.flatnonzero(columns == c)
            H[np.ix_(mine, mine)] += rows.curved(bends, form.constant, features[mine]).gram(c)
        if form.loss.is_joint:
            H -= rows.shared(bends, form.constant, features, columns)
    return Curvature(*sums, H)


def _add_stars(curved: Curved, H: Array) -> None:
    """Add sum_i a_i a_i' (x) sum_c b_c (e_c - e_y)(e_c - e_y)' to H, (d, k, d, k): the rows of one label share E."""
    for label in np.unique(curved.labels):
        for c in range(H.shape[1]):
            if c != label:
                G = curved.gram(c, label)
                H[:, c, :, c] += G
                H[:, label, :, label] += G
                H[:, c, :, label] -= G
                H[:, label, :, c] -= G


def hessian_times(block: Block, form: Form, W: Array, V: Array, width: float) -> tuple[Array]:
    """Return the Hessian at W times V."""
    out = np.zeros(V.shape)
    for rows, bends in block.bent_pieces(form, W, width):
        T = rows.curvature_times(form.loss, bends, rows.times(V, form.constant))
        out += rows.adjoint(rows.weights[:, None] * T, form.constant)
    return (out,)


def metric(block: Block, form: Form, W: Array, width: float, n_grams: int, spare: float) -> tuple[Array]:
    """Return the parts of the Hessian on its diagonal, one for every column; or their mean, or its diagonal alone.

    Rows that would add a matrix with a trace of ``spare`` or less are left out.
    """
    d, k = W.shape
    out = np.zeros((n_grams, d, d) if n_grams else (d, k))
    for rows in block.pieces(form, numbers=out.size):
        bends, p = rows.bent(form.loss, width, rows.times(W, form.constant)).bends, rows.weights[:, None]
        if n_grams:
            diagonal = (rows.mean_curvature if n_grams == 1 else rows.curvature_diagonal)(form.loss, bends)
            curved = rows.curved(p * diagonal, form.constant).without(spare)
            for c in range(n_grams):
                out[c] += curved.gram(c)
        else:
            out += rows.square_sums(p * rows.curvature_diagonal(form.loss, bends), form.constant)
    return (out,)


def squares(block: Block, form: Form) -> tuple[Array]:
    """Return the sums of p x_j^2, the constant feature included; (d + 1,)."""
    out = np.zeros(block.X.shape[1] + 1)
    for rows in block.pieces(form):
        out += rows.square_sums(rows.weights[:, None], form.constant)[:, 0]
    return (out,)


def along(block: Block, form: Form, W: Array, D: Array, lengths: Array, width: float) -> tuple[Array]:
    """Return the losses, with rounded corners, at W + t D for several lengths t."""
    out = np.zeros(len(lengths))
    for rows in block.pieces(form):
        scores, moves = rows.times(W, form.constant), rows.times(D, form.constant)
        for m, t in enumerate(lengths):
            out[m] += rows.dot(rows.weights, rows.bent(form.loss, width, scores + float(t) * moves).values)
    return (out,)


def class_mass(block: Block, form: Form) -> tuple[Array]:
    """Return the sum of the prices of every class; (k,)."""
    return (np.bincount(np.asarray(block.y), weights=block.weights, minlength=form.n_columns),)


class Balance(NamedTuple):
    """What a certificate asks of the losses of a point: their sum, and how far the slopes are from balance."""

    losses: Rounded
    sums: Array  # (2, k) as LinearLosses.balance_sums has them
    bends: Array  # (k, k) second derivatives by the intercepts


def _slopes(form: Form, W: Array, width: float, mine: LinearLosses) -> tuple[Array, Array, Array]:
    """Return scores without the intercept, dual variables, and bends."""
    scores = mine.scores(np.ascontiguousarray(form.penalised(W)))
    intercept = W[-1] * form.constant if form.is_free else 0.0
    _, U, bends, *_ = bent(form.loss, width, scores + intercept, mine.target)
    return scores, U, bends


def balance(block: Block, form: Form, W: Array, width: float, mass: Array, excess: float) -> Balance:
    """Return the losses at W, outside its set by a share, with their errors, and the balance of the slopes there."""
    k = form.n_columns
    found = Balance(Rounded(0.0), np.zeros((2, k)), np.zeros((k, k)))
    weights = np.ascontiguousarray(form.penalised(W))
    point = BallPoint(weights, W[-1] * form.constant if form.is_free else np.zeros(k))
    sizes = np.where(weights.any(axis=0), norms(weights, axis=0), 0.0)
    for rows in block.pieces(form):
        mine = rows.problem(form)
        scores, U, bends = _slopes(form, W, width, mine)
        # Of a joint loss only the multinomial one has a free intercept; one of hinges is not improved.
        second = np.diag(mine.weights @ bends)
        if form.loss.is_joint and is_smooth(form.loss):
            second -= (mine.weights[:, None] * bends).T @ bends
        losses = mine.losses_at(point, scores, sizes, _OPERATIONS, excess)
        found = Balance(found.losses + losses, found.sums + mine.balance_sums(U, mass), found.bends + second)
    return found


def pull(block: Block, form: Form, W: Array, width: float, sums: Array, scale: float) -> PullSums:
    """Return what a share of the slopes at W, balanced by the sums of all rows, does to the weights, and costs."""
    d, k = form.penalised(W).shape
    joint = k if form.loss.is_joint else 1
    costs = 1 if form.loss.is_joint else k
    nothing = (np.zeros(shape) for shape in ((d, k), (3, k), (3, costs), (2, joint), 2))
    found = PullSums(*nothing)
    for rows in block.pieces(form):
        mine = rows.problem(form)
        U = _slopes(form, W, width, mine)[1]
        U = mine.balanced_by(U, sums) if form.is_free else U
        found = PullSums(*(a + b for a, b in zip(found, mine.pull_sums(scale * U), strict=True)))
    return found


def thinned(block: Block, every: int) -> Block:
    """Return one in so many rows, at regular distances, each at the price of all of them; none of rows on a device."""
    X, y, weights = block[:3]
    if not isinstance(block, Block):
        return Block(np.empty((0, X.shape[1])), y[:0], weights[:0])
    rows = every // 2 + every * np.arange(len(y) // every)
    return Block(X[rows], y[rows], every * weights[rows])


def block_digest(block: Block) -> str:
    """Return a hash of the rows."""
    return block.digest()
