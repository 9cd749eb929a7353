"""Newton's method for smooth losses summed over blocks of rows, with any penalty or over a ball, on a working set.

    minimise over W:   F(W) = L(W) + g(W) ,     L = sum_i p_i f(W' x_i)                   maths: blocks, eq. 5
    one step:          D = argmin of  <G, D> + 1/2 <D, H D> + g(W + D) ,    W <- W + t D

D moves the entries of a working set: those that are not zero, and those that a step of length 1 / curvature along the
gradient would move, the largest first; whole rows of W where the penalty joins them. Their part of H is one sum over
the blocks, and the model is minimised here, by accelerated steps, and jumps to the optimum of the entries that are not
zero. H has a small multiple of a bound on its diagonal added, less where steps succeed. Where the part of H has too
many numbers, a matrix for every column takes its place, above it; where these have too many, D is a step of all entries
along the gradient, with the momentum of the last ones: one pass each.

Source: Lee, Sun and Saunders (2014) for the step; Beck and Teboulle (2009), O'Donoghue and Candes (2015) for the model.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv
from scipy.sparse.linalg import eigsh

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import SummedProblem
from softmargin.problems.summed_losses import SummedPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.summed.sampled_start import SampleTuning, from_sample, objective

__all__ = ["SummedProxNewton", "SummedProxState", "SummedProxTuning"]

Array = NDArray[Any]
ROUNDING = 1e-13  # share of F that rounding hides
SMALL, NEARLY = 64, 0.01  # size of a matrix whose eigenvalues are cheap; error of the largest of others
NEAR, APART = 1e-6, 1e-3  # where differences give the derivatives of a penalty, as shares of an entry


class SummedProxTuning(NamedTuple):
    """How large models are, and how exactly they are minimised."""

    most_numbers: int = 1 << 23  # of the matrices of a model: 64 MB travel from every block; by hand
    max_inner: int = 1000  # steps on a model; a guard
    exact: float = 0.02  # share of its first step to which those on a model fall; by hand
    floor: tuple[float, float, float] = (1e-8, 1e-3, 0.1)  # of ``SummedProxState``: least, first, most; by hand
    trust: float = 10.0  # factor of the floor after a step: less where it was good, more where it was too long; by hand
    least_new: int = 64  # entries or rows that may join a working set however small it is; by hand
    calm: int = 50  # steps on a model before a jump, which costs about as much; by hand
    enough: float = 1e-4  # share of the predicted decrease that a step must reach; the usual one
    shortest: int = 12  # lengths 1/2, 1/4, ... of a step that is too long; by hand


@dataclass
class SummedProxState:
    """The weights and the losses there, and the last move."""

    weights: Array  # (d + 1, k)
    values: Array  # (4,) as a pass returns them
    gradient: Array  # (d + 1, k)
    scale: Array  # (d + 1, 1) bound on the curvature of the losses by rows of W
    last: Array  # (d + 1, k) the weights before
    momentum: float = 1.0  # of steps along the gradient
    steep: float = 1.0  # factor of the scale that bounds the curvature along them
    floor: float = 0.0  # share of its bound that the curvature of a model has at least; 0 at the start


@dataclass(frozen=True)
class SummedProxNewton(Resumable):
    """Newton's method with a prox; it has no settings. One step is one model, or one step along the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import SummedProxNewton, penalties, solve
    >>> from softmargin.losses.joint import JOINT
    >>> from softmargin.problems.block_rows import Block, Form
    >>> from softmargin.problems.blocks import LocalBlocks
    >>> from softmargin.problems.summed import PenalizedSum
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> blocks = LocalBlocks([Block(rows[:2], y[:2], np.ones(2)), Block(rows[2:], y[2:], np.ones(2))])
    >>> problem = PenalizedSum(blocks, Form(JOINT["multinomial"], 3, 1.0, True), penalties.L1(0.5))
    >>> solve(problem, SummedProxNewton(), rng=0).status.value
    'converged'
    """

    tuning: SummedProxTuning = SummedProxTuning()
    sample: SampleTuning = SampleTuning()

    needs: ClassVar[tuple[type, ...]] = (SummedProblem,)
    state_type: ClassVar[type] = SummedProxState

    def start(self, problem: SummedProblem, init: SummedPoint | None, rng: np.random.Generator) -> SummedProxState:
        """Begin at ``init``, at the optimum of a sample of many rows, or at zero."""
        if not problem.is_smooth:
            raise IncompatibleError("SummedProxNewton needs a smooth loss; SummedNewton takes hinges with a ridge.")
        begun: SummedProxState | None = from_sample(self, problem, rng) if init is None else None
        if begun is not None:
            return begun
        W = problem.prox(problem.checked_point(init).weights, 0.0)  # inside its set, and no shorter
        scale = problem.largest_curvature()
        scale = np.where(scale > 0.0, scale, 1.0)
        if not problem.takes_scales:
            problem.form.penalised(scale)[:] = problem.form.penalised(scale).max()
        values, gradient, _ = problem.scored(W, 0.0)
        return SummedProxState(W, values, gradient, scale, W.copy())

    def step(self, problem: SummedProblem, state: SummedProxState) -> SummedProxState:
        """Minimise a model on a working set, and go there; or go along the gradient."""
        entries = self._working_set(problem, state)
        if entries is None:
            return self._gradient_step(problem, state)
        H = self._hessian(problem, state.weights, entries)
        D = self._minimised(problem, state, entries, H)
        W, before = state.weights, objective(problem, state)
        fall = float(np.vdot(state.gradient, D)) + problem.value(W + D) - problem.value(W)
        new = self._at(problem, state, W + D)
        is_long = not objective(problem, new) <= before + self.tuning.enough * fall + ROUNDING * abs(before)
        if is_long:
            lengths = 0.5 ** np.arange(1.0, self.tuning.shortest + 1.0)
            losses = problem.along(W, D, lengths, 0.0)
            values = [loss + problem.value(W + t * D) for t, loss in zip(lengths, losses, strict=True)]
            best = int(np.argmin(values))
            new = self._at(problem, state, W + lengths[best] * D) if values[best] < before else state
        least, _, most = self.tuning.floor
        floor = self._floor(state)
        new.floor = min(self.tuning.trust * floor, most) if is_long else max(floor / self.tuning.trust, least)
        return new

    def _floor(self, state: SummedProxState) -> float:
        return state.floor or self.tuning.floor[1]

    def _at(self, problem: SummedProblem, state: SummedProxState, W: Array) -> SummedProxState:
        """Return the state at other weights: one pass."""
        values, gradient, _ = problem.scored(W, 0.0)
        return SummedProxState(
            W, values, gradient, state.scale, state.weights, state.momentum, state.steep, state.floor
        )

    def _working_set(self, problem: SummedProblem, state: SummedProxState) -> Array | None:
        """Return positions of some entries of W, those of the constant last; None where too many are not zero.

        Where the penalty joins the entries of a row, whole rows are in the set.
        """
        W, (d, k) = state.weights, problem.shape
        width = 1 if problem.is_entrywise else k  # entries that come together
        most = (math.isqrt(self.tuning.most_numbers) - k) // width
        moved = problem.prox(W - state.gradient / state.scale, 1.0 / state.scale) - W
        sizes = (np.abs(moved[:-1]) * np.sqrt(state.scale[:-1])).reshape(-1, width).max(axis=1)
        has_weights = W[:-1].reshape(-1, width).any(axis=1)
        n_weights = int(has_weights.sum())
        is_new = (sizes > 0.0) & ~has_weights
        if n_weights + bool(is_new.any()) > most:
            return np.arange(d * k) if k * d**2 <= self.tuning.most_numbers else None
        sizes[has_weights] = math.inf
        wanted = min(most, max(2 * n_weights, n_weights + self.tuning.least_new), int(np.count_nonzero(sizes)))
        chosen = np.sort(np.argsort(-sizes, kind="stable")[:wanted])
        own = (chosen[:, None] * width + np.arange(width)).ravel()
        return np.concatenate([own, np.arange((d - 1) * k, d * k)])

    def _hessian(self, problem: SummedProblem, W: Array, entries: Array) -> Array:
        """Return a part of H; or, of too many entries, a matrix for every column, together above H.

        The entries of the curvature of a row of a joint loss beside its diagonal add up to that: B <= 2 diag(B).
        """
        if len(entries) ** 2 <= self.tuning.most_numbers:
            return np.asarray(problem.curvature(W, 0.0, entries).hessian)
        return (2.0 if problem.form.loss.is_joint else 1.0) * problem.metric(W, 0.0, W.shape[1])

    def _minimised(self, problem: SummedProblem, state: SummedProxState, entries: Array, H: Array) -> Array:
        """Return the D that minimises the model: accelerated steps with restarts."""
        W, k, rows = state.weights, state.weights.shape[1], entries // state.weights.shape[1]
        G, least = state.gradient.ravel()[entries], self._floor(state) * state.scale[rows, 0]

        def times(D: Array) -> Array:
            if H.ndim == 2:
                return np.asarray(H @ D + least * D)
            return np.asarray(np.einsum("cij,jc->ic", H, D.reshape(-1, k), optimize=True).ravel() + least * D)

        scales = self._scales(problem, rows, H, least)
        scale, steps = scales[rows, 0], 1.0 / scales
        full = W.copy()
        flat = full.reshape(-1)

        def prox(V: Array) -> Array:
            flat[entries] = V
            moved: Array = problem.prox(full, steps).ravel()[entries]
            flat[entries] = start
            return moved

        def model(V: Array) -> float:
            flat[entries] = V
            value = problem.value(full)
            flat[entries] = start
            return value + float((V - start) @ (G + 0.5 * times(V - start)))

        start = flat[entries]
        V, Y, momentum, target = start.copy(), start.copy(), 1.0, 0.0
        for inner in range(self.tuning.max_inner):
            new = prox(Y - (G + times(Y - start)) / scale)
            size = float(np.sqrt((scale * (new - Y) ** 2).sum()))
            target = max(target, self.tuning.exact * size) if inner == 0 else target
            if size <= target and inner > 0:
                V = new
                break
            is_back = float((scale * (Y - new)) @ (new - V)) > 0.0
            later = 1.0 if is_back else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            Y = new + (0.0 if is_back else (momentum - 1.0) / later) * (new - V)
            V, momentum = new, later
            if problem.takes_scales and inner % self.tuning.calm == self.tuning.calm - 1:
                jumped = self._jumped(problem, entries, H, least, V, G + times(V - start))
                if jumped is not None and model(jumped) < model(V):
                    V, Y, momentum = jumped, jumped.copy(), 1.0
        D = np.zeros(W.size)
        D[entries] = V - start
        return D.reshape(W.shape)

    def _jumped(
        self, problem: SummedProblem, entries: Array, H: Array, least: Array, V: Array, slopes: Array
    ) -> Array | None:
        """Return the least of a model over the entries that are not zero, as if g were quadratic in each.

        Those that would change their sign become zero. None where the matrix is singular.
        """
        full = np.zeros(problem.shape)

        def slope(at: Array) -> Array:
            """Return g' by its Moreau envelope with a tiny t."""
            full.reshape(-1)[entries] = at
            t = NEAR * np.where(full != 0.0, np.abs(full), np.inf).min(axis=1, keepdims=True)
            t = np.where(np.isfinite(t), t, 1.0)
            return np.asarray(((full - problem.prox(full, t)) / t).ravel()[entries])

        own = slope(V)
        bend = np.where(V != 0.0, (slope((1.0 + APART) * V) - own) / (APART * np.where(V != 0.0, V, 1.0)), 0.0)
        right, diagonal = -(slopes + own), np.maximum(bend, 0.0) + least
        k, v = problem.shape[1], V.copy()
        for c, matrix in enumerate(H if H.ndim == 3 else [H]):
            mine = np.arange(c, len(v), k) if H.ndim == 3 else np.arange(len(v))
            used = np.flatnonzero(v[mine])
            if not len(used):
                continue
            at, M = mine[used], matrix[np.ix_(used, used)]
            M[np.diag_indices(len(used))] += diagonal[at]
            _, step, trouble = dposv(M, right[at], lower=True)
            if trouble:
                return None
            v[at] = np.where(v[at] * (v[at] + step) < 0.0, 0.0, v[at] + step)
        return v

    def _scales(self, problem: SummedProblem, rows: Array, H: Array, least: Array) -> Array:
        """Return a diagonal above H and what is added to it, a number per row of W; rows of a ball share theirs."""
        d = problem.shape[0]
        diagonal = np.diag(H) if H.ndim == 2 else np.stack([np.diag(own) for own in H], axis=1).ravel()
        scale = np.zeros((d, 1))
        np.maximum.at(scale[:, 0], rows, diagonal)
        scale = np.maximum(scale, 1e-12 * (float(scale.max()) or 1.0))
        if not problem.takes_scales:
            problem.form.penalised(scale)[:] = problem.form.penalised(scale).max(initial=0.0)
        root = 1.0 / np.sqrt(scale)
        if H.ndim == 3:
            largest = max(_largest(root * own * root.T) for own in H)
        else:
            largest = _largest(root[rows] * H * root[rows].T)
        added = np.zeros((d, 1))
        np.maximum.at(added[:, 0], rows, least)
        return np.asarray(max(largest, 1e-3) * scale + (added if problem.takes_scales else added.max()))

    def _gradient_step(self, problem: SummedProblem, state: SummedProxState) -> SummedProxState:
        """Go along the gradient from a point ahead of W, by momentum; two passes."""
        W, later = state.weights, 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
        ahead = W + (state.momentum - 1.0) / later * (W - state.last)
        values, gradient, _ = problem.scored(ahead, 0.0)
        while True:
            scale = state.steep * state.scale
            new = problem.prox(ahead - gradient / scale, 1.0 / scale)
            move = new - ahead
            there = self._at(problem, state, new)
            model = float(values[0] + np.vdot(gradient, move) + 0.5 * (scale * move**2).sum())
            if there.values[0] <= model + ROUNDING * abs(model) or not move.any():
                break
            state.steep *= 2.0
        is_back = float(np.vdot(scale * (ahead - new), new - W)) > 0.0
        there.momentum, there.steep = 1.0 if is_back else later, 0.9 * state.steep
        return there

    def point(self, problem: SummedProblem, state: SummedProxState) -> SummedPoint:
        """Return the weights."""
        return SummedPoint(state.weights.copy())

    def estimate(self, problem: SummedProblem, state: SummedProxState) -> float:
        """Estimate the residual from the last pass."""
        return problem.rough_residual(state.weights, state.values, state.gradient, 0.0)


def _largest(M: Array) -> float:
    """Return the largest eigenvalue, or a little more; of zero, where no row is at a bend of its loss, zero."""
    if not M.any():
        return 0.0
    if len(M) <= SMALL:
        return float(np.linalg.eigvalsh(M)[-1])
    found = eigsh(M, k=1, tol=NEARLY, v0=np.ones(len(M)), return_eigenvectors=False)
    return float((1.0 + 2.0 * NEARLY) * found[0])
