"""The multinomial logistic loss, and what duality says about it.

    l_i(s) = log sum_c exp(s_c) - s_y          its gradient: p - e_y,  p = softmax(s)
    l_i*(q - e_y) = sum_c q_c log q_c          for q in the simplex, else infinite                 maths: softmax, eq. 4

A free intercept asks of a dual point that sum_i C_i (q_i - e_{y_i}) = 0: every class keeps its mass. ``balanced``
makes any dual point satisfy it, up to rounding.

A row of the simplex is known by its entries off the label: the label's own is 1 less their sum, in real arithmetic,
and their digits stay where it is almost 1. Errors: maths: rounding, section 5.

Everything here is NumPy on whole blocks of rows, for the certificate; solvers have compiled loops of their own and use
only the step of the intercept.
"""

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.protocols import Array
from softmargin.core.rounding import ULPS, gamma
from softmargin.losses.labels import at_labels

__all__ = [
    "balanced",
    "best_intercept",
    "cross_entropy",
    "entropy",
    "excess_mass",
    "intercept_step",
    "loss_errors",
    "losses_and_softmax",
    "mixed",
    "off_label",
    "one_hot",
    "softmax",
    "without_absent",
]

MAX_STEPS = 100
MAX_HALVINGS = 40
SAFE_STEP = 1.0  # where no two scores move apart by more, the curvature changes too little for a Newton step to fail
MANY = 500  # classes from which on conjugate gradients find the step: they need no k x k matrix; by timings
MAX_PRODUCTS = 100  # of conjugate gradients
EXACT = 1e-10  # share to which they bring the residual
ROUNDING = 1e-13  # rounding of the computed curvature, as a share of the masses
LAST_FALL = 1e-12  # relative decrease of the losses below which a Newton step is the last: rounding hides the next
LAST_STEP = 0.1  # where no two scores move apart by more, a step is the last, too: the next is about its square
TINY = np.finfo(np.float64).tiny


def softmax(scores: Array) -> Array:
    """Return the probabilities of every row; shape (n, k)."""
    P: Array = scores - scores.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    return P


def losses_and_softmax(scores: Array, y: Array) -> tuple[Array, Array]:
    """Return l_i and the probabilities; shapes (n,) and (n, k)."""
    top = scores.max(axis=1)
    P = scores - top[:, None]
    flat, labels = at_labels(P, y)
    below = flat[labels]  # the largest score less the label's is minus this
    np.exp(P, out=P)
    own = flat[labels]
    flat[labels] = 0.0
    rest = P.sum(axis=1)
    # Where the label leads, own = 1 and the loss may be far below one: log(1 + rest) keeps its digits.
    losses = np.log1p(rest + (own - 1.0)) - below
    flat[labels] = own
    P /= (rest + own)[:, None]
    return losses, P


def cross_entropy(scores: Array, y: Array) -> Array:
    """Return l_i; shape (n,)."""
    return losses_and_softmax(scores, y)[0]


def loss_errors(losses: Array, apart: Array, k: int) -> Array:
    """Bound the errors of l_i where no two scores of a row are further from their exact difference than ``apart``.

    l = log(1 + R), and R changes by the factor exp(apart) at most: l by apart, and by the share expm1(apart).
    """
    change = apart * np.where(apart <= 1.0, np.minimum(2.0 * losses, 1.0), 1.0)
    # R has k + 2 ULPS + 2 roundings. Where the label leads, l has as many; else l >= log 2, and log(1 + R) thrice as
    # many. The exponentials of the rest may underflow.
    return np.asarray(change + gamma(3 * k + 12 * ULPS) * losses + 2 * k * TINY)


def off_label(P: Array, y: Array) -> tuple[Array, Array]:
    """Return the probabilities with zeros at the labels, and their sums over rows; shapes (n, k) and (n,)."""
    off = P.copy(order="F")
    flat, labels = at_labels(off, y)
    flat[labels] = 0.0
    return off, off.sum(axis=1)


def entropy(off: Array, rest: Array) -> tuple[Array, Array]:
    """Return -sum_c q_c log q_c of every row, given its entries off the label and their sum below 1, and its error.

    The entries may have two roundings each; shapes (n,).
    """
    logs = np.maximum(off, TINY)  # 0 log 0 = 0; where this replaces an entry, the entropy is only lowered
    np.log(logs, out=logs)
    depth = -np.log1p(-rest)
    values = (1.0 - rest) * depth - np.einsum("ic,ic->i", off, logs)
    # An entry with relative error e changes q log q by e q (1 + |log q|). The label's has the error e rest, which
    # changes it by e rest (1 + depth) at most, also next to zero.
    share = gamma(off.shape[1] + 4 * ULPS + 8)
    return values, share * (values + rest * (2.0 + depth))


def one_hot(y: Array, k: int) -> Array:
    """Return the rows e_y; shape (n, k)."""
    Y = np.zeros((len(y), k))
    Y[np.arange(len(y)), y] = 1.0
    return Y


def intercept_step(P: Array, C: Array, mass: Array) -> tuple[Array, float]:
    """Return the Newton step of the intercept at probabilities P, and twice the decrease of the losses it predicts.

    Directions without curvature, such as the constant one, are skipped. ``mass`` is sum_i C_i e_{y_i} by columns.
    """
    expected = C @ P
    if len(mass) >= MANY:
        return _step_by_products(P, C, expected, mass)
    values, vectors = np.linalg.eigh(np.diag(expected) - (P * C[:, None]).T @ P)
    vectors = vectors[:, values > ROUNDING * expected.max(initial=0.0)]
    slopes = vectors.T @ (expected - mass)
    steps = slopes / values[-len(slopes) :] if len(slopes) else slopes
    return -vectors @ steps, float(slopes @ steps)


def _step_by_products(P: Array, C: Array, expected: Array, mass: Array) -> tuple[Array, float]:
    """Return the same by conjugate gradients with the diagonal of the curvature: O(n k) a product."""
    diagonal = np.maximum(expected - np.einsum("ic,ic,i->c", P, P, C), ROUNDING * expected.max(initial=0.0))
    diagonal[diagonal == 0.0] = 1.0
    step, residual = np.zeros_like(expected), mass - expected
    slope = residual.copy()
    ahead = residual / diagonal
    direction, size = ahead.copy(), float(residual @ ahead)
    target = EXACT**2 * size
    for _ in range(MAX_PRODUCTS):
        if not size > target or is_time_up():
            break
        image = expected * direction - (C * (P @ direction)) @ P
        bend = float(direction @ image)
        if not bend > ROUNDING * float(expected @ direction**2):
            break
        step += size / bend * direction
        residual -= size / bend * image
        ahead = residual / diagonal
        size, last = float(residual @ ahead), size
        direction *= size / last
        direction += ahead
    return step, float(slope @ step)


def best_intercept(scores: Array, y: Array, C: Array, P: Array, loss: float) -> tuple[Array, Array]:
    """Return the b that minimises sum_i C_i l_i(s_i + b), by Newton's method, and the probabilities there.

    P and ``loss`` are those at b = 0. b is (k,), with mean zero. The best intercept of a class without mass is
    -infinity; it is left unchanged. At a deadline it ends with what it has.
    """
    mass = np.bincount(y, weights=C, minlength=P.shape[1])
    is_present = mass > 0.0
    columns = slice(None) if is_present.all() else is_present
    intercept, step = np.zeros(len(mass)), np.zeros(len(mass))
    for _ in range(MAX_STEPS):
        step[columns], fall = intercept_step(P[:, columns], C, mass[columns])
        if is_time_up():
            break
        size, length, new = float(np.ptp(step)), 1.0, loss
        if size > SAFE_STEP:
            length, new = _shortened(scores + intercept, step, y, C, loss)
        intercept += length * step
        if size <= SAFE_STEP:  # no exponential overflows, and k of them do
            P = P * np.exp(step)
            P /= P.sum(axis=1, keepdims=True)
        else:
            P = softmax(scores + intercept)
        if length == 0.0 or size <= LAST_STEP or fall <= LAST_FALL * loss:
            break
        loss = new
    return intercept - intercept.mean(), P


def _shortened(scores: Array, step: Array, y: Array, C: Array, loss: float) -> tuple[float, float]:
    """Return the longest of 1, 1/2, 1/4, ... of the step that does not raise the losses, or 0; and the losses there."""
    for length in (0.5**halvings for halvings in range(MAX_HALVINGS)):
        new = float(C @ cross_entropy(scores + length * step, y))
        if new <= loss:
            return length, new
    return 0.0, loss


def balanced(off: Array, y: Array, C: Array) -> Array:
    """Return entries off the label near these that give every class its own mass: sum_i C_i (q_i - e_{y_i}) = 0.

    q = (1 - share) q + share tau, with one tau in the simplex for all rows and the least share for which tau is not
    negative. A class without mass gets nothing. It holds of the dual rows of joint hinges, too, which are u = q - e_y.
    """
    mass = np.bincount(y, weights=C, minlength=off.shape[1])
    off = without_absent(off, mass)
    return mixed(off, y, excess_mass(off, y, C), mass)


def without_absent(off: Array, mass: Array) -> Array:
    """Return entries off the label without those of classes that have no mass."""
    is_present = mass > 0.0
    return off if is_present.all() else np.where(is_present, off, 0.0)


def excess_mass(off: Array, y: Array, C: Array) -> Array:
    """Return how much more mass than its own every class has: a sum over rows; (k,)."""
    # Off the labels digits stay where all of q is almost right: C @ q - mass would lose them.
    return np.asarray(C @ off - np.bincount(y, weights=C * off.sum(axis=1), minlength=off.shape[1]))


def mixed(off: Array, y: Array, excess: Array, mass: Array) -> Array:
    """Return the rows that ``balanced`` makes of some, given the excess and the mass of all rows together."""
    is_present = mass > 0.0
    if not is_present.any():
        return off
    over = np.maximum(excess, 0.0)[is_present]
    share = float((over / (mass[is_present] + over)).max())
    off = (1.0 - share) * off
    off += np.maximum(share * mass - (1.0 - share) * excess, 0.0) / mass.sum()
    flat, labels = at_labels(off, y)
    flat[labels] = 0.0
    return off
