"""Proximal Newton with a working set, for multinomial regression with any separable penalty.

    F(W, b) = sum_i C_i l_i(W' x_i + b) + g(W)                                                 maths: softmax, section 8

One step: choose the blocks of W that the exact gradient G says are worth while; build over them the quadratic model
q(D) = <G, D> + 1/2 <D, H D> + g(W + D); minimise it by block descent; search along D; adapt the next model to how well
this one predicted the fall of F.

A block is one entry of W where the penalty is a sum over entries, else the row of a feature. The working set holds the
nonzero blocks, and as many others: those that a proximal gradient step would move most.

H is the Hessian of the losses plus a damping. Plain Newton steps overshoot: a sample that the model gets wrong looks
flat, though its loss curves on the way to being right. So sample i has damping rho (1 - p_own) in its scores; rho falls
where the model predicted the fall of F well, and rises where it did not; but where the samples of the model have less
than half of the curvature along D, with which F need not fall at all, the next one has more samples. From 1 / 2 on all
samples are damped, and at rho = 1 by 1 / 2: then H is above the Hessian anywhere, and D itself lowers F. A penalty that
is not convex relies on that, for between W and W + D it may be higher than at both. Where losses fall like an
exponential, as those of samples that are right already, plain Newton steps are too short, and F falls by 2 (1 - 1 / e)
= 1.26 times the prediction: the next model then has only a share of H.

With l1 on sparse X, where passes were too few for a good model, H is factored on the support (factored). The factor
may serve further models of the same step.

The probabilities of a model that is solved well (factored, or dense of all samples) are the dual point: where a
certificate is due, they prove more than those at the new weights, and the certificate is not in vain.

    maths           here
    XD              state.move              scores of D
    h_jk            quadratic_model/loops   exact second derivative (entries), bound (rows)
    WS              _working_set
    [not there]     damping; a share of H; Hessians of few samples; Anderson's extrapolation, jumps; exactness of models
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, zeros
from softmargin.core.aim import wanted_residual
from softmargin.core.parameters import Number, Whole
from softmargin.core.protocols import CompositeProblem, L1Problem
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.working_set import largest
from softmargin.solvers.softmax._losses import CompositeSolver, SoftmaxLosses, width_of
from softmargin.solvers.softmax._prox_state import ProxNewtonState, ProxNewtonTuning
from softmargin.solvers.softmax.quadratic_model.by_samples import (
    EntryModel,
    LossExpansion,
    QuadraticModel,
    RowModel,
    used,
)
from softmargin.solvers.softmax.quadratic_model.dense import (
    DenseModel,
    affords_all,
    forming_cost,
    is_needed,
    is_worth_while,
)
from softmargin.solvers.softmax.quadratic_model.factored import FactoredModel, affords_factor
from softmargin.solvers.softmax.quadratic_model.loops import score_blocks
from softmargin.solvers.softmax.quadratic_model.row_shifts import centre
from softmargin.solvers.softmax.quadratic_model.samples import Layout, Samples, draw

__all__ = ["ProxNewton", "ProxNewtonState", "ProxNewtonTuning"]

Array = NDArray[Any]
ROUNDING = 1e-14  # share of F that its computed differences cannot resolve


@dataclass(frozen=True)
class ProxNewton(CompositeSolver[ProxNewtonState]):
    """Settings of the descent; one step is one model.

    Parameters
    ----------
    max_passes : int
        Most passes over one model, at first.
    per_feature : float
        Samples drawn for every feature in the model, at least; infinite for all samples.
    """

    max_passes: int = 50
    per_feature: float = 10.0
    tuning: ProxNewtonTuning = ProxNewtonTuning()

    allowed: ClassVar = {"max_passes": (Whole(1),), "per_feature": (Number(above=0.0, is_finite=False),)}
    state_type: ClassVar[type[Any]] = ProxNewtonState
    is_compact: ClassVar[bool] = True
    is_coupled: ClassVar[bool] = True  # whether the Hessian couples classes

    def start(
        self, problem: CompositeProblem, init: CompositePoint | None, rng: np.random.Generator
    ) -> ProxNewtonState:
        """Begin at zero or at ``init``; compute its gradient."""
        point = problem.checked_point(init)
        penalty = problem.penalty.value(point.weights)
        if not math.isfinite(penalty):
            nearest = problem.penalty.prox(point.weights, np.finfo(float).tiny)
            point, penalty = CompositePoint(nearest, point.intercept), problem.penalty.value(nearest)
        W = SoftmaxLosses(problem, is_compact=True).pack(point)
        n, d = problem.X.shape
        size = n * (len(W) // (d + 1))
        lipschitz = np.empty(d + 1)
        weighted_squares(as_rows(problem.X), 0.25 * problem.C, lipschitz[:d])
        lipschitz[d] = 0.25 * problem.C.sum()
        state = ProxNewtonState(
            W=W,
            scores=zeros(size),
            probabilities=zeros(size),
            G=zeros(len(W)),
            lipschitz=lipschitz,
            width=1 if problem.is_pinned or problem.penalty.is_entrywise else problem.n_columns,
            loss=0.0,
            penalty=float(penalty),
            damping=self.tuning.first_damping,
            accuracy=self.tuning.least_exact,
            max_passes=self.max_passes,
            seed=int(rng.integers(2**32)),
        )
        losses = self._losses(problem, state)
        losses.fill_scores(state.W, state.scores)
        state.loss = losses.fill_probabilities(state.scores, state.probabilities)
        losses.fill_gradient(state.probabilities, state.move, state.G)
        return state

    def step(self, problem: CompositeProblem, state: ProxNewtonState) -> ProxNewtonState:
        """Choose blocks, minimise a model over them, search along the step, and adapt the next model.

        A model with a factor is followed by others, as long as the factor serves these.
        """
        self._losses(problem, state)
        model = self._model(state, *self._working_set(state))
        is_cut = self._take(problem, state, model)
        while isinstance(model, FactoredModel) and not is_cut and self._serves(state, model):
            before, model = state.residual, self._with_factor(state, model)
            is_cut = self._take(problem, state, model) or state.residual > self.tuning.factored.stall * before
        state.n_steps += 1
        return state

    def _take(self, problem: CompositeProblem, state: ProxNewtonState, model: QuadraticModel) -> bool:
        """Minimise a model, and go there as far as F falls; return whether its minimum was not found."""
        losses = state.losses
        if isinstance(model, DenseModel) and model.samples.rows is None:
            accuracy = state.accuracy if model.is_large else self.tuning.dense.accuracy
            is_cut = model.minimise(accuracy, self.tuning.dense.max_passes)
        else:
            is_cut = model.minimise(state.accuracy, state.max_passes)
        state.passes += model.work / max(problem.n_columns * float(problem.X.size), 1.0)
        squared = model.squared_length()
        model.fill_move(state.move)
        length, ratio = self._search(state, model, squared)
        is_blind = model.samples.rows is not None and self._misses_curvature(state, squared, length, ratio)
        self._adapt(state, model, ratio, is_cut, is_blind)
        if length > 0.0 and problem.penalty.is_convex and not problem.is_pinned:
            rows = model.rows[model.own]
            state.penalty -= centre(problem.penalty, state.W, losses.k, problem.n_columns, rows)
        losses.fill_gradient(state.probabilities, state.trial, state.G)
        state.residual = self._residual_at(state, state.G)
        is_factored = isinstance(model, FactoredModel)
        state.dual = np.zeros(0)
        if is_factored or state.residual <= wanted_residual():
            state.dual = model.dual(state.move)
        if is_factored:
            G = zeros(len(state.G))
            losses.fill_gradient(state.dual, state.trial, G)
            state.residual = min(state.residual, self._residual_at(state, G))
        return is_cut

    def point(self, problem: CompositeProblem, state: ProxNewtonState) -> CompositePoint:
        """Return the weights, the intercept, and q where the last model has one."""
        losses = SoftmaxLosses(problem, is_compact=True)
        q = losses.matrix(state.dual).copy(order="F") if len(state.dual) else None
        return losses.unpack(state.W)._replace(dual=q)

    def estimate(self, problem: CompositeProblem, state: ProxNewtonState) -> float:
        """Return the residual that the last step estimated, with the gradient at its end or that of q."""
        return state.residual

    def _residual_at(self, state: ProxNewtonState, gradient: Array) -> float:
        """Estimate the residual at a gradient: that of the probabilities, or of q."""
        W, G = (state.losses.matrix(flat)[:-1] for flat in (state.W, gradient))
        residual: float = state.losses.problem.rough_residual(W, state.loss + state.penalty, G)
        return residual

    def work_done(self, state: ProxNewtonState) -> float:
        """Count the passes over all of X and W so far, or their time: steps are not alike."""
        return state.passes

    def _losses(self, problem: CompositeProblem, state: ProxNewtonState) -> SoftmaxLosses:
        """Return the losses, on the layout of X that models use; make both anew after a checkpoint."""
        if state.losses is None:
            state.layout = Layout(problem, self.tuning.samples)
            state.losses = SoftmaxLosses(problem, state.layout.X, is_compact=True)
        losses: SoftmaxLosses = state.losses
        return losses

    def _working_set(self, state: ProxNewtonState) -> tuple[Array, Array]:
        """Return the features and the classes of the blocks to move."""
        problem = state.losses.problem
        d, k = problem.X.shape[1], problem.n_columns
        per_row = k // state.width
        scores = np.empty(d * per_row)
        L, width = state.lipschitz[:d], state.width
        n_support = score_blocks(problem.penalty, state.W, state.G, L, state.losses.k, k, width, scores)
        blocks = np.flatnonzero(scores > 0.0)
        most = max(self.tuning.first_set * per_row, self.tuning.growth * n_support)
        if len(blocks) > most:
            blocks = blocks[largest(scores[blocks], most)]
        return np.divmod(blocks, per_row) if per_row > 1 else (blocks, np.zeros_like(blocks))

    def _model(self, state: ProxNewtonState, features: Array, classes: Array) -> QuadraticModel:
        """Build the model: dense where H is cheap to form, else by rows where most of their entries are in play."""
        problem, tuning = state.losses.problem, self.tuning
        d, k = problem.X.shape[1], problem.n_columns
        own = rows = features if k == 1 else used(features)
        n_tiles = width_of(problem) // WIDTH
        by_rows = state.width > 1 or (k > 1 and len(features) > tuning.many * len(rows) * n_tiles)
        if problem.fit_intercept:
            features = np.concatenate((features, np.full(k, d)))
            classes = np.concatenate((classes, np.arange(k)))
            rows = features if k == 1 else np.concatenate((rows, [d]))
        m, X = len(features), state.layout.X
        cost = forming_cost(state.layout, m, k)
        is_dense = state.width == 1 and is_worth_while(cost, m, problem.X, state.max_passes, tuning.dense)
        takes_all = is_dense and affords_all(cost, X, n_tiles, tuning.dense)
        if k > 1 and state.width == 1 and not is_dense and state.max_passes > self.max_passes:  # too few for a model
            is_dense = takes_all = is_needed(m, len(rows), X.shape[0], tuning.dense)
        is_factored = not is_dense and not by_rows and self._affords_factor(state, features, classes)
        samples = self._samples(state, None if takes_all or is_factored else own, is_dense)
        around = LossExpansion(state.losses, state.W, state.G, samples)
        if by_rows and not is_dense:
            return RowModel(around, rows, state.width, tuning.anderson)
        if k > 1:
            order = np.argsort(classes, kind="stable")
            features, classes = features[order], classes[order]
        if is_dense:
            model = DenseModel(around, features, classes, tuning.dense)
            model.work = cost * len(samples.C)
            return model
        if is_factored:
            return FactoredModel(around, features, classes, tuning.anderson, tuning.factored)
        return EntryModel(around, features, classes, tuning.anderson)

    def _affords_factor(self, state: ProxNewtonState, features: Array, classes: Array) -> bool:
        """Say whether H on the nonzero entries is best factored: passes were too few for a model without damping."""
        problem, tuning = state.losses.problem, self.tuning.factored
        if not (self.is_coupled and isinstance(problem, L1Problem) and state.max_passes > self.max_passes):
            return False
        used = features[state.losses.matrix(state.W)[features, classes] != 0.0]
        is_sparse = problem.n_columns > 1 and not isinstance(state.layout.X, np.ndarray)
        is_calm = state.damping < tuning.damping
        return is_sparse and is_calm and affords_factor(state.layout.columns, used, state.max_passes, tuning)

    def _serves(self, state: ProxNewtonState, model: FactoredModel) -> bool:
        """Say whether the factor of a model may serve the next one: little is left to do, on its entries."""
        W, factor = state.losses.matrix(state.W), model.factor
        is_near = wanted_residual() < state.residual <= self.tuning.factored.near
        return is_near and factor is not None and np.count_nonzero(W[factor.entries]) == np.count_nonzero(W)

    def _with_factor(self, state: ProxNewtonState, model: FactoredModel) -> FactoredModel:
        """Return a model around W with the factor of another one."""
        around = LossExpansion(state.losses, state.W, state.G, self._samples(state, None, False))
        features, classes = model.every.features, model.classes
        return FactoredModel(around, features, classes, self.tuning.anderson, self.tuning.factored, model.factor)

    def _all_samples(self, state: ProxNewtonState, P: Array) -> Samples:
        """Return all samples, with their Hessians at these probabilities."""
        problem, rho, tuning = state.losses.problem, state.damping, self.tuning
        damping = np.minimum(rho * state.losses.off_label(P) + max(rho - 0.5, 0.0), 0.5)
        hessian, damping = self._hessian(state.losses, P, damping)
        stretch = 1.0 if problem.penalty.is_convex else tuning.concave_stretch
        least = tuning.floor * state.lipschitz
        return Samples(state.layout.X, state.share * problem.C, hessian, damping, least, stretch)

    def _samples(self, state: ProxNewtonState, features: Array | None, is_dense: bool) -> Samples:
        """Return the samples of a model: drawn for some features, or all."""
        P, drawn = state.probabilities, None
        if features is not None:
            seed = [state.seed, state.n_steps]
            drawn = draw(state.losses, P, features, self.per_feature, state.more, seed, self.tuning.samples)
            if drawn is not None:
                drawn = drawn[0], state.share * drawn[1], drawn[2]
        samples: Samples = state.layout.gather(self._all_samples(state, P), drawn, is_dense)
        return samples

    def _hessian(self, losses: SoftmaxLosses, P: Array, damping: Array) -> tuple[Array, Array]:
        """Return the Hessian by the scores: probabilities, which couple the classes, and damping."""
        return P, damping

    def _search(self, state: ProxNewtonState, model: QuadraticModel, squared: float) -> tuple[float, float]:
        """Go to W + D, or less far, so that F falls; return how far, and the fall of F(W + D) over the predicted one.

        ``squared`` is <D, H D>. Probabilities are then those at the new scores, unless no length was good enough.
        """
        losses, g, (W, V) = state.losses, model.problem.penalty, model.penalised()
        before, after = g.value(W), g.value(V)
        predicted = before - after - model.slope() - 0.5 * squared
        rounding = ROUNDING * abs(state.loss + state.penalty)
        length, ratio = 1.0, 1.0
        for _ in range(self.tuning.max_halvings if g.is_convex else 1):
            loss, _, _ = losses.along(state.scores, state.move, length, state.trial, state.trial_probabilities)
            value = after if length == 1.0 else g.value(W + length * (V - W))
            fall = (state.loss - loss) + (before - value)
            if length == 1.0 and predicted > rounding:
                ratio = fall / predicted
            if fall >= self.tuning.enough * length * predicted or (predicted <= rounding and fall >= -rounding):
                state.W = model.V if length == 1.0 else state.W + length * (model.V - state.W)
                state.scores, state.trial = state.trial, state.scores
                P = state.probabilities  # the model's, which stay as they are
                state.probabilities, state.trial_probabilities = state.trial_probabilities, P
                state.loss, state.penalty = loss, state.penalty + value - before
                return length, ratio
            length /= 2.0
        return 0.0, ratio

    def _misses_curvature(self, state: ProxNewtonState, squared: float, length: float, ratio: float) -> bool:
        """Say whether a model was bad as its samples, with <D, H D> of ``squared``, curve less along D than all do."""
        if ratio >= self.tuning.bad:
            return False
        scores, P = state.scores if length == 0.0 else state.trial, zeros(len(state.scores))  # those before D
        state.losses.fill_probabilities(scores, P)
        whole = self._all_samples(state, P).curvature(state.losses, state.move)
        return squared < self.tuning.seen * whole

    def _adapt(self, state: ProxNewtonState, model: QuadraticModel, ratio: float, is_cut: bool, is_blind: bool) -> None:
        """Set the next model's damping, exactness, share of H and number of samples by how this one did."""
        tuning = self.tuning
        if ratio > tuning.good:
            state.damping = state.damping / tuning.fall if state.damping > tuning.least_damping else 0.0
            if is_cut:
                state.max_passes = min(2 * state.max_passes, tuning.max_passes)
        elif is_blind:
            state.more *= 2.0
        elif not ratio >= tuning.bad:
            state.damping = min(max(tuning.rise * state.damping, tuning.risen_damping), 1.0)
        miss = abs(1.0 - ratio) if state.share == 1.0 else 1.0 - tuning.share
        state.accuracy = min(max(tuning.least_exact * miss, tuning.most_exact), tuning.least_exact)
        if model.problem.penalty.is_convex:
            is_flat = ratio > (tuning.flat if state.share == 1.0 else tuning.still_flat)
            state.share = tuning.share if is_flat else 1.0
