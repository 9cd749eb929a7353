"""Compiled passes of block descent on a quadratic model of the losses plus a penalty, feature by feature.

    q(D) = <G, D> + 1/2 sum_i C_i (sum_c (p_ic + damping_i) t_ic^2 - <p_i, t_i>^2) + g(W + D),     t_i = D' x_i

No exponential is computed inside. Two loops descend on the same model:

    by entries   one weight W_jc at a time, class after class; for penalties of single entries, few of which are not
                 zero. Class-major: the samples' numbers of one class stay in the fast caches. Exact minimisation.
    by rows      all classes of a feature at once, four to a vector; for penalties of whole rows, and where most entries
                 of a row are in use. The block's Hessian is bounded by a diagonal: diag(p) - p p' <= diag(2 p (1 - p)).

Both keep up to date what the model's gradient needs: entries the scores t and the mean <p_i, t_i>; rows the gradient by
the scores, R_i = C_i (p_i (t_i - <p_i, t_i>) + damping_i t_i). The last feature, ``d``, is the constant one: its
weights are the unpenalised intercept. A block that is zero and stays zero leaves the list of later passes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, keep, load, pointer, splat, store, total
from softmargin.matrices.rows import add_row_times

__all__ = [
    "BlockList",
    "ModelPoint",
    "SampleTerms",
    "entry_curvatures",
    "entry_pass",
    "row_curvatures",
    "row_pass",
    "score_blocks",
]

Array = NDArray[Any]
TINY = 1e-300  # the curvature of a feature that is zero everywhere


class SampleTerms(NamedTuple):
    """The second-order terms of the losses, sample by sample."""

    columns: Any  # of X, and the constant one
    C: Array  # (n,)
    P: Array  # (n * k,), or class-major (k * n,)
    damping: Array  # (n,)


class ModelPoint(NamedTuple):
    """Where a model stands: V = W + D, beside the gradient G of the losses at W."""

    V: Array  # ((d + 1) * k,)
    G: Array  # ((d + 1) * k,)
    k: int  # numbers in a row
    n_columns: int  # those that are not padding
    is_pinned: bool
    d: int  # the number of the constant feature


class BlockList(NamedTuple):
    """The blocks that passes visit: entries of class c are features[starts[c] : ends[c]], rows are all in one part."""

    features: Array
    curvature: Array  # one per entry, or k per row
    starts: Array  # (k,), or (1,)
    ends: Array  # (k,), or (1,)


@jit
def score_blocks(
    penalty: Any, W: Array, G: Array, lipschitz: Array, k: int, n_columns: int, width: int, scores: Array
) -> int:
    """Score blocks of ``width`` entries by L |step|^2 of a proximal gradient step; infinite where W is not zero.

    Returns the number of the latter.
    """
    W_, G_ = pointer(W), pointer(G)
    work = np.zeros(width)
    new = pointer(work)
    n_support = 0
    b = 0
    for j in range(lipschitz.shape[0]):
        t = 1.0 / max(lipschitz[j], TINY)
        for first in range(j * k, j * k + n_columns, width):
            is_zero = True
            for c in range(width):
                is_zero = is_zero and W_[first + c] == 0.0
                new[c] = W_[first + c] - t * G_[first + c]
            if is_zero:
                penalty.prox_row(new, 0, width, t)
                length = 0.0
                for c in range(width):
                    length += new[c] * new[c]
                scores[b] = length * lipschitz[j]
            else:
                scores[b] = np.inf
                n_support += 1
            b += 1
    keep(work)
    return n_support


@jit
def entry_curvatures(terms: SampleTerms, features: Array, starts: Array, ends: Array, out: Array, alarm: Array) -> None:
    """Write the model's second derivative by every entry, until the alarm; P is class-major."""
    C, damping = terms.C, terms.damping
    cols, P_ = terms.columns.bare(), pointer(terms.P)
    n = C.shape[0]
    weights = np.empty(n)
    w = pointer(weights)
    for c in range(starts.shape[0]):
        if alarm[0] != 0:
            break
        for i in range(n):
            w[i] = C[i] * (P_[c * n + i] * (1.0 - P_[c * n + i]) + damping[i])
        for e in range(starts[c], ends[c]):
            begin, end = cols.entries(features[e])
            sum_ = 0.0
            for p in range(begin, end):
                sum_ += cols.value(p) * cols.value(p) * w[cols.column(features[e], p)]
            out[e] = sum_
    keep(weights)


@jit
def entry_pass(
    penalty: Any, terms: SampleTerms, point: ModelPoint, entries: BlockList, T: Array, means: Array, alarm: Array
) -> float:
    """Minimise q over the listed entries, one after the other, until the alarm. Returns sum h step^2.

    P and T are class-major, (k * n,); ``means`` is <p_i, t_i>.
    """
    C, damping, k, d, is_pinned = terms.C, terms.damping, point.k, point.d, point.is_pinned
    features, curvature, starts, ends = entries.features, entries.curvature, entries.starts, entries.ends
    cols, V_, G_, T_ = terms.columns.bare(), pointer(point.V), pointer(point.G), pointer(T)
    P_, m = pointer(terms.P), pointer(means)
    n = C.shape[0]
    slopes, weights, entry = np.empty(n), np.empty(n), np.empty(1)
    u, w, new = pointer(slopes), pointer(weights), pointer(entry)
    change = 0.0
    for c in range(starts.shape[0]):
        if alarm[0] != 0:
            break
        base = c * n
        # u: the model's gradient by the scores of class c; w: its derivative. m: the mean without class c.
        for i in range(n):
            p, t = P_[base + i], T_[base + i]
            own = 0.0 if is_pinned else m[i] - p * t
            m[i] = own
            w[i] = C[i] * (p * (1.0 - p) + damping[i])
            u[i] = w[i] * t - C[i] * p * own
        kept = starts[c]
        for e in range(starts[c], ends[c]):
            j, h = features[e], curvature[e]
            at = j * k + c
            begin, end = cols.entries(j)
            g = G_[at] + cols.product(j, u, 1, 0)
            old = V_[at]
            new[0] = old - g / h
            if j < d:
                penalty.prox_row(new, 0, 1, 1.0 / h)
            step = new[0] - old
            if step != 0.0:
                V_[at] = new[0]
                for p in range(begin, end):
                    i = cols.column(j, p)
                    move = cols.value(p) * step
                    u[i] += w[i] * move
                    T_[base + i] += move
                change += h * step * step
            if step != 0.0 or old != 0.0:
                features[kept], curvature[kept] = j, h
                kept += 1
        ends[c] = kept
        if not is_pinned:
            for i in range(n):
                m[i] += P_[base + i] * T_[base + i]
    keep(slopes)
    keep(weights)
    keep(entry)
    return change


@jit
def row_curvatures(terms: SampleTerms, features: Array, k: int, is_pinned: bool, out: Array, alarm: Array) -> None:
    """Write a diagonal bound on the model's second derivative by every listed row, until the alarm."""
    C, damping = terms.C, terms.damping
    cols, P_, out_ = terms.columns.bare(), pointer(terms.P), pointer(out)
    one = splat(1.0)
    share = 1.0 if is_pinned else 2.0
    for f in range(features.shape[0]):
        if alarm[0] != 0:
            break
        j = features[f]
        begin, end = cols.entries(j)
        for q in range(begin, end):
            i = cols.column(j, q)
            price = C[i] * cols.value(q) * cols.value(q)
            bound, damp = splat(share * price), splat(price * damping[i])
            for o in range(0, k, WIDTH):
                p = load(P_, i * k + o)
                store(out_, f * k + o, load(out_, f * k + o) + bound * p * (one - p) + damp)


@inline
def _row_gradient(cols: Any, j: int, R: Any, G: Any, k: int, out: Any) -> None:
    """Write G_j + sum_i x_ij R_i to ``out``."""
    last = k - WIDTH
    for o0 in range(0, k, 4 * WIDTH):
        # Up to four tiles at once; a missing one repeats the last.
        o1, o2, o3 = min(o0 + WIDTH, last), min(o0 + 2 * WIDTH, last), min(o0 + 3 * WIDTH, last)
        a0, a1, a2, a3 = load(G, j * k + o0), load(G, j * k + o1), load(G, j * k + o2), load(G, j * k + o3)
        a0, a1, a2, a3 = add_row_times(cols, j, R, k, (o0, o1, o2, o3), (a0, a1, a2, a3))
        store(out, o0, a0)
        store(out, o1, a1)
        store(out, o2, a2)
        store(out, o3, a3)


@inline
def _respond(cols: Any, j: int, step: Any, C: Any, P: Any, damping: Any, k: int, is_coupled: bool, R: Any) -> None:
    """R_i += C_i (J_i + damping_i) x_ij step, with J_i = diag(p_i) - p_i p_i', or 0 where not coupled."""
    begin, end = cols.entries(j)
    for q in range(begin, end):
        i = cols.column(j, q)
        x = cols.value(q) * C[i]
        damp = splat(x * damping[i])
        if is_coupled:
            means = splat(0.0)
            for o in range(0, k, WIDTH):
                means = means + load(P, i * k + o) * load(step, o)
            mean, price = splat(total(means)), splat(x)
            for o in range(0, k, WIDTH):
                s = load(step, o)
                answer = price * load(P, i * k + o) * (s - mean) + damp * s
                store(R, i * k + o, load(R, i * k + o) + answer)
        else:
            for o in range(0, k, WIDTH):
                store(R, i * k + o, load(R, i * k + o) + damp * load(step, o))


@jit
def row_pass(
    penalty: Any,
    terms: SampleTerms,
    is_coupled: bool,
    point: ModelPoint,
    rows: BlockList,
    width: int,
    R: Array,
    alarm: Array,
) -> float:
    """Make a proximal step on every listed row, ``width`` entries to a prox, until the alarm. Returns sum h step^2."""
    k, n_columns, d = point.k, point.n_columns, point.d
    cols, V_, G_, R_ = terms.columns.bare(), pointer(point.V), pointer(point.G), pointer(R)
    P_, h, C_, damping_ = pointer(terms.P), pointer(rows.curvature), pointer(terms.C), pointer(terms.damping)
    features = rows.features
    gradient, row = np.zeros(k), np.zeros(k)
    g, step = pointer(gradient), pointer(row)
    change = 0.0
    kept = 0
    for f in range(rows.ends[0]):
        if alarm[0] != 0:
            break
        j = features[f]
        _row_gradient(cols, j, R_, G_, k, g)
        n_moved, n_used = 0, 0
        for first in range(0, n_columns, width):
            top = 0.0
            for c in range(first, first + width):
                top = max(top, h[f * k + c])
            for c in range(first, first + width):
                step[c] = V_[j * k + c] - g[c] / top
            if j < d:
                penalty.prox_row(step, first, width, 1.0 / top)
            for c in range(first, first + width):
                old, new = V_[j * k + c], step[c]
                step[c] = new - old
                V_[j * k + c] = new
                n_moved += new != old
                n_used += old != 0.0
            for c in range(first, first + width):
                change += top * step[c] * step[c]
        if n_moved > 0:
            _respond(cols, j, step, C_, P_, damping_, k, is_coupled, R_)
        if n_moved + n_used > 0:
            features[kept] = j
            for c in range(k):
                h[kept * k + c] = h[f * k + c]
            kept += 1
    rows.ends[0] = kept
    keep(gradient)
    keep(row)
    return change
