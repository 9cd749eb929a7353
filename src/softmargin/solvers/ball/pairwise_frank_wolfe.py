"""Pairwise Frank-Wolfe over the corners of an l1 ball or a simplex: move weight from the worst corner to the best.

    S = the corner with the least <G, S> ;    V = the corner in use with the largest <G, V>
    W <- W + eta (S - V) ,    eta in [0, weight of V] the best on the line

W itself holds the weights of the corners: entry W_jc puts |W_jc| / radius on the corner of its sign. In an l1 ball the
rest of the weight is on the origin, which counts as one more corner: it is the mean of +e and -e.

Two entries of W change at a time, so a move reads the samples of two columns, and the gradient changes by the rows of
those samples whose slopes change. A step makes as many moves as cost a pass, then computes the full gradient and the
intercept, which is fixed in between. Here S and V are entries with signs, (best, up) and (worst, down); eta times the
radius is ``length``.

Source: Lacoste-Julien and Jaggi (2015), Algorithm 2; maths: ball, eq. 22. Linear in the number of moves that are not
cut short.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.backends.jit import jit
from softmargin.core.deadline import is_time_up
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.rows import as_rows
from softmargin.problems.constrained import BallPoint
from softmargin.sets import L1Ball, Simplex
from softmargin.solvers.ball._iterate import BallIterate, BallIterateTuning, BallSolver, Line
from softmargin.solvers.ball._objective import checked_ball

__all__ = ["BallPairwise", "BallPairwiseState", "BallPairwiseTuning"]

_ROUNDING = 1e-12  # share of the radius below which weight on the origin is rounding


class BallPairwiseTuning(NamedTuple):
    """Constants of pairwise Frank-Wolfe over a ball."""

    scan_cost: float = 0.1  # of one entry of the gradient, in entries of X read; by hand
    iterate: BallIterateTuning = BallIterateTuning()


@dataclass
class BallPairwiseState(BallIterate):
    """Where the run stands, and scratch (n * k,) that is zero, or False, between moves."""

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.move = np.zeros(self.scores.size)
        self.is_touched = np.zeros(self.scores.size, dtype=bool)


@dataclass(frozen=True)
class BallPairwise(BallSolver):
    """Pairwise Frank-Wolfe with an exact line search; it has no settings."""

    tuning: BallPairwiseTuning = BallPairwiseTuning()

    state_type: ClassVar = BallPairwiseState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallPairwiseState:
        """Compute the scores and the gradient of a first point, or of the one nearest to zero."""
        checked_ball(problem, "BallPairwise", "BallFrankWolfe", L1Ball, Simplex)
        if problem.loss.is_joint:
            raise IncompatibleError(
                f"BallPairwise needs an entrywise loss; {problem.loss!r} is one of rows. Use BallGradient."
            )
        return BallPairwiseState.at(problem, init)

    def step(self, problem: ConstrainedProblem, state: BallPairwiseState) -> BallPairwiseState:
        """Make as many moves as cost a pass, then compute the full gradient."""
        W, state.Z = state.W.reshape(-1), np.ascontiguousarray(state.Z)
        ball = problem.ball
        assert isinstance(ball, L1Ball | Simplex)  # checked by start
        radius, has_origin = ball.radius, isinstance(ball, L1Ball)
        slack = radius - float(np.abs(W).sum()) if has_origin else 0.0
        cost = 0.0
        while cost < problem.X.size and not is_time_up():
            slack = slack if slack > _ROUNDING * radius else 0.0
            directions, worst, room = _pair(W, (state.Z + problem.l2 * state.W).reshape(-1), has_origin, slack)
            before = sum(abs(W[entry]) for entry in directions)
            length, touched = self._move(problem, state, directions, room)
            if length == 0.0:
                break
            if length == room and worst >= 0 and len(directions) == 2:
                W[worst] = 0.0  # exactly: rounding would leave a rest
            if has_origin:
                slack += before - sum(abs(W[entry]) for entry in directions)
            cost += touched + self.tuning.scan_cost * W.size
        state.update(problem, self.tuning.iterate.refresh)
        return state

    def _move(
        self, problem: ConstrainedProblem, state: BallPairwiseState, directions: dict[int, float], room: float
    ) -> tuple[float, int]:
        """Move the entries by the best length up to ``room``; return it, and how many entries of X were read."""
        k = state.W.shape[1]
        W, scores = state.W.reshape(-1), state.scores.reshape(-1)
        parts = []
        for entry, direction in directions.items():
            j, c = divmod(entry, k)
            samples, values = _column(problem.columns(), j)
            at = samples * k + c
            state.move[at] += direction * values
            parts.append(at[~state.is_touched[at]])
            state.is_touched[at] = True
        entries = np.concatenate(parts)
        move = state.move[entries]
        state.move[entries], state.is_touched[entries] = 0.0, False

        here = scores[entries] + state.intercept[entries % k]
        weights, target = problem.weights[entries // k], problem.target.reshape(-1)[entries]
        cross = problem.l2 * sum(direction * float(W[entry]) for entry, direction in directions.items())
        square = problem.l2 * sum(direction**2 for direction in directions.values())
        line = Line(problem.loss, weights, target, here, move, cross, square)
        length = line.search(room, self.tuning.iterate)
        for entry, direction in directions.items():
            W[entry] += length * direction
        scores[entries] += length * move
        change = weights * (problem.loss.slope(here + length * move, target) - problem.loss.slope(here, target))
        changed = np.flatnonzero(change)
        touched = _add_rows(as_rows(problem.X), entries[changed], change[changed], k, state.Z.reshape(-1))
        return length, len(entries) + touched


def _pair(W: Array, G: Array, has_origin: bool, slack: float) -> tuple[dict[int, float], int, float]:
    """Return the direction of each entry, which entry is emptied (-1: the origin), and the longest move."""
    used = np.flatnonzero(W != 0.0)
    if has_origin:
        best = int(np.abs(G).argmax())
        up = -float(np.sign(G[best]))
        heights = np.sign(W[used]) * G[used]
    else:
        best, up = int(G.argmin()), 1.0
        heights = G[used]
    directions = {best: up}
    if has_origin and slack > 0.0 and not (len(used) and heights.max() > 0.0):
        return directions, -1, slack
    worst = int(used[heights.argmax()])
    directions[worst] = directions.get(worst, 0.0) - float(np.sign(W[worst]))
    return directions, worst, float(abs(W[worst]))


def _column(columns: Any, j: int) -> tuple[Array, Array]:
    """Return the samples that have feature j, and its values there."""
    if isinstance(columns, np.ndarray):
        return np.arange(len(columns)), columns[:, j].astype(np.float64)
    stored = slice(columns.indptr[j], columns.indptr[j + 1])
    return columns.indices[stored].astype(np.int64), columns.data[stored].astype(np.float64)


@jit
def _add_rows(rows: Any, entries: Array, amounts: Array, k: int, Z: Array) -> int:
    """Z += X' U for the U with these amounts at these entries (n * k,); return how many entries of X were read."""
    bare = rows.bare()
    touched = 0
    for t in range(entries.shape[0]):
        i, c = entries[t] // k, entries[t] % k
        begin, end = bare.entries(i)
        for p in range(begin, end):
            Z[bare.column(i, p) * k + c] += amounts[t] * bare.value(p)
        touched += end - begin
    return touched
