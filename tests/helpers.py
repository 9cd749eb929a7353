"""Shared by the tests: small problems with a name, references written apart from the library, fakes."""

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.certificate import Certificate
from softmargin.data import blobs
from softmargin.problems import MulticlassSVM

HELD = ("--holdout", "0.25")  # what the command line keeps back for an accuracy
LOSS_NAMES = ("weston_watkins", "crammer_singer")
PROBLEM_NAMES = ("blobs", "tiles", "bias", "weights", "degenerate", "absent", "binary")


@functools.cache
def problem_data(name):
    """Return X, y and the settings of a small problem."""
    if name == "tiles":  # five tiles of classes, so that some are left out of a pass
        return (*blobs(70, 30, 18, seed=1, sparse=True, density=0.3), {"C": 0.5})
    if name == "binary":
        return (*blobs(40, 4, 2, seed=2), {"C": 2.0})
    X, y = blobs(50, 5, 3, seed=3)
    if name == "bias":
        return X + 2.0, y, {"bias": 1.5}
    if name == "weights":
        return X, y, {"C": np.tile([0.0, 0.1, 1.0, 3.0, 0.5], 10)}
    if name == "degenerate":  # zero rows; the same row with every label
        X, y = X.copy(), y.copy()
        X[:5] = 0.0
        X[5:14] = X[5]
        y[5:14] = np.arange(9) % 3
        return X, y, {"C": 0.7}
    if name == "absent":
        return X, y + 1, {"n_classes": 6}
    return X, y, {}


def make_problem(name, multiclass="weston_watkins", **changes):
    """Build a named problem; ``changes`` override its settings."""
    X, y, settings = problem_data(name)
    return MulticlassSVM(X, y, **{"multiclass": multiclass, **settings, **changes})


def dense(X):
    return X.toarray() if isinstance(X, csr_matrix) else X


def augmented(problem):
    """Return [X, bias] as a dense float64 matrix."""
    X = dense(problem.X).astype(np.float64)
    return np.hstack([X, np.full((len(X), 1), problem.bias)])


def calls_of(monkeypatch, owner, name):
    """Return a list that grows by one with every call of a function of a class or module."""
    calls, function = [], getattr(owner, name)

    def counting(*arguments):
        calls.append(1)
        return function(*arguments)

    monkeypatch.setattr(owner, name, counting)
    return calls


def random_alpha(problem, rng):
    """Draw a dual point inside its set: convex combinations of corners, row by row."""
    n, k = len(problem.y), problem.n_classes
    rows = np.arange(n)
    share = rng.dirichlet(np.ones(k), size=n) if problem.multiclass == "crammer_singer" else rng.random((n, k))
    share *= rng.integers(0, 2, size=(n, k))
    share[rows, problem.y] = 0.0
    alpha = -share * problem.C[:, None]
    alpha[rows, problem.y] = -alpha.sum(axis=1)
    return alpha


def block_optimum(multiclass, v, C):
    """Solve a block by bisection on its scalar equation, in extended precision.

    Weston-Watkins: b = clip(v - g, 0, C) with sum b = g.  Crammer-Singer: b = [v - g]_+ with sum b = min(g, C).
    The unknown is r = max v - g: it keeps its digits where C is tiny and g is not.
    """
    v, C = np.asarray(v, dtype=np.longdouble), np.asarray(C, dtype=np.longdouble)
    top = v.max()
    below, zero = top - v, np.longdouble(0)

    def minimiser(r):
        over = np.maximum(r - below, zero)
        return np.minimum(over, C) if multiclass == "weston_watkins" else over

    low, high = zero, max(top, zero)
    for _ in range(200):
        r = (low + high) / 2
        target = top - r if multiclass == "weston_watkins" else min(top - r, C)
        if minimiser(r).sum() < target:
            low = r
        else:
            high = r
    return minimiser(low).astype(np.float64)


def block_value(v, b):
    """1/2 b'(I + 11')b - v'b: the objective of both blocks."""
    v, b = np.asarray(v, dtype=np.longdouble), np.asarray(b, dtype=np.longdouble)
    return float((b @ b + b.sum() ** 2) / 2 - v @ b)


def block_kkt(multiclass, v, b, C):
    """Return the largest violation of feasibility or optimality of a block, in units of v."""
    gradient = b + b.sum() - v
    if multiclass == "weston_watkins":
        return np.abs(b - np.clip(b - gradient, 0.0, C)).max()
    outside = max(-b.min(), b.sum() - C)
    theta = max(-gradient.min(), 0.0)  # the price of the sum constraint
    slack = theta * (C - b.sum()) + b @ (gradient + theta)
    return max(outside, slack / max(np.max(b), 1e-300))


class Clock:
    """A clock that moves only when somebody works."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


class Fake:
    """A problem whose residual after t steps is ``residual(t)``; judging takes ``price`` seconds.

    The primal value moves by ``drift`` in a step, so that no run looks idle.
    """

    def __init__(self, residual=lambda t: 1.0, *, clock=None, price=0.0, drift=2.0**-40):
        self.residual, self.clock, self.price, self.drift = residual, clock or Clock(), price, drift

    def certificate(self, point):
        self.clock.now += self.price
        primal = 1.0 + self.drift * point
        return Certificate("duality gap", primal, primal - self.residual(point), self.residual(point))


@dataclass(frozen=True)
class Counter:
    """A solver that counts its steps."""

    guess: object = lambda t: 1.0
    on_step: object = lambda t: None
    needs: ClassVar = ()

    def start(self, problem, init, rng):
        return SimpleNamespace(t=init or 0)

    def step(self, problem, state):
        problem.clock.now += 1.0
        self.on_step(state.t + 1)
        state.t += 1
        return state

    def point(self, problem, state):
        return state.t

    def estimate(self, problem, state):
        return self.guess(state.t)


def infeasibility(multiclass, alpha, y, C):
    """Return how far dual rows are outside the set of their loss, their sums included, relative to C."""
    rows = np.arange(len(y))
    rest = alpha.copy()
    rest[rows, y] = 0.0
    least = -C - rest.min(axis=1) if multiclass == "weston_watkins" else alpha[rows, y] - C
    outside = np.maximum(np.maximum(rest.max(axis=1), least), np.abs(alpha.sum(axis=1)))
    return float((outside / np.maximum(C, np.finfo(float).tiny)).max())
