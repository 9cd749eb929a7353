"""The samples of all pairs of classes as one problem: entries, their kernel matrix, and their feasible sets.

entry t     a sample in one of its pairs; the N = n (k - 1) entries come one pair after the other
K           zero between entries of different pairs                                maths: pairs, section 2

Each pair has a bias and a balance of its own; all else is that of one binary problem.
"""

from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import TINY, ScoreErrors, gamma, total
from softmargin.matrices.kernel_matrix import Judged
from softmargin.matrices.pair_gram import PairGram
from softmargin.problems.hinge_svm import HingeSVM
from softmargin.problems.l2_svm import L2SVM

__all__ = ["HingePairs", "L2Pairs", "PairBlocks", "PairEntries"]

Array = NDArray[Any]


class PairEntries:
    """The samples of every pair, one pair after the other: entry t is a sample in one of its pairs.

    Parameters
    ----------
    codes : array of shape (n,)
        Class codes 0 .. k-1.
    n_classes : int
    """

    def __init__(self, codes: Array, n_classes: int) -> None:
        order = np.argsort(codes, kind="stable")
        sizes = np.bincount(codes, minlength=n_classes)
        first = np.concatenate([[0], np.cumsum(sizes)])
        self.pairs = np.array(list(combinations(range(n_classes), 2)), dtype=np.int64)  # (n_pairs, 2)
        members = [np.arange(first[c], first[c + 1]) for c in range(n_classes)]
        lengths = sizes[self.pairs]
        self.starts = np.concatenate([[0], np.cumsum(lengths.sum(axis=1))])  # (n_pairs + 1,)
        self.sample = np.concatenate([members[c] for c in self.pairs.ravel()])  # (N,) counted class by class
        self.other = np.repeat(self.pairs[:, ::-1].ravel(), lengths.ravel())  # (N,) the other class of the pair
        self.y = np.repeat(np.tile([1.0, -1.0], len(self.pairs)), lengths.ravel())  # (N,)
        self.pair = np.repeat(np.arange(len(self.pairs)), lengths.sum(axis=1))  # (N,)
        self.row = order[self.sample]  # (N,) in X
        self.order, self.codes, self.k = order, codes, n_classes

    def __len__(self) -> int:
        return len(self.y)

    def of(self, p: int) -> slice:
        """Return the entries of a pair."""
        return slice(int(self.starts[p]), int(self.starts[p + 1]))

    def split(self, values: Array) -> list[Array]:
        """Return the values (N,) of every pair."""
        return np.split(values, self.starts[1:-1])

    def table(self, values: Array) -> Array:
        """Return values (N,) as (n, k): by sample, counted class by class, and the other class."""
        out = np.zeros((len(self.order), self.k))
        out[self.sample, self.other] = values
        return out

    def sums(self, values: Array) -> Array:
        """Return the sum over every pair; (n_pairs,)."""
        return np.asarray(np.add.reduceat(values, self.starts[:-1]))

    @property
    def columns(self) -> Array:
        """The column of every entry among LIBSVM's k - 1; (N,)."""
        return np.asarray(self.other - (self.other > self.codes[self.row]))


class PairBlocks:
    """The kernel matrix of all entries, zero between pairs: what a certificate asks of it."""

    bias: ClassVar[float] = 0.0
    is_linear: ClassVar[bool] = False

    def __init__(self, gram: PairGram, entries: PairEntries) -> None:
        self.shared, self.entries, self.n = gram, entries, len(entries)

    def judged(self, alpha: Array, operations: int) -> Judged:
        """Return K alpha and <alpha, K alpha> for alpha (N, 1), with proven errors, as ``Gram.judged`` does."""
        shared, entries, u = self.shared, self.entries, alpha[:, 0]
        at = entries.sample, entries.other
        scores = shared.pair_scores(entries.table(u), is_wide=True)[at]
        rows, sizes = (values[entries.row] for values in shared.value_errors)
        weights = np.abs(u)
        terms = int(entries.sums((weights > 0.0).astype(np.int64)).max(initial=0))
        share = gamma(terms + operations + 8)
        sums = entries.sums(weights)[entries.pair]
        errors = rows * sums + entries.sums(rows * weights)[entries.pair]
        errors += share * sizes * entries.sums(sizes * weights)[entries.pair]
        found = ScoreErrors(errors[:, None], np.ones((1, 1)), np.zeros(1))
        return Judged(scores[:, None], found, total(u * scores).widened(2.0 * float(weights @ errors)))


class _ManyPairs:
    """What differs where one problem holds the entries of all pairs: each pair has a bias and a balance of its own."""

    entries: PairEntries
    has_bias: bool
    C: Array
    upper: Array

    def _inside(self, alpha: Array) -> tuple[Array, int]:
        """Return feasible coefficients near these: of each pair, the heavier side is scaled down to the other's sum.

        Sums of m terms are off by m roundings; so are the coefficients thereafter, of either side.
        """
        alpha = np.where(self.C > 0.0, np.clip(alpha, 0.0, self.upper), 0.0)
        if not self.has_bias:
            return alpha, 0
        entries, is_first = self.entries, self.entries.y > 0.0
        first, second = entries.sums(np.where(is_first, alpha, 0.0)), entries.sums(np.where(is_first, 0.0, alpha))
        longest = int(np.diff(entries.starts).max())
        least = np.minimum(first, second)
        far = np.abs(first - second) > gamma(longest) * least
        shares = [np.where(far & (side > 0.0), least / np.maximum(side, TINY), 1.0) for side in (first, second)]
        scaled = alpha * np.where(is_first, shares[0][entries.pair], shares[1][entries.pair])
        return scaled, 3 * longest + 6


class HingePairs(_ManyPairs, HingeSVM):
    """Hinge problems of all pairs."""


class L2Pairs(_ManyPairs, L2SVM):
    """Squared hinge problems of all pairs."""
