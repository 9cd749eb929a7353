"""The softmax block: the probabilities of one sample, with their entropy as the conjugate of the loss.

    minimise over q in the simplex:   sum_c q_c log q_c - <q, s> + Q/2 |q - old|^2                maths: softmax, eq. 32
    s = W'x_i + b,   Q = C |x_i|^2,   alpha_i = C (e_y - q)
    optimality, with t = log q:       t_c + Q exp(t_c) = s_c + Q old_c + mu,    mu such that sum q = 1

The row kept for a sample is t, so that small probabilities have all their digits. Newton's method in (t, mu):

    r_c = s_c + Q (old_c - q_c) - t_c,   h_c = 1 / (1 + Q q_c),   mu = -sum h q r / sum h q,   t_c += h_c (r_c + mu)

with t <= 0, and q brought back to its sum after every step. Where Q is small the first step gives the softmax of s;
where Q is large t falls by about one a step until Q q is about one, so that a start too high does no harm.

Two classes have one variable, the probability of the second; t is its logit:

    t + Q / (1 + exp(-t)) = u = s + Q old,    the left side grows with t: Newton's method within the bracket [u - Q, u]

The gap of the row before the step is C (log sum exp(s) + sum old log old - <old, s>), by Fenchel and Young. C is in
units of the ridge. The label matters only as the place where ``descend`` has subtracted one from the scores.
"""

from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct, inline
from softmargin.backends.lanes import WIDTH, exp, largest, load, log1p_exp, maximum, splat, store, total, where_greater

__all__ = ["SURE", "LogisticBlock", "SoftmaxBlock", "move_logit", "solve_logit"]

SURE = -800.0  # the log-probability of a class that has none: its exponential is zero
MAX_STEPS = 100  # from the highest start, Q = 1e8 needs about 25; NaN would never end


@inline
def _newton(u: Any, Q: float, mass: float, tiles: Any, m: int, t: Any, p: Any, h: Any, accuracy: float) -> None:
    """Solve t + Q exp(t) = u + mu with sum exp(t) = mass; from t and p = exp(t), in place."""
    zero, one, stiff = splat(0.0), splat(1.0), splat(Q)
    for _ in range(MAX_STEPS):
        weight, pull = zero, zero
        for j in range(m):
            o = tiles[j]
            for c in range(o, o + WIDTH):
                h[c] = 1.0 / (1.0 + Q * p[c])
            p_tile = load(p, o)
            hp = load(h, o) * p_tile
            weight = weight + hp
            pull = pull + hp * (load(u, o) - stiff * p_tile - load(t, o))
        mu = splat(-total(pull) / total(weight))
        sums, error = zero, zero
        for j in range(m):
            o = tiles[j]
            t_tile, p_tile, h_tile = load(t, o), load(p, o), load(h, o)
            dt = h_tile * (load(u, o) - stiff * p_tile - t_tile + mu)
            t_tile = t_tile + dt
            t_tile = where_greater(t_tile, zero, zero, t_tile)
            p_new = exp(t_tile)
            store(t, o, t_tile)
            store(p, o, p_new)
            sums = sums + p_new
            # What the equations have of second order in dt, as a share of dt: in t, Q q h dt; in the sum, q dt.
            second = dt * maximum(p_tile, p_new) * (one + stiff * h_tile)
            error = maximum(error, maximum(second, zero - second))
        scale = mass / total(sums)
        shift, times = splat(np.log(scale)), splat(scale)
        for j in range(m):
            o = tiles[j]
            store(t, o, load(t, o) + shift)
            store(p, o, load(p, o) * times)
        if largest(error) <= accuracy:
            return


@compiled_struct("block_step")
class SoftmaxBlock(NamedTuple):
    """Newton's method in the log-probabilities."""

    accuracy: float = 0.1  # Newton ends where what it neglects is at most this share of its step
    still: float = 0.01  # a tile stays as it is where it would move by at most this share of the largest move

    def block_step(
        self, G: Any, y: int, q: float, C: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
    ) -> tuple[float, int, int]:
        """Minimise; see ``softmargin.blocks`` for the arguments.

        Only on the given tiles: classes outside them keep their probabilities.
        """
        zero = splat(0.0)
        t, p, moves = work.step, work.bound, work.scratch
        Q = C * q
        stiff = splat(Q)
        G[y] += 1.0
        top = splat(-np.inf)
        for j in range(m):
            top = maximum(top, load(G, tiles[j]))
        top = splat(largest(top))
        sums, olds, energy = zero, zero, zero
        for j in range(m):
            o = tiles[j]
            t_tile = load(alpha, first + o)
            s = load(G, o) - top
            old = exp(t_tile)
            sums = sums + exp(s)
            olds = olds + old
            energy = energy + old * (t_tile - s)
            store(t, o, t_tile)
            store(p, o, old)
            store(G, o, s + stiff * old)
        mass = total(olds)
        if not mass > 0.0:
            return 0.0, 0, 0
        gap = C * (mass * np.log(total(sums) / mass) + total(energy))
        _newton(G, Q, mass, tiles, m, t, p, work.scratch, self.accuracy)

        furthest, likely = zero, zero
        for j in range(m):
            o = tiles[j]
            p_tile = load(p, o)
            move = p_tile - exp(load(alpha, first + o))
            store(moves, o, move)
            furthest = maximum(furthest, maximum(move, zero - move))
            likely = maximum(likely, p_tile)
        if largest(furthest) == 0.0:
            return max(gap, 0.0), 0, 0
        least, highest = self.still * largest(furthest), largest(likely)
        n_changed = 0
        sums, olds = zero, zero
        for j in range(m):
            o = tiles[j]
            move = load(moves, o)
            p_tile = load(p, o)
            if largest(maximum(move, zero - move)) > least or largest(p_tile) == highest:
                work.changed[n_changed] = o
                work.kept[n_changed] = o
                n_changed += 1
                sums = sums + p_tile
                olds = olds + (p_tile - move)
        # The tiles that move share what they had before, so that the row still sums to one. The likeliest class is
        # always among them: what the others had may be nothing at all.
        scale = total(olds) / total(sums)
        shift, times, price = splat(np.log(scale)), splat(scale), splat(C)
        for j in range(n_changed):
            o = work.changed[j]
            p_tile = load(p, o)
            store(alpha, first + o, load(t, o) + shift)
            store(work.step, o, price * (p_tile - load(moves, o) - p_tile * times))
        return max(gap, 0.0), n_changed, n_changed


@inline
def _share(t: float) -> float:
    """Return the probability of a logit."""
    e: float = np.exp(-abs(t))
    return (1.0 if t > 0.0 else e) / (1.0 + e)


@inline
def solve_logit(u: float, Q: float, start: float, accuracy: float) -> tuple[float, float]:
    """Return the t of t + Q p = u, and its probability p = 1 / (1 + exp(-t)), the last step to first order.

    A step that is more than half as long as the one before gives way to bisection: Newton's may go back and forth.
    """
    low, high = u - Q, u
    t = min(max(start, low), high)
    p, last = 0.0, np.inf
    for _ in range(MAX_STEPS):
        p = _share(t)
        bend = p * (1.0 - p)
        r = u - t - Q * p
        if r > 0.0:
            low = t
        else:
            high = t
        move = r / (1.0 + Q * bend)
        if not (low <= t + move <= high and abs(move) <= 0.5 * last):
            move = 0.5 * (low + high) - t
        t += move
        last = abs(move)
        p += bend * move
        if last <= accuracy * max(abs(t), 1.0):
            break
    return t, min(max(p, 0.0), 1.0)


@inline
def move_logit(u: float, Q: float, t: float, p: float, longest: float) -> tuple[float, float, bool]:
    """Return t and p after a step of Halley's method from a logit whose share is known, and whether that is enough.

    A step of at most ``longest`` needs no exponential: p follows t to third order.
    """
    bend, tilt, rest = p * (1.0 - p), 0.5 - p, u - t - Q * p
    slope = 1.0 + Q * bend
    square = slope * slope
    move = rest * slope / max(square + rest * Q * bend * tilt, 0.5 * square)  # at most twice Newton's
    p += bend * move * (1.0 + move * (tilt + move * (1.0 / 6.0 - bend)))
    return t + move, min(max(p, 0.0), 1.0), abs(move) <= longest


@compiled_struct("block_step")
class LogisticBlock(NamedTuple):
    """Newton's method in the logit of the second of two classes."""

    accuracy: float = 1e-6  # Newton ends after a step of at most this size, relatively

    def block_step(
        self, G: Any, y: int, q: float, C: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
    ) -> tuple[float, int, int]:
        """Minimise; see ``softmargin.blocks`` for the arguments."""
        s = G[0] + 1.0 if y == 0 else G[0]
        Q = C * q
        t = alpha[first]
        old = _share(t)
        gap = C * (log1p_exp(s) - log1p_exp(t) - old * (s - t))
        t, _ = solve_logit(s + Q * old, Q, t, self.accuracy)
        alpha[first] = t
        work.step[0] = C * (old - _share(t))
        work.changed[0] = 0
        work.kept[0] = 0
        return max(gap, 0.0), 1, 1
