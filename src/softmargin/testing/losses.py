"""``check_loss``: slope, curvature, conjugate and dual step of an entrywise loss agree with its value."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_loss"]

Array = NDArray[Any]
STEP = 1e-5  # of differences
CLOSE = 1e-12
N_SCORES = 400


def check_loss(loss: Any, *, seed: int = 0) -> None:
    """Hold an entrywise loss f(s, t) to its contract: see ``softmargin.losses.entrywise``.

    slope           is the derivative of the value, at most ``steepest``; that of a margin loss is <= 0 in t s
    bend            is the derivative of the slope, where it has one; it lies in [0, curvature], and so does the rise of
                    the slope between two scores
    conjugate       Fenchel-Young: f(s) + f*(u) >= u s, with equality at u = slope(s); 0 at 0, the least loss
    dual_step       maximises s u - f*(u) - (u - u0)^2 / (2 r), as far as a grid can tell; stays at the slope
    arrays          shapes broadcast, no argument is changed, huge scores overflow nowhere

    Parameters
    ----------
    loss : object
        A member of ``softmargin.losses.entrywise``, or one like it; targets are -1 and +1 where ``is_margin``.
    seed : int, default=0
        Of the scores.
    """
    rng = np.random.default_rng(seed)
    s = np.concatenate(
        [[0.0, 1.0, -1.0, 0.5], 10.0 ** rng.uniform(-2, 1.5, N_SCORES) * rng.choice([-1.0, 1.0], N_SCORES)]
    )
    sign = rng.choice([-1.0, 1.0], len(s))
    t = sign if loss.is_margin else rng.permutation(s)
    kept = s.copy(), t.copy()
    value, slope = loss.value(s, t), loss.slope(s, t)
    difference = (loss.value(s + STEP, t) - loss.value(s - STEP, t)) / (2.0 * STEP)
    # Where the second derivative jumps, a difference is off by half the jump times the step.
    _demand(loss, np.abs(slope - difference) <= STEP + 1e-9 * (s - t) ** 2, "slope is not the derivative of value", s)
    _demand(loss, np.abs(slope) <= loss.steepest, "a slope is beyond steepest", s)
    if loss.is_margin:
        _demand(loss, t * slope <= 0.0, "a margin loss rises", s)
    bend = loss.bend(s, t)
    _demand(loss, (bend >= 0.0) & (bend <= loss.curvature * (1.0 + CLOSE)), "bend is not in [0, curvature]", s)
    left, right = (slope - loss.slope(s - STEP, t)) / STEP, (loss.slope(s + STEP, t) - slope) / STEP
    is_smooth = np.abs(right - left) <= 1e-3 * loss.curvature
    _demand(
        loss,
        ~is_smooth | (np.abs(bend - 0.5 * (left + right)) <= 2e-3 * loss.curvature),
        "bend is not the derivative of slope",
        s,
    )
    other = rng.permutation(s)
    rise, apart = (slope - loss.slope(other, t)) * (s - other), np.abs(s - other)
    rounding = CLOSE * apart * (1.0 + np.abs(slope)) + CLOSE
    _demand(loss, rise >= -rounding, "the slope falls: the loss is not convex", s)
    _demand(loss, rise <= loss.curvature * apart**2 * (1.0 + CLOSE) + rounding, "the slope rises beyond curvature", s)
    dual = loss.conjugate(slope, t)
    size = 1.0 + np.abs(value) + np.abs(dual) + np.abs(slope * s)
    _demand(loss, np.abs(value + dual - slope * s) <= CLOSE * size, "f(s) + f*(u) is not u s at u = slope(s)", s)
    _demand(loss, loss.conjugate(np.zeros(len(s)), t) == 0.0, "the conjugate at 0 is not 0", s)
    for u in (rng.standard_normal(len(s)), -sign * rng.random(len(s)), loss.slope(other, t)):
        below = u * s - value - loss.conjugate(u, t)
        _demand(loss, below <= CLOSE * (1.0 + np.abs(value) + np.abs(u * s)), "f(s) + f*(u) is below u s", s)
    _check_dual_step(loss, s, t, sign, slope, rng)
    _check_arrays(loss, s, t, kept)


def _demand(loss: Any, holds: Array, sentence: str, scores: Array) -> None:
    if not np.all(holds):
        raise AssertionError(f"{loss!r}: {sentence}, at the score {scores[np.argmin(holds)]}.")


def _check_dual_step(loss: Any, s: Array, t: Array, sign: Array, slope: Array, rng: np.random.Generator) -> None:
    first = -sign * rng.random(len(s)) if loss.is_margin else rng.random(len(s))
    for r in (1e-4, 1e-2, 1.0, 1e2, 1e4):
        step = loss.dual_step(first, s, t, r)
        best = s * step - loss.conjugate(step, t) - (step - first) ** 2 / (2.0 * r)
        _demand(loss, np.isfinite(best), "dual_step leaves the domain of the conjugate", s)
        for move in (*np.linspace(-1.0, 1.0, 41), -1e-3, 1e-3, -1e-5, 1e-5):
            u = step + move
            rival = s * u - loss.conjugate(u, t) - (u - first) ** 2 / (2.0 * r)
            slack = 1e-11 * (1.0 + np.abs(best) + np.abs(s) + 1.0 / r + s * s)
            _demand(loss, ~(rival > best + slack), f"dual_step with r = {r} is not the maximiser", s)
        stays = loss.dual_step(slope, s, t, r)
        _demand(loss, np.abs(stays - slope) <= 1e-9 * np.abs(slope) + CLOSE, "dual_step moves away from the slope", s)


def _check_arrays(loss: Any, s: Array, t: Array, kept: tuple[Array, Array]) -> None:
    matrix, target = s[:12].reshape(4, 3), np.sign(t[:12].reshape(4, 3)) + (t[:12].reshape(4, 3) == 0.0)
    for verb in (loss.value, loss.slope, loss.bend, loss.conjugate):
        if verb(matrix, target).shape != (4, 3) or not np.array_equal(verb(matrix, 1.0), verb(matrix, np.ones((4, 3)))):
            raise AssertionError(f"{loss!r}: {verb.__name__} does not broadcast its target.")
    huge = np.array([1e3, -1e3, 1e8, -1e8, 1e150, -1e150])
    for sign in (-1.0, 1.0):
        target = np.full(len(huge), sign)
        for verb in (loss.value, loss.slope, loss.bend):
            _demand(loss, np.isfinite(verb(huge, target)), f"{verb.__name__} overflows", huge)
        dual = loss.conjugate(loss.slope(huge, target), target)
        _demand(loss, np.isfinite(dual), "the conjugate of a slope is not finite", huge)
    if not (np.array_equal(s, kept[0]) and np.array_equal(t, kept[1])):
        raise AssertionError(f"{loss!r}: an argument is changed in place.")
