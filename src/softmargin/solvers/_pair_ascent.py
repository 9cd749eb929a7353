"""Compiled passes of streams: exact steps of two classes, one variable a row, and the mean of the weights.

    w += sign_i price_i (new - old share_i) x_i                 share in [0, 1], sign = +1 for the second class

    hinge      share = clip(old + (1 - sign s) / (2 Q), 0, 1),         Q = price |x|^2,     s = 2 <w, x>: of two columns
    logistic   share = p(t),  t + Q p(t) = Q old - sign s,             p(t) = 1 / (1 + exp(-t)),     s = <w, x>

t is the logit of the share (``blocks.softmax``). The second visit begins where the first has left the row, where both
are known: most of its steps are short, and need no exponential. Rows of the logistic loss that have moved their own
score, by Q share, hardly at all are left out of the next pass.
"""

from typing import Any

from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import pointer, pointer_to
from softmargin.backends.loops import shuffle
from softmargin.blocks.softmax import move_logit, solve_logit

__all__ = ["approach", "ascend_pairs"]

Array = NDArray[Any]


@jit
def approach(mean: Array, weights: Array, scale: float, share: float, out: Array) -> None:
    """Move a mean, (d, k), towards weights of at least as many columns, whose last row counts ``scale`` times."""
    (d, k), width = mean.shape, weights.shape[1]
    mean_, weights_, out_ = pointer_to(mean, 0), pointer_to(weights, 0), pointer_to(out, 0)
    for j in range(d):
        part = share * scale if j == d - 1 else share
        for c in range(k):
            out_[j * k + c] = (1.0 - share) * mean_[j * k + c] + part * weights_[j * width + c]


@inline
def _enter(mean: Any, w: Any, d: int, power: int, n_visits: int, since: int) -> int:
    """Let w enter the mean after some visits; return the number of all."""
    n_visits += since
    part = (power + 1.0) * since / (n_visits + power * since)
    for j in range(d + 1):
        mean[j] += part * (w[j] - mean[j])
    return n_visits


@inline
def _moved(order: Any, n: int, prices: Any, squares: Any, shares: Any, least: float) -> int:
    """Keep the rows that have moved their own score by more than ``least``, in place; return how many."""
    m = 0
    for t in range(n):
        i = order[t]
        if prices[i] * squares[i] * shares[i] > least:
            order[m] = i
            m += 1
    return m


@jit
def ascend_pairs(
    rows: Any,
    y: Array,
    prices: Array,
    squares: Array,
    is_logistic: bool,
    shares: Array,
    logits: Array,
    weights: Array,
    mean: Array,
    order: Array,
    random: Array,
    settings: tuple[int, int, int, float, float, float],
    n_visits: int,
    alarm: Array,
) -> int:
    """Pass over the rows of ``order``, in place; return the number of visits of the stream.

    ``squares`` becomes |[x_i, bias]|^2 at the first visits. ``settings`` are the passes, the visits after which the
    weights enter the mean, the power of their weight, the length of a last step of Newton's method, that of a
    step from a known share, and the Q share that asks for another visit.
    """
    bare, y_, prices_, squares_ = rows.bare(), pointer(y), pointer(prices), pointer(squares)
    shares_, logits_, w_, mean_ = pointer(shares), pointer(logits), pointer(weights), pointer(mean)
    order_, alarm_ = pointer(order), pointer(alarm)
    n, d = order.shape[0], rows.d
    passes, every, power, accuracy, longest, again = settings
    since = 0
    for turn in range(passes):
        shuffle(order_, n, random)
        for t in range(n):
            if alarm_[0] != 0:
                return n_visits
            i = order_[t]
            sign = 1.0 if y_[i] == 1 else -1.0
            if turn == 0:
                squares_[i] = bare.sqnorm(i)
            score, old, Q = bare.dot(i, w_), shares_[i], prices_[i] * squares_[i]
            if is_logistic:
                target = Q * old - sign * score
                # Newton's step from t = 0, where p is known; later the share is, and a short step is enough.
                start, is_found = (target - 0.5 * Q) / (1.0 + 0.25 * Q) if target > 0.0 else target, False
                if turn > 0:
                    start, new, is_found = move_logit(target, Q, logits_[i], old, longest)
                if not is_found:
                    start, new = solve_logit(target, Q, start, accuracy)
                logits_[i] = start
            else:  # a row x = 0 has Q = 0 and gets all of its price
                new = min(max(old + (1.0 - 2.0 * sign * score) / (2.0 * Q), 0.0), 1.0)
            if new != old:
                shares_[i] = new
                bare.push(i, sign * prices_[i] * (new - old), w_)
            since += 1
            if since == every:
                n_visits = _enter(mean_, w_, d, power, n_visits, since)
                since = 0
        if is_logistic:
            n = _moved(order_, n, prices_, squares_, shares_, again)
    if since > 0:
        n_visits = _enter(mean_, w_, d, power, n_visits, since)
    return n_visits
