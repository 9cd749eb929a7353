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

Threads (``core.threads``) choose and descend in pairs of their own, and compute kernel values together.

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
from softmargin.core.threads import n_threads, row_shares, spread
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.one_vs_one._set_loop import Entries, Found, Layout, Rules, Sets, choose_sets, descend_sets

__all__ = ["EachPair", "EachPairTuning", "PairsState"]

Array = NDArray[Any]


class EachPairTuning(NamedTuple):
    """The constants of the rounds: by hand, on letter, satimage, usps, pendigits, segment, isolet at C = 1 to 1000."""

    quota: int = 16  # samples at a bound that a set takes on each side of the bias: more open values nobody needs ...
    share: float = 1 / 64  # ... or this share of the samples of a pair: large pairs would take too many rounds
    wider: float = 4.0  # times as many, at most, where other pairs wait: a round costs little less for few of them
    far: float = 0.5  # violations above this share of the worst come first ...
    near: float = 0.1  # ... and those below this one do not count
    target: float = 0.05  # share of its violation that a round leaves of a set
    passes: int = 40  # updates per sample of a set in one round, at most
    check_every: int = 32  # updates between two looks at the violation
    pause: float = 0.1  # a pair waits while its gap is below this share of the mean gap
    entry: float = 100.0  # multiplications of BLAS in the time that an entry takes to be chosen or not: 20 ns
    groups: int = 4  # of pairs for each thread, the heaviest first, so that all end at about the same time; by hand
    refresh: float = 1e-4  # S is recomputed when the gap has fallen to this share, as rounding adds up


@dataclass
class PairsState:
    """Arrays and plain numbers, which a checkpoint holds."""

    u: Array  # (N,)
    S: Array  # (N,)
    order: Array  # (n,) samples of every class, shuffled: equal violations are taken in this order
    gaps: Array  # (n_pairs,)
    duals: Array  # (n_pairs,)
    biases: Array  # (n_pairs,) at which the gaps are
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
        state = PairsState(u, S, order, *np.zeros((3, n_pairs)))
        self._loops(problem, state, n_pairs).descend(np.arange(n_pairs))  # on empty sets: it finds the gaps
        return state

    def step(self, problem: PairsProblem, state: PairsState) -> PairsState:
        """Make one round with all pairs whose gap counts."""
        gap = float(state.gaps.sum())
        if gap <= self.tuning.refresh * state.refreshed < np.inf:
            state.S, state.refreshed = _fresh(problem, state.u), gap
        pairs = np.flatnonzero(state.gaps >= self.tuning.pause * state.gaps.mean())
        self._round(problem.gram, self._loops(problem, state, len(pairs)), pairs)
        if np.isinf(state.refreshed):
            state.refreshed = float(state.gaps.sum())
        return state

    def _round(self, gram: Any, loops: "_Loops", pairs: Array) -> None:
        """Treat some pairs; in halves, where their kernel values do not fit into memory together."""
        if gram.open(loops.choose(pairs)):
            loops.descend(pairs)
            return
        for half in np.array_split(pairs, 2):
            if not is_time_up():
                self._round(gram, loops, half)

    def _loops(self, problem: PairsProblem, state: PairsState, n_left: int) -> "_Loops":
        """Return the compiled loops, with what they work on, where ``n_left`` pairs do not wait."""
        gram, whole, tuning, own = problem.gram, problem.whole, self.tuning, problem.entries
        layout = Layout(own.starts, own.pairs, gram.first, state.order)
        ridge = whole.inverse_C
        entries = Entries(state.u, state.S, whole.y, np.where(whole.C > 0.0, whole.upper, 0.0), ridge)
        n, n_pairs = len(state.u), len(own.pairs)
        sets = Sets(np.empty(n, np.int64), np.zeros(n_pairs, np.int64), np.empty(n, np.int8))
        is_bounded = not ridge.any()
        rules = Rules(
            whole.has_bias, is_bounded, tuning.far, tuning.near, tuning.target, tuning.passes, tuning.check_every
        )
        found, wider = Found(state.gaps, state.duals, state.biases), min(tuning.wider, n_pairs / max(1, n_left))
        return _Loops(gram, layout, entries, sets, rules, found, tuning, wider)

    def point(self, problem: PairsProblem, state: PairsState) -> Any:
        """Return the dual variables of every pair with the bias at which its gap is."""
        # Moves of pairs leave sums that rounding has blurred.
        return problem.points_at(problem.feasible(np.abs(state.u)), state.biases)

    def estimate(self, problem: PairsProblem, state: PairsState) -> float:
        """Return the relative gap of all pairs at the scores that the rounds maintain."""
        dual = float(state.duals.sum())
        return relative_gap(dual + float(state.gaps.sum()), dual)


class _Loops(NamedTuple):
    """The compiled loops, each thread with some of the pairs."""

    gram: Any
    layout: Layout
    entries: Entries
    sets: Sets
    rules: Rules
    found: Found
    tuning: EachPairTuning
    wider: float  # times the quota

    def choose(self, pairs: Array) -> Array:
        """Choose the sets; return which cells of the kernel matrix they need, (k, n)."""
        wanted = np.zeros(self.gram.place.shape, dtype=bool)
        lengths = np.diff(self.layout.starts)
        t = self.tuning
        quota = (self.wider * np.maximum(t.quota, t.share * lengths)).astype(np.int64)
        own = (self.layout, self.entries, quota, self.gram.most_rows, self.rules, self.sets, wanted)
        shares = row_shares(len(pairs), self.tuning.entry * float(lengths[pairs].mean()))
        spread(lambda some: choose_sets(pairs[some], *own), shares)
        return wanted

    def descend(self, pairs: Array) -> None:
        """Descend on the sets."""
        gram = self.gram
        diagonal, ring = gram.diagonal[gram.order], alarm()
        own = (self.layout, self.entries, self.sets, self.rules, gram.values, gram.place, diagonal, self.found, ring)
        spread(lambda some: descend_sets(some, *own), self._groups(pairs))

    def _groups(self, pairs: Array) -> list[Array]:
        """Divide pairs into groups of about equal work, the heaviest first; all in one where there is one thread."""
        if n_threads() == 1:
            return [pairs]
        sizes, lengths = self.sets.sizes[pairs].astype(np.float64), np.diff(self.layout.starts)[pairs]
        work = sizes * (lengths + self.tuning.passes * sizes) + lengths
        order = np.argsort(-work, kind="stable")
        done = np.cumsum(work[order])
        ends = np.searchsorted(done, done[-1] * np.arange(1, n_groups := self.tuning.groups * n_threads()) / n_groups)
        return [some for some in np.split(pairs[order], np.unique(ends + 1)) if len(some)]


def _fresh(problem: PairsProblem, u: Array) -> Array:
    """Return S from scratch."""
    return np.asarray(problem.whole.y - problem.scores(u) - problem.whole.inverse_C * u)
