"""Kernel Pegasos: stochastic subgradient steps on the hinge, one sample at a time.

    t = 1, 2, ...:   draw i;   if y_i <w_t, phi_i> < 1:  c_i += 1;   w_{t+1} = sum_j c_j y_j phi_j / (lam t)
                                                                                           maths: sampled kernel, eq. 15

Samples are drawn by their weights, a block at a time: GEMM computes the kernel values of a block with all samples of
nonzero count, and within the block; only the few sums within the block are made one after the other.

Source: Shalev-Shwartz, Singer, Srebro and Cotter (2011), Figure 3; paper 002's baseline.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softmargin.backends.jit import jit
from softmargin.core.parameters import Whole
from softmargin.core.protocols import Array, SampledProblem
from softmargin.problems.kernel_hinge import ExpansionPoint
from softmargin.solvers.common.resumable import Resumable

__all__ = ["Pegasos", "PegasosState"]


@dataclass
class PegasosState:
    """The samples drawn so far, how often each had a margin below 1, and how many draws were made."""

    index: Array  # (m,) all samples drawn, each once
    counts: Array  # (m,)
    seed: int
    n_drawn: int = 0
    n_steps: int = 0

    grows: ClassVar[dict[str, tuple[str, int]]] = {"index": ("m", 0), "counts": ("m", 0)}

    def __post_init__(self) -> None:
        """Record the position of every sample."""
        self.place_of = {int(i): place for place, i in enumerate(self.index)}


@dataclass(frozen=True)
class Pegasos(Resumable):
    """Settings of Pegasos. One step draws ``block`` samples."""

    block: int = 256

    allowed: ClassVar = {"block": (Whole(1),)}
    needs: ClassVar[tuple[type, ...]] = (SampledProblem,)
    state_type: ClassVar = PegasosState

    def start(self, problem: SampledProblem, init: ExpansionPoint | None, rng: np.random.Generator) -> PegasosState:
        """Begin at zero: a step's length depends on the number of earlier steps, so that ``init`` is of no use."""
        return PegasosState(np.empty(0, dtype=np.intp), np.empty(0), seed=int(rng.integers(2**32)))

    def step(self, problem: SampledProblem, state: PegasosState) -> PegasosState:
        """Draw a block of samples, and count those with a margin below 1."""
        rng = np.random.default_rng([state.seed, state.n_steps])
        chance = problem.weights / problem.weights.sum() if np.ptp(problem.weights) > 0.0 else None
        drawn = rng.choice(problem.n, self.block, p=chance)
        state.n_steps += 1
        fresh = [int(i) for i in dict.fromkeys(drawn.tolist()) if i not in state.place_of]
        for i in fresh:
            state.place_of[i] = len(state.place_of)
        state.index = np.concatenate([state.index, np.array(fresh, dtype=np.intp)])
        state.counts = np.concatenate([state.counts, np.zeros(len(fresh))])
        points = problem.points(drawn)
        counted = np.flatnonzero(state.counts)
        sums = np.zeros(self.block)
        if len(counted):
            support = state.index[counted]
            sums = problem.sum_over(problem.points(support), state.counts[counted] * problem.y[support], drawn)
        hits = np.zeros(self.block)
        _mark_violations(problem.block(points, points), problem.y[drawn], sums, problem.lam, state.n_drawn, hits)
        np.add.at(state.counts, [state.place_of[int(i)] for i in drawn], hits)
        state.n_drawn += self.block
        return state

    def point(self, problem: SampledProblem, state: PegasosState) -> ExpansionPoint:
        """Return the expansion over all samples drawn; the certificate derives dual variables from it."""
        alpha = state.counts * problem.y[state.index] / (problem.lam * max(state.n_drawn, 1))
        return ExpansionPoint(state.index.copy(), alpha, np.zeros(len(alpha)))

    def estimate(self, problem: SampledProblem, state: PegasosState) -> float:
        """Return infinity: the gap is not known without evaluating all samples."""
        return math.inf


@jit
def _mark_violations(K: Array, y: Array, sums: Array, lam: float, t: int, hits: Array) -> None:
    """Mark the samples of a block whose margin is below 1 at their step; ``sums`` are those of earlier blocks."""
    for i in range(len(y)):
        t += 1
        total = sums[i]
        for j in range(i):
            total += hits[j] * y[j] * K[i, j]
        if y[i] * total < lam * t:
            hits[i] = 1.0
