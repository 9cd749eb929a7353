"""The compiled loop of dual coordinate ascent over the l1 ball, for losses with a compiled form."""

import math
from typing import Any, NamedTuple

from softmargin.backends.jit import jit
from softmargin.backends.loops import shuffle
from softmargin.core.protocols import Array
from softmargin.sets.balls import nearest_level

__all__ = ["AscentProblem", "ascend"]


class AscentProblem(NamedTuple):
    """What stays the same during a pass."""

    loss: Any  # of losses.compiled_entries
    target: Array  # (n * k,)
    weights: Array  # (n,)
    l2: float
    radius: float
    longest: float  # a dual variable moves by at most this
    chunk: int  # samples between two updates of theta


@jit
def ascend(
    rows: Any, problem: AscentProblem, U: Array, Z: Array, theta: float, order: Array, random: Array
) -> tuple[float, float, float]:
    """Visit every sample once; return theta and the sums of all losses and all slacks, each before its update.

    The weights are W = -sign(Z) [|Z| - theta]_+ / l2 and never stored. As a dual variable moves by at most ``longest``,
    only entries of Z within reach of theta can become weights, and only those shorten the step.
    """
    bare, loss, target, l2, longest = rows.bare(), problem.loss, problem.target, problem.l2, problem.longest
    n, size = order.shape[0], l2 * problem.radius
    k = U.shape[0] // n
    losses, slacks = 0.0, 0.0
    shuffle(order, n, random)
    for a in range(n):
        i = order[a]
        begin, end = bare.entries(i)
        weight = problem.weights[i]
        for c in range(k):
            score, square = 0.0, 0.0
            for p in range(begin, end):
                z, x = Z[bare.column(i, p) * k + c], bare.value(p)
                rest = abs(z) - theta
                score -= x * math.copysign(max(rest, 0.0), z)
                square += x * x * (rest + weight * longest * abs(x) > 0.0)
            e = i * k + c
            sign, m = loss.folded(target[e])
            y, w = sign * U[e], sign * score / l2
            losses += weight * loss.loss_entry(w, m)
            slacks += weight * loss.slack_entry(w, m, y)
            new = loss.dual_entry(w, m, y, weight * square / l2)
            new = min(max(new, y - longest), y + longest)
            if new != y:
                U[e] = sign * new
                step = weight * sign * (new - y)
                for p in range(begin, end):
                    Z[bare.column(i, p) * k + c] += step * bare.value(p)
        if (a + 1) % problem.chunk == 0 or a + 1 == n:
            theta = nearest_level(Z, size, theta)
    return theta, losses, slacks
