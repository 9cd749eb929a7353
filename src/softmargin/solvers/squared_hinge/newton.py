"""Newton's method on the primal of the linear L2-SVM: few iterations, and robust to huge C and badly scaled X.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2                     maths: squared hinge, section 7

P is quadratic on every piece where the set I = {i : xi_i > 0} stays the same. One step minimises the current piece and
goes from (w, b) towards its minimiser, by the step that minimises P exactly: P along a line is piecewise quadratic too.
The bias is eliminated from the linear system, which leaves, with mu the C-weighted mean of I and M its total price,

    (identity + sum_I C_i (x_i - mu)(x_i - mu)') dw = -g_w + mu g_b ,    db = -g_b / M - <mu, dw>
    g_w = w - sum_i C_i xi_i y_i x_i ,    g_b = -sum_i C_i xi_i y_i

Where features differ in scale, weak directions make the whole move too long, and a few samples that meet their kinks
soon hold back all of it. Then lambda |dw|^2 / 2 is added to the model, so that the matrix is (1 + lambda) identity and
the sum: lambda is the curvature along the move that was cut short, grows with every other one, and goes with the first
that is not.

At the best b for w, g_b = 0: then a = C xi is feasible and the duality gap is exactly |g_w|^2 / 2. The descent itself
does not set b to that value: it would leave few samples in I, and the next piece would be a poor model.

How the system is solved: ``_newton_systems.py``.

The minimiser of a piece implies a dual point too, a_i = C_i (1 - y_i f_i) on I, f its scores: w = sum a y x holds there
exactly. Where it has negative entries, these become zero, both sides are scaled to one sum, and the whole to the best
multiple (maths: squared hinge, section 7). On data of wild scales it bounds the optimum long before a = C xi does.

Source: the finite Newton method of Keerthi and DeCoste (2005). We differ: the bias is not penalised, and eliminated.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.aim import wanted_residual
from softmargin.core.certificate import relative_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import SquaredHingeProblem
from softmargin.matrices.forms import laid_out
from softmargin.matrices.rows import as_rows
from softmargin.problems.free_bias import BiasPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.squared_hinge._newton_loop import (
    CentredSamples,
    PieceSums,
    evaluate_piece,
    fill_adjoint,
    fill_products,
)
from softmargin.solvers.squared_hinge._newton_state import NewtonState, Piece, PrimalNewtonTuning
from softmargin.solvers.squared_hinge._newton_steps import At, Numbers, Pace, go, make_steps
from softmargin.solvers.squared_hinge._newton_systems import has_long_rows, has_small_steps, newton_move

__all__ = ["NewtonState", "PrimalNewton", "PrimalNewtonTuning"]

Array = NDArray[Any]


@dataclass(frozen=True)
class PrimalNewton(Resumable):
    """Newton's method in (w, b), for the linear kernel; it has no settings. One step is an iteration, or some small."""

    tuning: PrimalNewtonTuning = PrimalNewtonTuning()

    needs: ClassVar[tuple[type, ...]] = (SquaredHingeProblem,)
    state_type = NewtonState

    def start(self, problem: SquaredHingeProblem, init: BiasPoint | None, rng: np.random.Generator) -> NewtonState:
        """Begin at w = 0, or at the weights of ``init``."""
        gram = problem.gram
        if not gram.is_linear:
            raise IncompatibleError(f"PrimalNewton needs the linear kernel; the kernel is {gram.kernel.name}. Use Smo.")
        n, d = gram.X.shape
        is_kept = d <= min(self.tuning.kept_features, self.tuning.dense_features) and has_long_rows(gram.X, self.tuning)
        held, squares = (np.zeros(n), np.zeros((d, d))) if is_kept else (np.zeros(0), np.zeros((0, 0)))
        state = NewtonState(np.zeros(d), 0.0, np.zeros(d), np.zeros(n), np.zeros(n), held, squares)
        samples = self._samples(problem, state)
        if isinstance(state.X, np.ndarray) and d <= self.tuning.dense_features and problem.has_bias:
            state.mean[:] = state.X.mean(axis=0, dtype=np.float64)
        if init is not None:
            if init.weights is None:
                fill_adjoint(samples.rows, state.mean, problem.y * problem.feasible(init.alpha), state.weights)
            else:
                state.weights[:] = init.weights
            fill_products(samples.rows, state.mean, state.weights, state.scores)
            state.bias = problem.best_bias(state.scores)
        return state

    def step(self, problem: SquaredHingeProblem, state: NewtonState) -> NewtonState:
        """Minimise the quadratic piece, and P on the line towards its minimiser; where numbers are few, several."""
        piece, tuning = self._evaluate(problem, state), self.tuning
        seen, pace = (state.samples, state.iterate), Pace(tuning.cut, tuning.whole, tuning.growth, tuning.near)
        at, sums = At(state.bias, state.bound, state.damping), state.sums
        state.piece, is_made = None, False
        if has_small_steps(state.X, tuning):
            end = (isinstance(state.X, np.ndarray), tuning.most_steps, wanted_residual())
            at, numbers, is_made = make_steps(*seen, at, sums, piece.numbers, pace, *end)
            piece = state.piece = _as_piece(sums, numbers, at.bound)
            state.bias, state.bound, state.damping = at
        if not is_made:
            move = newton_move(state, piece, tuning)
            state.bias, state.bound, state.damping = go(*seen, at, sums, piece.numbers, move, pace)
            state.piece = None
        return state

    def point(self, problem: SquaredHingeProblem, state: NewtonState) -> Any:
        """Return the weights with their best bias, and the better of the dual points of their losses and of a piece."""
        piece = self._evaluate(problem, state)
        bias = piece.best_bias - float(state.mean @ state.weights)
        if piece.is_behind:
            return BiasPoint(state.alpha.copy(), bias, state.weights.copy())
        return problem.primal_point(state.weights.copy(), bias, state.scores + piece.best_bias)

    def estimate(self, problem: SquaredHingeProblem, state: NewtonState) -> float:
        """Return the relative gap at the best bias."""
        return self._evaluate(problem, state).residual

    def primal_value(self, problem: SquaredHingeProblem, state: NewtonState) -> float:
        """Return P at the iterate."""
        return self._evaluate(problem, state).primal

    def _samples(self, problem: SquaredHingeProblem, state: NewtonState) -> CentredSamples:
        """Return the samples; they are prepared once per run."""
        if state.samples is None:
            state.X = laid_out(problem.gram.X, short=self.tuning.short)
            state.samples = CentredSamples(as_rows(state.X), state.mean, problem.y, problem.C, problem.has_bias)
        return state.samples

    def _evaluate(self, problem: SquaredHingeProblem, state: NewtonState) -> Piece:
        """Return the current piece; each is evaluated once."""
        if state.piece is None:
            iterate = (state.weights, state.scores, state.bias, state.sums)
            numbers = evaluate_piece(self._samples(problem, state), *iterate)
            state.piece = _as_piece(state.sums, numbers, state.bound)
        return state.piece


def _as_piece(sums: PieceSums, numbers: Numbers, bound: float) -> Piece:
    """Name what is known of a piece."""
    _, total, primal, bias, best, square = numbers
    own = best - 0.5 * square
    residual, is_behind = relative_gap(best, max(own, bound)), own <= bound
    return Piece(sums.prices, total, sums.centre, sums.right, primal, bias, residual, is_behind, numbers)
