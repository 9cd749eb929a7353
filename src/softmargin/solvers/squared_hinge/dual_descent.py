"""Coordinate descent on the duals of linear binary SVMs of the same rows, with shrinking: fast on sparse wide data.

    D(a) = sum a - 1/2 |w|^2 - 1/2 sum_i r_i a_i^2 ,   w = sum_i a_i y_i x_i ,   0 <= a <= upper,  y'a = 0 (free bias)
                                                                                        maths: squared hinge, section 8

    visit row i:  a_i <- [a_i - g_i / (|x_i|^2 + theta rho + r_i)], clipped ,   g_i = y_i (<w, x_i> + b) - 1 + r_i a_i

    loss             r_i        upper
    squared hinge    1 / C_i    inf
    hinge            0          C_i

One visit reads a row once and moves its variable of every class: the weights of one feature are contiguous, and a
product with a row is a sum of vectors. The classes do not know of each other.

The bias: b = theta (beta + rho y'a) while samples are visited, and beta <- b after a step, the method of multipliers.
A free bias is the multiplier of y'a = 0, theta = 1. One with a price, that of a constant feature v, has
theta = v^2 / (v^2 + rho): its term v^2 / 2 (y'a)^2 of the dual would make all variables slow. Both: maths: squared
hinge, eqs. 24 and 25. Each visit gives the gap of its sample, maths: squared hinge, eq. 8; their sum is the estimate.

Shrinking. Variables at a bound whose gradients exceed a share of the largest violation of the last pass leave the set,
where all of a tile of classes do. When the gap of the set has clearly fallen, all come back. Where that takes many
passes, hinges go class by class: few variables of a tile move by then, and the weights of a class are near each other.

The start has samples that are equal but for their labels at their best split (``_contradictions``).
After every few steps on hinges comes one to the best point in the span of the moves before (``_class_spans``).

    maths       here
    a           state.alpha         (n * k,)
    w           state.weights       ((d + 1) * k,)
    b, beta     state.bias, state.multiplier    (k,)

Source: Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), Algorithm 3. We differ: the bias may be free, and classes
share the passes; a penalised one is not a feature; variables leave the set earlier.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, aligned, zeros
from softmargin.core.aim import wanted_residual
from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import alarm, is_time_up
from softmargin.core.protocols import ManyProblems, SquaredHingeProblem
from softmargin.matrices.operator import numbers_per_row, rmatmul, row_squares
from softmargin.solvers.common.contradictions import slow_contradictions
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.span import SpanTuning
from softmargin.solvers.squared_hinge._class_spans import go_to_span
from softmargin.solvers.squared_hinge._contradictions import split_anew
from softmargin.solvers.squared_hinge._descent_loop import Duals, Visits, descend_coordinates
from softmargin.solvers.squared_hinge._descent_state import (
    DescentState,
    DescentTuning,
    active_in,
    enliven,
    inverse_of,
    n_words,
    stacked,
    structs,
    theta_of,
)

__all__ = ["DescentState", "DescentTuning", "OneVsRestDescent", "SquaredHingeDescent"]

Array = NDArray[Any]


class _Descent(Resumable):
    """The descent on the binary problems of a problem."""

    tuning: DescentTuning
    span_tuning: SpanTuning
    state_type = DescentState

    def _parts(self, problem: Any) -> list[Any]:
        """Return the binary problems."""
        raise NotImplementedError

    def _start(self, parts: list[Any], init: list[Any] | None, rng: np.random.Generator) -> DescentState:
        """Begin at alpha = 0, or near ``init``."""
        binary, signs, prices = stacked(parts)
        n, k = signs.shape
        weights, bias, alpha = zeros((binary.X.shape[1] + 1) * k), zeros(k), np.zeros((n, k))
        is_open, inverse = prices > 0.0, inverse_of(prices, binary.is_squared)
        if init is not None:
            for c, (part, mine) in enumerate(zip(parts, init, strict=True)):
                alpha[:, c] = part.dual_columns(mine)[:, 0]
                bias[c] = part.free_bias(mine)[0] if binary.has_free_bias else 0.0
            alpha = np.where(is_open, np.clip(signs * alpha, 0.0, np.inf if binary.is_squared else prices), 0.0)
        squares = row_squares(binary.X)
        mixed, sets = slow_contradictions(binary.X, signs, prices.max(axis=1), squares)
        if len(mixed):
            priced = np.broadcast_to(prices, signs.shape)[mixed]
            alpha[mixed] = split_anew(alpha[mixed], signs[mixed], priced, sets, is_squared=binary.is_squared)
        if init is not None:
            weights[:] = rmatmul(binary.X, signs * alpha, 0.0).ravel()
        dual = float(alpha.sum() - 0.5 * (weights @ weights + np.vdot(alpha, alpha * inverse)))
        some = is_open.any(axis=1)
        rho, net = np.zeros(k), (signs * alpha).sum(axis=0)
        if binary.has_free_bias or binary.constant:
            sums = np.where(is_open, squares[:, None] + inverse, 0.0).sum(axis=0)
            rho += self.tuning.rho_share * sums / np.maximum(is_open.sum(axis=0), 1)
        if not binary.has_free_bias:
            bias += binary.constant**2 * net
        theta = theta_of(binary, rho)
        return DescentState(
            alpha=aligned(alpha.ravel()),
            weights=weights,
            bias=theta * (bias + rho * net),
            multiplier=bias,
            rho=rho,
            gaps=np.zeros(k),
            steepest=np.full(k, np.inf),
            order=np.concatenate([np.flatnonzero(some), np.flatnonzero(~some)]),
            live=np.zeros(n * n_words(k), dtype=np.uint64),
            random=rng.integers(1, 2**63, size=1, dtype=np.uint64),
            moves=np.empty((0, alpha.size + len(weights))),
            damping=np.zeros(k),
            n_open=int(some.sum()),
            dual=dual,
            passes_left=self.span_tuning.after,
        )

    def step(self, problem: Any, state: DescentState) -> DescentState:
        """Make one pass over everything, or passes over the set that cost a share of it; over few rows several such.

        These end where the estimate has what the run aims for.
        """
        parts, left = self._parts(problem), self.tuning.numbers_of_step
        for _ in range(self.tuning.passes_of_step):
            left -= self._pass(parts, state)
            if left <= 0.0 or is_time_up() or self.estimate(problem, state) <= wanted_residual():
                break
        return state

    def _pass(self, parts: list[Any], state: DescentState) -> float:
        """Make one such pass, then move the multipliers; return how many numbers it read."""
        state.loop = state.loop or structs(parts, state, self.tuning.beyond)
        binary, k = parts[0].as_binary(), len(state.bias)
        go_to_span(binary, state, self.tuning.span_every, self.span_tuning)
        whole = state.n_open * -(-k // WIDTH)
        every, per_visit = int(self.tuning.step_share * whole), numbers_per_row(binary.X) + self.tuning.visit
        is_full = state.n_active == 0
        if is_full:
            enliven(state, k)
            passes = (state.n_open, every, 0, math.inf)
        else:
            least = self.tuning.least_numbers / per_visit
            passes = (state.n_active, every, min(state.visits_left, max(every, int(least))), state.target)
        last, before = state.gap, math.inf
        if is_full or k == 1 or not state.is_slow:
            found = descend_coordinates(*state.loop, len(parts), *passes, alarm())
            state.n_active, visits, state.gap, before, rise = found
            state.is_slow |= not (is_full or binary.is_squared) and state.gap > self.tuning.slow * last
        else:
            visits, rise = self._class_by_class(state.loop, state, len(parts))
            state.gap = float(state.gaps.sum())
        state.last_gap = before if before < math.inf else last
        state.dual += rise
        state.visits_left -= visits
        steps = max(visits / every, 1.0) if every else 1.0
        state.work += 1.0 if is_full else steps
        state.passes_left -= int(steps)
        if is_full:
            state.target, state.visits_left = self.tuning.set_target * state.gap, self.tuning.max_set_passes * whole
        elif state.gap <= state.target or state.visits_left <= 0:
            state.n_active = 0
        return float(visits * per_visit)

    def _class_by_class(self, loop: tuple[Duals, Visits], state: DescentState, m: int) -> tuple[int, float]:
        """Make passes over the set of one of m classes after the other; return how many tiles these cost, and the rise.

        Each has an equal share of the target.
        """
        (duals, visits), n, k, ring = loop, len(state.order), len(state.bias), alarm()
        alpha, weights, signs = state.alpha.reshape(n, k), state.weights.reshape(-1, k), duals.signs.reshape(n, k)
        prices, scratch, lists = duals.C.reshape(n, -1), zeros(3), np.zeros(3, dtype=np.int64)
        target, budget, done, rise = state.target / m, int(self.tuning.step_share * state.n_open), 0, 0.0
        for c in np.flatnonzero(state.gaps[:m] > target).tolist():
            mine, active = slice(c, c + 1), active_in(state, c)
            column = (signs[:, c], prices[:, c % prices.shape[1]], alpha[:, c], weights[:, c])
            y, C, a, w = map(np.ascontiguousarray, column)
            intercept = (part[mine] for part in (duals.bias, duals.multiplier, duals.theta, duals.pull))
            own = Duals(duals.rows, duals.squares, y, C, duals.is_squared, a, w, *intercept)
            found = (active, visits.live[:0], state.steepest[mine], state.gaps[mine], state.random)
            looks = Visits(*found, visits.beyond, scratch, lists)
            left, m_left = self.tuning.max_class_steps, len(active)
            while left > 0 and m_left > 0 and state.gaps[c] > target:
                m_left, visited, _, _, gain = descend_coordinates(own, looks, 1, m_left, budget, budget, target, ring)
                done, rise, left = done + visited, rise + gain, left - 1
            alpha[:, c], weights[:, c] = a, w
        return done // WIDTH, rise

    def work_done(self, state: DescentState) -> float:
        """Count the steps so far; where rows are few, one counts as several."""
        return state.work

    def _points(self, problem: Any, state: DescentState) -> list[Any]:
        """Return feasible points."""
        parts = self._parts(problem)
        m, k = len(parts), len(state.bias)
        columns = state.alpha.reshape(-1, k) * stacked(parts)[1]
        weights = state.weights.reshape(-1, k)[:-1]
        points: list[Any] = parts[0].points_of(parts, columns[:, :m], weights[:, :m], state.multiplier[:m])
        return points

    def support(self, problem: Any, state: DescentState) -> float:
        """Return the share of the samples with a dual variable that is not zero: of a class, in the cubic mean."""
        shares = np.count_nonzero(state.alpha.reshape(len(state.order), -1), axis=0) / max(len(state.order), 1)
        return float(np.mean(shares[: len(self._parts(problem))] ** 3) ** (1.0 / 3.0))

    def estimate(self, problem: Any, state: DescentState) -> float:
        """Estimate the relative gap from those that the last step found sample by sample, and from y'a."""
        # A sample was visited half a pass ago, on average.
        fall = min(state.gap / state.last_gap, 1.0) if 0.0 < state.last_gap < math.inf else 1.0
        gap, dual, binary = state.gap * math.sqrt(fall), state.dual, self._parts(problem)[0].as_binary()
        theta = theta_of(binary, state.rho) if state.loop is None else state.loop[0].theta
        pull = state.bias - theta * state.multiplier  # theta rho y'a
        net = np.divide(pull, theta * state.rho, out=np.zeros_like(pull), where=theta * state.rho > 0.0)
        if binary.has_free_bias:
            gap += float(np.abs(net) @ (np.abs(state.multiplier) + np.abs(pull)))
        elif binary.constant:
            off = state.multiplier / binary.constant - binary.constant * net
            gap += 0.5 * float(off @ off)
            dual -= 0.5 * binary.constant**2 * float(net @ net)
        return relative_gap(dual + gap, dual)


@dataclass(frozen=True)
class SquaredHingeDescent(_Descent):
    """Dual coordinate descent on one squared hinge, for the linear kernel; it has no settings."""

    tuning: DescentTuning = DescentTuning()
    span_tuning: SpanTuning = SpanTuning()  # of hinges: for all_classes

    needs: ClassVar[tuple[type, ...]] = (SquaredHingeProblem,)

    def all_classes(self) -> "OneVsRestDescent":
        """Return the descent on all classes of a one-vs-rest problem."""
        return OneVsRestDescent(self.tuning, self.span_tuning)

    def _parts(self, problem: SquaredHingeProblem) -> list[Any]:
        return [problem]

    def start(self, problem: SquaredHingeProblem, init: Any, rng: np.random.Generator) -> DescentState:
        """Begin at alpha = 0, or near ``init``."""
        return self._start([problem], None if init is None else [init], rng)

    def point(self, problem: SquaredHingeProblem, state: DescentState) -> Any:
        """Return feasible dual variables with the best bias."""
        return problem.point(self._points(problem, state)[0].alpha)


@dataclass(frozen=True)
class OneVsRestDescent(_Descent):
    """Dual coordinate descent on all classes at once, for linear squared hinges or hinges; it has no settings.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import MulticlassSVM, OneVsRest, OneVsRestDescent, solve
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> problem = OneVsRest([MulticlassSVM(rows, y == c, n_classes=2, bias=1.0) for c in range(3)])
    >>> solve(problem, OneVsRestDescent(), rng=0).status.value
    'converged'
    """

    tuning: DescentTuning = DescentTuning()
    span_tuning: SpanTuning = SpanTuning()

    needs: ClassVar[tuple[type, ...]] = (ManyProblems,)

    def _parts(self, problem: ManyProblems) -> list[Any]:
        return problem.parts

    def start(self, problem: ManyProblems, init: Sequence[Any] | None, rng: np.random.Generator) -> DescentState:
        """Begin at alpha = 0, or near ``init``."""
        return self._start(problem.parts, None if init is None else list(init), rng)

    def point(self, problem: ManyProblems, state: DescentState) -> list[Any]:
        """Return feasible dual variables of every class, with the multipliers as biases: the best need two products."""
        return self._points(problem, state)
