"""Descent on the duals of all pairs of classes at once: small working sets, and kernel values that pairs share.

    maximise over u, for every pair:   sum_t y_t u_t - 1/2 u'K u - 1/2 sum_t r_t u_t^2
                                       0 <= y_t u_t <= upper_t ,   sum u = 0 with a free bias

A pair of classes has some hundred rows, and there are many pairs: what a pair costs outside compiled loops would be
more than its descent. So one round treats all pairs that are not far ahead of the others:

    choose      in every pair the samples inside their bounds, and on both sides of the bias some of those that violate
                most (``choose_sets``)
    open        the kernel values of these samples with the two classes, as far as they are not open: one product for
                every class
    descend     by pairs of samples with the best gain (``common.smo_loop``; ``kernel_svm._pair_loop`` without a bias)
                on the small square of each set; then S of all samples of the pair (``descend_sets``)

    maths       here
    y a         state.u                 (N,)   N = n (k - 1) entries
    S           state.S                 (N,)   y - K u - r u
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import alarm, is_time_up
from softmargin.core.protocols import PairsProblem
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.one_vs_one._set_loop import Entries, Layout, Rules, Sets, choose_sets, descend_sets

__all__ = ["EachPair", "EachPairTuning", "PairsState"]

Array = NDArray[Any]


class EachPairTuning(NamedTuple):
    """The constants of the rounds: by hand, on letter, satimage, usps, pendigits, segment, isolet at C = 1 to 1000."""

    quota: int = 16  # samples at a bound that a set takes on each side of the bias: more open values nobody needs ...
    share: float = 1 / 64  # ... or this share of the samples of a pair: large pairs would take too many rounds
    far: float = 0.5  # violations above this share of the worst come first ...
    near: float = 0.1  # ... and those below this one do not count
    target: float = 0.05  # share of its violation that a round leaves of a set
    passes: int = 40  # updates per sample of a set in one round, at most
    check_every: int = 32  # updates between two looks at the violation
    pause: float = 0.1  # a pair waits while its gap is below this share of the mean gap
    refresh: float = 1e-4  # S is recomputed when the gap has fallen to this share, as rounding adds up


@dataclass
class PairsState:
    """Arrays and plain numbers, which a checkpoint holds."""

    u: Array  # (N,)
    S: Array  # (N,)
    order: Array  # (n,) samples of every class, shuffled: equal violations are taken in this order
    gaps: Array  # (n_pairs,)
    duals: Array  # (n_pairs,)
    refreshed: float = np.inf  # gap when S was last recomputed

    positions: ClassVar[dict[str, str]] = {"order": "order"}


@dataclass(frozen=True)
class EachPair(Resumable):
    """Descent on all pairs of classes; it has no settings. One step is one working set of each pair."""

    tuning: EachPairTuning = EachPairTuning()

    needs: ClassVar[tuple[type, ...]] = (PairsProblem,)
    state_type = PairsState

    def start(self, problem: PairsProblem, init: Any, rng: np.random.Generator) -> PairsState:
        """Begin at zero, or at a feasible point near ``init``."""
        y, gram = problem.whole.y, problem.gram
        u, S = np.zeros(len(y)), y.copy()
        if init is not None:
            u = y * problem.feasible(np.concatenate([mine.alpha for mine in init]))
            S = _fresh(problem, u)
        members = [rng.permutation(size) for size in gram.sizes.tolist()]
        order = np.concatenate([at + mine for at, mine in zip(gram.first.tolist(), members, strict=False)])
        n_pairs = len(problem.entries.pairs)
        return PairsState(u, S, order, np.full(n_pairs, np.inf), np.zeros(n_pairs))

    def step(self, problem: PairsProblem, state: PairsState) -> PairsState:
        """Make one round with all pairs whose gap counts."""
        gap = float(state.gaps.sum())
        if np.isinf(state.refreshed):
            state.refreshed = gap
        elif gap <= self.tuning.refresh * state.refreshed:
            state.S, state.refreshed = _fresh(problem, state.u), gap
        self._descend(problem, state, np.flatnonzero(state.gaps >= self.tuning.pause * state.gaps.mean()))
        return state

    def _descend(self, problem: PairsProblem, state: PairsState, pairs: Array) -> None:
        """Treat some pairs; in halves, where their kernel values do not fit into memory together."""
        gram, whole, tuning, own = problem.gram, problem.whole, self.tuning, problem.entries
        layout = Layout(own.starts, own.pairs, gram.first, state.order)
        entries = Entries(state.u, state.S, whole.y, np.where(whole.C > 0.0, whole.upper, 0.0), whole.inverse_C)
        sets = Sets(np.empty(len(state.u), np.int64), np.empty(len(pairs), np.int64), np.empty(len(state.u), np.int8))
        is_bounded = not whole.inverse_C.any()
        rules = Rules(
            whole.has_bias, is_bounded, tuning.far, tuning.near, tuning.target, tuning.passes, tuning.check_every
        )
        wanted = np.zeros(gram.place.shape, dtype=bool)
        quota = np.maximum(tuning.quota, (tuning.share * np.diff(own.starts)).astype(np.int64))
        choose_sets(pairs, layout, entries, quota, gram.most_rows, rules, sets, wanted)
        if not gram.open(wanted):
            for half in np.array_split(pairs, 2):
                if not is_time_up():
                    self._descend(problem, state, half)
            return
        diagonal = gram.diagonal[gram.order]
        descend_sets(
            *(pairs, layout, entries, sets, rules, gram.values, gram.place, diagonal, state.gaps, state.duals), alarm()
        )

    def point(self, problem: PairsProblem, state: PairsState) -> Any:
        """Return the dual variables of every pair with the best bias."""
        scores = problem.whole.y - state.S - problem.whole.inverse_C * state.u
        # Moves of pairs leave sums that rounding has blurred.
        return problem.pair_points(problem.feasible(np.abs(state.u)), scores)

    def estimate(self, problem: PairsProblem, state: PairsState) -> float:
        """Return the relative gap of all pairs at the scores that the rounds maintain."""
        dual = float(state.duals.sum())
        return relative_gap(dual + float(state.gaps.sum()), dual)


def _fresh(problem: PairsProblem, u: Array) -> Array:
    """Return S from scratch."""
    return np.asarray(problem.whole.y - problem.scores(u) - problem.whole.inverse_C * u)
