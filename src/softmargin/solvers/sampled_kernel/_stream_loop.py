"""Pegasos with averaging on features that come a block at a time: several binary hinge problems in one pass.

    lam / 2 |w|^2 + (1/n) sum_i weight_i [1 - y_i <w, z_i>]_+ ,     one w per column of signs, W[c] here

    w     <-  (w + step weight_i y_i z_i [y_i <w, z_i> < 1]) / (1 + step lam) ,     step = 1 / (R + lam t / gain)
    mean  <-  mean + (power + 1) / (t + power) (w - mean)                           weights of the iterates like t^power

R is the mean of |weight_i z_i|^2: a step shifts the score of its row by at most about one, however small lam is.
Pegasos has gain 1; but in a stream the n of lam = 1 / (C n) grows, and w grows with it, which such short steps follow
too late. For the same reason late iterates have so large weights.
"""

from typing import Any, NamedTuple

from softmargin.backends.jit import jit


class StreamTuning(NamedTuple):
    """Lengths of the steps, and weights of the average."""

    gain: int = 4  # step = gain / (lam t) in the long run; by hand
    power: int = 3  # of t, in the weights of the average; by hand


_TUNING = StreamTuning()  # a constant of the compiled loop


@jit
def pass_over_features(
    Z: Any, signs: Any, weights: Any, W: Any, average: Any, lam: float, reach: float, t: int
) -> None:
    """Visit all rows in order, and update W and its average in place.

    Z is (n, r) and float32; signs, -1 and +1, are (n, k); weights are (n,); W and average are (k, r); reach is R; t is
    the number of rows seen before.
    """
    n, r = Z.shape
    for i in range(n):
        t += 1
        step = 1.0 / (reach + lam * t / _TUNING.gain)
        keep = 1.0 / (1.0 + step * lam)
        share = (_TUNING.power + 1.0) / (t + _TUNING.power)
        for c in range(len(W)):
            score = 0.0
            for j in range(r):
                score += W[c, j] * Z[i, j]
            push = keep * step * weights[i] * signs[i, c] if signs[i, c] * score < 1.0 else 0.0
            for j in range(r):
                W[c, j] = keep * W[c, j] + push * Z[i, j]
                average[c, j] += share * (W[c, j] - average[c, j])
