"""Compiled passes of streams: exact steps of two classes, one variable a row, and the mean of the weights.

    w += sign_i price_i (new - old share_i) x_i                 share in [0, 1], sign = +1 for the second class

    hinge      share = clip(old + (1 - sign s) / (2 Q), 0, 1),         Q = price |x|^2,     s = 2 <w, x>: of two columns
    logistic   share = p(t),  t + Q p(t) = Q old - sign s,             p(t) = 1 / (1 + exp(-t)),     s = <w, x>

t is the logit of the share (``blocks.softmax``). Newton's method for it begins where the row was last left.
"""

from typing import Any

from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer, pointer_to
from softmargin.backends.loops import shuffle
from softmargin.blocks.softmax import solve_logit

__all__ = ["approach", "ascend_pairs"]

Array = NDArray[Any]


@jit
def approach(mean: Array, weights: Array, share: float) -> None:
    """Move a mean, (d, k), towards weights of at least as many columns."""
    d, k = mean.shape
    mean_, weights_, width = pointer_to(mean, 0), pointer_to(weights, 0), weights.shape[1]
    for j in range(d):
        for c in range(k):
            mean_[j * k + c] += share * (weights_[j * width + c] - mean_[j * k + c])


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
    settings: tuple[int, int, int, float],
    n_visits: int,
    alarm: Array,
) -> int:
    """Pass over the rows of ``order``, in place; return the number of visits of the stream.

    ``settings`` are the passes, the visits after which the weights enter the mean, the power of their weight, and the
    length of a last step of Newton's method.
    """
    bare, y_, prices_, squares_ = rows.bare(), pointer(y), pointer(prices), pointer(squares)
    shares_, logits_, w_, mean_ = pointer(shares), pointer(logits), pointer(weights), pointer(mean)
    order_, alarm_ = pointer(order), pointer(alarm)
    n, d = order.shape[0], rows.d
    passes, every, power, accuracy = settings
    since = 0
    for turn in range(passes):
        shuffle(order_, n, random)
        for t in range(n):
            if alarm_[0] != 0:
                return n_visits
            i = order_[t]
            sign = 1.0 if y_[i] == 1 else -1.0
            begin, end = bare.entries(i)
            score = bare.bias * w_[d]
            for p in range(begin, end):
                score += bare.value(p) * w_[bare.column(i, p)]
            old, Q = shares_[i], prices_[i] * squares_[i]
            if is_logistic:
                target = Q * old - sign * score
                start = logits_[i]
                if old == 0.0:  # Newton's step from t = 0, where p is known
                    start = (target - 0.5 * Q) / (1.0 + 0.25 * Q) if target > 0.0 else target
                logits_[i], new = solve_logit(target, Q, start, accuracy)
            else:  # a row x = 0 has Q = 0 and gets all of its price
                new = min(max(old + (1.0 - 2.0 * sign * score) / (2.0 * Q), 0.0), 1.0)
            if new != old:
                shares_[i] = new
                step = sign * prices_[i] * (new - old)
                for p in range(begin, end):
                    w_[bare.column(i, p)] += step * bare.value(p)
                w_[d] += step * bare.bias
            since += 1
            if since == every or (t == n - 1 and turn == passes - 1):
                n_visits += since
                part = (power + 1.0) * since / (n_visits + power * since)
                for j in range(d + 1):
                    mean_[j] += part * (w_[j] - mean_[j])
                since = 0
    return n_visits
