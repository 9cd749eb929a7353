"""Pegasos with averaging on features that come a block at a time: binary hinge problems, all in one pass.

    lam / 2 |w|^2 + (1/n) sum_i weight_i [1 - y_i <w, z_i>]_+ ,     one w a column of signs

    w     <-  (w + step weight_i y_i z_i [y_i <w, z_i> < 1]) / (1 + step lam) ,     step = 1 / (R + lam t / 4)
    mean  <-  mean + 4 / (t + 3) (w - mean)                                         weights of the iterates like t^3

R is the mean of |weight_i z_i|^2: a step shifts the score of its row by about one at most, however small lam is.
Pegasos has t and not t / 4; but of a stream the n of lam = 1 / (C n) grows, and with it w, which such steps follow too
late. For the same reason late iterates weigh so much.

    Pegasos      here
    eta_t        step
    w_t          W[c]           (r,)
    t            t              rows seen, those of earlier blocks included
"""

from typing import Any

from softmargin.backends.jit import jit

__all__ = ["pass_over_features"]

GAIN = 4  # step = GAIN / (lam t) in the long run
POWER = 3  # of t, in the weights of the average


@jit
def pass_over_features(
    Z: Any, signs: Any, weights: Any, W: Any, average: Any, lam: float, reach: float, t: int
) -> None:
    """Visit all rows in their order, and change W and the average of it in place.

    Parameters
    ----------
    Z : float32 array of shape (n, r)
    signs : array of shape (n, k)
        -1 and +1.
    weights : array of shape (n,)
    W, average : arrays of shape (k, r)
    lam : float
    reach : float
        R.
    t : int
        Rows seen before.
    """
    n, r = Z.shape
    for i in range(n):
        t += 1
        step = 1.0 / (reach + lam * t / GAIN)
        keep = 1.0 / (1.0 + step * lam)
        share = (POWER + 1.0) / (t + POWER)
        for c in range(len(W)):
            score = 0.0
            for j in range(r):
                score += W[c, j] * Z[i, j]
            push = keep * step * weights[i] * signs[i, c] if signs[i, c] * score < 1.0 else 0.0
            for j in range(r):
                W[c, j] = keep * W[c, j] + push * Z[i, j]
                average[c, j] += share * (W[c, j] - average[c, j])
