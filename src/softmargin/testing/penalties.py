"""``check_penalty``: prox, value, distance and conjugate of a penalty agree with each other."""

import math
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from softmargin.penalties import checked
from softmargin.penalties.parts import prox_by_rows
from softmargin.penalties.rounding import rounded_conjugate

__all__ = ["check_penalty"]

Array = NDArray[Any]
EPS = float(np.finfo(np.float64).eps)
SLACK = 1e-10  # of the objective: what rounding may take from a minimiser
LOOSE = 1e-6  # of a subgradient that is a small difference of large numbers, divided by t
SHORT = 1e-8  # a step so short that a penalty is as good as its slope
MARK = 7.25  # memory that must not change
N_ROWS = 40
N_GRID = 31
N_SWEPT = 3  # entries of a row


def check_penalty(penalty: Any, *, k: int = 5, seed: int = 0) -> None:
    """Hold a penalty to the contract of ``softmargin.core.pieces.Penalty``.

    prox            is a global minimiser of its objective, as far as grids and neighbours can tell; leaves V alone;
                    takes one t or one for every row; is non-expansive where the penalty is convex
    prox_row        does the same, as plain Python and compiled, and touches no other memory
    value           is the sum over rows
    distance        vanishes at (V - prox) / t, and is the size of a short prox step elsewhere
    conjugate       Fenchel-Young: g(W) + g*(V) >= <W, V>, with equality at subgradients where there is a bound
    reach           is the largest s in [0, 1] with g*(s V) finite, in floating point too
    conjugate_within (or what stands in for it) is not exceeded by g* nearby

    Parameters
    ----------
    penalty : Penalty
        What to check.
    k : int, default=5
        Classes: entries in a row.
    seed : int, default=0
        Of the random rows.

    Raises
    ------
    AssertionError
        With a sentence on the first broken promise.
    DataError
        Where it is no penalty at all.
    """
    penalty = checked(penalty)
    rng = np.random.default_rng(seed)
    V, t = _rows(penalty, k, rng)
    before = V.copy()
    P = np.asarray(penalty.prox(V, t))
    if not np.array_equal(V, before):
        _fail(penalty, "prox must leave its argument alone")
    if P.shape != V.shape:
        _fail(penalty, f"prox of an array of shape {V.shape} has shape {P.shape}")
    _check_value(penalty, P)
    # Code compiled before an edit shows here; it would make the next check speak of an old prox.
    _check_prox_row(penalty, V, t, P)
    for j in range(len(V)):
        _check_minimiser(penalty, V[j], float(t[j, 0]), P[j], rng)
    _check_steps(penalty, V)
    _check_distance(penalty, V, t, P, rng)
    _check_conjugate(penalty, V, t, P, rng)


def _fail(penalty: Any, sentence: str) -> NoReturn:
    raise AssertionError(f"{penalty!r}: {sentence}.")


def _numbers(struct: Any) -> Iterator[float]:
    for value in struct:
        if isinstance(value, tuple):
            yield from _numbers(value)
        elif math.isfinite(value) and value != 0.0:
            yield abs(value)


def _rows(penalty: Any, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw rows of all sizes with a step for each; also zeros, repeated entries and rows at likely thresholds."""
    V = rng.standard_normal((N_ROWS, k)) * 10.0 ** rng.uniform(-2, 2, (N_ROWS, 1))
    t = 10.0 ** rng.uniform(-2, 2, (N_ROWS, 1))
    V[0] = 0.0
    V[1:3] = V[1:3, :1]
    V[3:8][rng.random((5, k)) < 0.5] = 0.0
    numbers = sorted({1.0, *_numbers(penalty)})
    for j in range(8, N_ROWS // 2):
        number, other = rng.choice(numbers, 2)
        step = t[j, 0]
        at = [number, step * number, number * (other + step), number * other, np.sqrt(2.0 * step * number)]
        V[j] = rng.choice(at) * rng.choice([-1.0, 1.0], k)
        if j % 2:
            V[j, 1:] = 0.0
    return V, t


def _objective(penalty: Any, w: Array, v: Array, t: float) -> float:
    away = w - v
    return float(penalty.value(w[None, :])) + float(away @ away) / (2.0 * t)


def _slack(objective: float, v: Array, t: float) -> float:
    return SLACK * (abs(objective) + float(v @ v) / (2.0 * t))


def _rivals(v: Array, p: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Yield points that shall be no better than p: v scaled, entries of p swept over a grid, neighbours of p."""
    size = float(np.abs(v).max() + np.abs(p).max()) or 1.0
    yield from np.linspace(-0.2, 1.2, N_GRID)[:, None] * v
    yield from (v, 0.0 * v)
    for c in rng.permutation(len(v))[:N_SWEPT]:
        for entry in (0.0, v[c], *np.linspace(-1.2 * size, 1.2 * size, N_GRID)):
            q = p.copy()
            q[c] = entry
            yield q
    for radius in size * 10.0 ** -np.arange(1.0, 6.0):
        directions = np.concatenate([rng.standard_normal((4, len(v))), [v / size], np.eye(len(v))])
        yield from p + radius * directions
        yield from p - radius * directions


def _check_minimiser(penalty: Any, v: Array, t: float, p: Array, rng: np.random.Generator) -> None:
    best = _objective(penalty, p, v, t)
    if not math.isfinite(best):
        _fail(penalty, f"prox({v}, t={t}) = {p} has an objective of {best}")
    slack = _slack(best, v, t)
    for q in _rivals(v, p, rng):
        found = _objective(penalty, q, v, t)
        if not best <= found + slack:
            _fail(
                penalty,
                f"prox({v}, t={t}) = {p} does not minimise g(w) + |w - v|^2 / (2 t): "
                f"the objective is {best}, but {found} at {q}",
            )


def _check_value(penalty: Any, W: Array) -> None:
    whole, parts = penalty.value(W), sum(penalty.value(row[None, :]) for row in W)
    if not math.isclose(whole, parts, rel_tol=1e-9, abs_tol=1e-12):
        _fail(penalty, f"value is {whole}, but the sum of the values of the rows is {parts}")


def _check_prox_row(penalty: Any, V: Array, t: Array, P: Array) -> None:
    plain = np.full((len(V), V.shape[1] + 2), MARK)
    plain[:, 1:-1] = V
    for row, step in zip(plain, t[:, 0], strict=True):
        penalty.prox_row(row, 1, V.shape[1], float(step))
    # Before any compiled code runs: there, nothing would stop it.
    if np.any(plain[:, [0, -1]] != MARK):
        _fail(penalty, "prox_row writes outside row[first : first + k]")
    compiled = prox_by_rows(penalty, V, t)
    for j, v in enumerate(V):
        for how, found in (("as plain Python", plain[j, 1:-1]), ("compiled", compiled[j])):
            if not _is_same(penalty, v, float(t[j, 0]), P[j], found):
                _fail(
                    penalty,
                    f"prox_row, {how}, gives {found} where prox({v}, t={t[j, 0]}) = {P[j]}. If you have edited it, "
                    "start Python anew",
                )


def _is_same(penalty: Any, v: Array, t: float, p: Array, q: Array) -> bool:
    if np.allclose(p, q, rtol=1e-9, atol=1e-12 * float(np.abs(v).max(initial=0.0))):
        return True
    # At a threshold of a penalty that is not convex there are two minimisers, and rounding picks one.
    best = _objective(penalty, p, v, t)
    return not penalty.is_convex and abs(_objective(penalty, q, v, t) - best) <= _slack(best, v, t)


def _check_steps(penalty: Any, V: Array) -> None:
    for t in (1e-6, 0.3, 1.0, 1e6):
        P = penalty.prox(V, t)
        for j, row in enumerate(penalty.prox(V, np.full((len(V), 1), t))):
            alone = penalty.prox(V[j : j + 1], t)[0]
            for how, found in (("with t of shape (d, 1)", row), ("alone", alone)):
                if not _is_same(penalty, V[j], t, P[j], found):
                    _fail(penalty, f"prox(V, t={t}) makes {P[j]} of the row {V[j]}; {how}, {found}")
        moved = np.linalg.norm(P[:, None] - P, axis=2)
        apart = np.linalg.norm(V[:, None] - V, axis=2)
        slack = 1e-12 * (np.abs(V).max() + np.abs(P).max())
        if penalty.is_convex and np.any(moved > apart * (1.0 + 1e-12) + slack):
            _fail(penalty, f"is_convex, but prox(V, t={t}) takes two rows further apart than they were")


def _check_distance(penalty: Any, V: Array, t: Array, P: Array, rng: np.random.Generator) -> None:
    U = (V - P) / t
    far = np.asarray(penalty.distance(P, U))
    if far.shape != (len(V),):
        _fail(penalty, f"distance of {len(V)} rows has shape {far.shape}")
    rounding = 64.0 * EPS * (1.0 + np.abs(V) + np.abs(P)).max(axis=1) / t[:, 0]
    allowed = SLACK * np.abs(U).max(axis=1) + rounding
    for j in np.flatnonzero(~(far <= allowed)):
        _fail(penalty, f"(v - p) / t = {U[j]} is a subgradient at p = prox(v) = {P[j]}, but distance gives {far[j]}")
    # As t goes to zero, |W - prox(W + t U)| / t goes to the distance of U from the subdifferential at W.
    W, U = (rng.standard_normal(V.shape) * 10.0 ** rng.uniform(-1, 1, (len(V), 1)) for _ in range(2))
    W = np.asarray(penalty.prox(W, 0.5))
    moved = np.linalg.norm(W - penalty.prox(W + SHORT * U, SHORT), axis=1) / SHORT
    far = np.asarray(penalty.distance(W, U))
    for j in np.flatnonzero(~(np.abs(far - moved) <= 1e-4 * (1.0 + moved))):
        _fail(penalty, f"distance({W[j]}, {U[j]}) is {far[j]}, but a short prox step from there says {moved[j]}")


def _check_conjugate(penalty: Any, V: Array, t: Array, P: Array, rng: np.random.Generator) -> None:
    values = np.array([penalty.value(p[None, :]) for p in P])
    for v in (*V, *rng.standard_normal(V.shape)):
        u = _check_reach(penalty, v[None, :]) * v
        dual = penalty.conjugate(u[None, :])
        slack = 1e-9 * (np.abs(values) + abs(dual) + np.abs(P) @ np.abs(u))
        for j in np.flatnonzero(~(values + dual >= P @ u - slack)):
            _fail(penalty, f"g({P[j]}) + g*({u}) = {values[j]} + {dual} is below the inner product {P[j] @ u}")
    if not (penalty.is_convex and penalty.has_bound):
        return
    _check_nearby(penalty, V, rng)
    for value, p, u in zip(values, P, (V - P) / t, strict=True):
        s = penalty.reach(u[None, :])
        if not s >= 1.0 - LOOSE:
            _fail(penalty, f"{u} is a subgradient at {p}, but its reach is {s}, not 1")
        dual, product = penalty.conjugate(s * u[None, :]), s * float(p @ u)
        if not abs(value + dual - product) <= LOOSE * (abs(value) + abs(dual) + float(np.abs(p) @ np.abs(u))):
            _fail(penalty, f"{u} is a subgradient at {p}, so g + g* must be {product}; found {value} + {dual}")


def _check_nearby(penalty: Any, V: Array, rng: np.random.Generator) -> None:
    for v in V:
        error = 10.0 ** rng.uniform(-9.0, -1.0) * np.abs(rng.standard_normal((1, len(v))))
        u = 0.9 * penalty.reach(v[None, :]) * v[None, :]
        most = rounded_conjugate(penalty, u, error).upper
        for signs in rng.choice([-1.0, 1.0], (8, len(v))):
            if not penalty.conjugate(u + signs * error) <= most:
                _fail(penalty, f"g* within {error[0]} of {u[0]} exceeds {most}; give it a conjugate_within(V, error)")


def _check_reach(penalty: Any, V: Array) -> float:
    s: float = penalty.reach(V)
    if not 0.0 <= s <= 1.0:
        _fail(penalty, f"reach({V[0]}) is {s}, not in [0, 1]")
    if s == 0.0 and penalty.has_bound:
        _fail(penalty, f"has_bound, but reach({V[0]}) is 0")
    if not math.isfinite(penalty.conjugate(s * V)):
        _fail(penalty, f"reach({V[0]}) is {s}, but g* is infinite there")
    beyond = min(1.0, s * (1.0 + LOOSE) + EPS)
    if s < 1.0 and math.isfinite(penalty.conjugate(beyond * V)):
        _fail(penalty, f"reach({V[0]}) is {s}, but g* is finite at {beyond} times it")
    return s
