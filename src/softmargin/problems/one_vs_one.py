"""One-vs-one: a binary problem for every pair of classes, on the rows of the two, and the sum of their objectives.

    pair (c, e), c < e:   rows of class c, y = +1, then rows of class e, y = -1           LIBSVM's order and signs
    P = sum_p P_p ,   D = sum_p D_p ,   so the gap is the sum of the gaps                 maths: pairs, section 1

Dual variables are kept as LIBSVM keeps them, k - 1 numbers for each sample: that of a sample of class c in its pair
with e is in column e, or e - 1 where e > c. Many pairs are small, so what they share is done for all of them at once:
parts are posed when a solver asks for them, and kernel problems are certified together, as one problem whose kernel
matrix has a block for every pair.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.matrices.pair_gram import PairGram
from softmargin.models import LinearOneVsOne, OneVsOne
from softmargin.problems.checks import checked_prices, digest_of
from softmargin.problems.free_bias import BiasPoint, FreeBiasSVM
from softmargin.problems.hinge_svm import HingeSVM
from softmargin.problems.margin_models import Expansion
from softmargin.problems.one_vs_rest import OneVsRest
from softmargin.problems.pair_entries import HingePairs, L2Pairs, PairBlocks, PairEntries

__all__ = ["EveryPair", "KernelOneVsOne"]

Array = NDArray[Any]


class _Parts(Sequence[Any]):
    """The problems of all pairs, each posed when it is asked for."""

    def __init__(self, pose: Callable[[int], Any], n: int) -> None:
        self._pose = pose
        self._posed: list[Any] = [None] * n

    def __len__(self) -> int:
        return len(self._posed)

    def __getitem__(self, p: Any) -> Any:
        if isinstance(p, slice):
            return [self[t] for t in range(*p.indices(len(self)))]
        if self._posed[p] is None:
            self._posed[p] = self._pose(p)
        return self._posed[p]

    @property
    def are_posed(self) -> bool:
        """Whether every part was asked for."""
        return all(part is not None for part in self._posed)


class EveryPair(OneVsRest):
    """Independent binary problems, one per pair of classes, with one certificate.

    Parameters
    ----------
    pose : callable
        pose(rows, y, C) is the problem of a pair: its rows of X, +1 and -1, and the price of each.
    codes : array of shape (n,)
        Class codes 0 .. k-1.
    n_classes : int
    C : array of shape (n,)
    scale : float, default=1
        As of ``OneVsRest``.
    """

    parts: Any

    def __init__(
        self, pose: Callable[[Array, Array, Array], Any], codes: Array, n_classes: int, C: Array, *, scale: float = 1.0
    ) -> None:
        self.entries = entries = PairEntries(codes, n_classes)
        self.C, self.scale = prices, _ = checked_prices(C, len(codes)), scale

        def posed(p: int) -> Any:  # it knows nothing of self: a cycle would keep kernel values alive
            rows = entries.row[entries.of(p)]
            return pose(rows, entries.y[entries.of(p)], prices[rows])

        self.parts = _Parts(posed, len(entries.pairs))

    def signed(self, point: Sequence[Any]) -> Array:
        """Return the dual variables of all entries with their signs; (N,)."""
        return np.concatenate([part.dual_columns(mine)[:, 0] for part, mine in zip(self.parts, point, strict=True)])

    def dual_columns(self, point: Sequence[Any]) -> Array:
        """Return the dual variables with their signs in LIBSVM's layout; (n, k - 1)."""
        entries = self.entries
        dual = np.zeros((len(self.C), entries.k - 1))
        dual[entries.row, entries.columns] = self.signed(point)
        return dual

    def _columns_of(self, dual: Array) -> list[Array]:
        """Return the dual variables of every pair from LIBSVM's layout; each (m,)."""
        return self.entries.split(dual[self.entries.row, self.entries.columns])

    def _fits(self, dual: Array) -> bool:
        return dual.shape == (len(self.C), self.entries.k - 1)

    def warm_point(self, dual: Array) -> list[Any] | None:
        """Return a feasible point near the dual variables of a model; None where they have another shape."""
        if not self._fits(dual):
            return None
        columns = zip(self.parts, self._columns_of(dual), strict=True)
        return [part.warm_point(column[:, None]) for part, column in columns]

    def expansion_point(self, dual: Array, intercept: Array) -> list[Any]:
        """Return the point that the dual variables (n, k - 1) and intercepts of a model are, feasible or not."""
        columns = zip(self.parts, self._columns_of(dual), intercept, strict=True)
        return [part.expansion_point(column[:, None], np.array([b])) for part, column, b in columns]

    def model(self, point: Any, classes: Array, info: Mapping[str, Any] | None = None) -> Any:
        """Return the model that a point is."""
        return LinearOneVsOne(classes, *self.coef_and_intercept(point), info or {})

    @property
    def grams(self) -> list[Any]:
        """The kernel matrices whose values are a part of the state: those of parts that a solver looks at."""
        return [part.gram for part in self.parts if hasattr(part, "gram")] if self.parts.are_posed else []

    def small_problem(self) -> "OneVsRest | None":
        """Return a problem of two rows that needs the same compiled loops; None where there is none."""
        return None

    def fingerprint(self) -> str:
        """Return a hash of all parts."""
        whole = hashlib.sha256(f"one-vs-one {self.entries.k}".encode())
        whole.update(super().fingerprint().encode())
        return whole.hexdigest()


class KernelOneVsOne(EveryPair):
    """The same where parts are kernel problems with a dual variable for each entry: they are certified together.

    Parameters
    ----------
    gram : PairGram
    C : array of shape (n,)
    kind : {HingeSVM, L2SVM}
        The problem of a pair.
    has_bias : bool, default=True
        Whether pairs have a free bias; a penalised one is a part of the kernel matrix.
    is_expansion : bool, default=True
        Whether a model is made of the dual variables, also where the kernel is linear.
    """

    kind: ClassVar[str] = "one-vs-one"

    def __init__(
        self, gram: PairGram, C: Array, *, loss: type[FreeBiasSVM], has_bias: bool = True, is_expansion: bool = True
    ) -> None:
        own: dict[str, Any] = {"has_bias": has_bias, "is_expansion": is_expansion}

        def pose(rows: Array, y: Array, C: Array) -> FreeBiasSVM:
            return loss(gram.of_rows(rows), y, C=C, **own)

        super().__init__(pose, gram.codes, gram.k, C)
        self.shared, self.has_bias, self._is_expansion = gram, has_bias, is_expansion or not gram.is_linear
        blocks: Any = PairBlocks(gram, self.entries)
        self.whole = (HingePairs if loss is HingeSVM else L2Pairs)(
            blocks, self.entries.y, C=self.C[self.entries.row], has_bias=has_bias
        )
        self.whole.entries = self.entries

    @property
    def gram(self) -> PairGram:  # type: ignore[override]
        """The kernel matrix of all pairs."""
        return self.shared

    @property
    def is_expansion(self) -> bool:  # type: ignore[override]
        """Whether models are expansions over samples."""
        return self._is_expansion

    @property
    def grams(self) -> list[Any]:
        """The kernel matrices whose values are a part of the state."""
        return [self.shared, *super().grams]

    def pair_points(self, alpha: Array, scores: Array) -> list[BiasPoint]:
        """Return one point per pair, of the dual variables and the scores of all entries: each with its best bias."""
        split, whole = self.entries.split, self.whole
        if not self.has_bias:
            return self.points_at(alpha, np.zeros(len(self.parts)))
        each = zip(split(whole.y - scores), split(whole.y), split(whole.C), strict=True)
        return self.points_at(alpha, np.array([whole.bias_at(z, y, C) for z, y, C in each]))

    def points_at(self, alpha: Array, biases: Array) -> list[BiasPoint]:
        """Return one point per pair, of the dual variables of all entries and the bias of every pair."""
        return [BiasPoint(*mine) for mine in zip(self.entries.split(alpha), biases.tolist(), strict=True)]

    def scores(self, u: Array) -> Array:
        """Return the scores of all entries at dual variables with their signs; (N,)."""
        entries = self.entries
        return np.asarray(self.shared.pair_scores(entries.table(u))[entries.sample, entries.other])

    def zero(self) -> list[Any]:
        """Return the zero of every pair."""
        return self.pair_points(np.zeros(len(self.entries)), np.zeros(len(self.entries)))

    def signed(self, point: Sequence[BiasPoint]) -> Array:
        """Return the dual variables of all entries with their signs; (N,)."""
        return np.asarray(self.whole.y * np.concatenate([mine.alpha for mine in point]))

    def free_bias(self, point: Sequence[BiasPoint]) -> Array:
        """Return the free bias of every pair."""
        return np.array([mine.bias for mine in point])

    def feasible(self, alpha: Array) -> Array:
        """Return feasible dual variables near these; (N,)."""
        return self.whole._inside(alpha)[0]

    def certificate(self, point: Sequence[BiasPoint]) -> Certificate:
        """Certify one point per pair: primal values and bounds are summed over all entries."""
        alpha = np.concatenate([mine.alpha for mine in point])
        bias: Any = self.free_bias(point)[self.entries.pair]
        return self.whole.certificate(BiasPoint(alpha, bias))

    def warm_point(self, dual: Array) -> list[Any] | None:
        """Return a feasible point near the dual variables of a model; None where they have another shape."""
        if not self._fits(dual):
            return None
        y = self.whole.y
        alpha = self.feasible(y * np.concatenate(self._columns_of(dual)))
        return list(self.pair_points(alpha, self.scores(y * alpha)))

    def expansion_point(self, dual: Array, intercept: Array) -> list[Any]:
        """Return the point that the dual variables (n, k - 1) and intercepts of a model are, feasible or not."""
        u = np.concatenate(self._columns_of(dual))
        free = intercept - self.shared.bias**2 * self.entries.sums(u)
        alpha = self.entries.split(self.whole.y * u)
        return [BiasPoint(mine, float(b)) for mine, b in zip(alpha, free if self.has_bias else 0.0 * free, strict=True)]

    def expansion(self, point: Sequence[BiasPoint]) -> Expansion:
        """Return the kernel model that a point is: samples with a nonzero dual variable, class by class."""
        gram, dual = self.shared, self.dual_columns(point)
        support = self.entries.order[dual[self.entries.order].any(axis=1)]
        vectors = gram.vectors(support)
        intercept = gram.bias**2 * self.entries.sums(self.signed(point)) + self.free_bias(point)
        return Expansion(gram.kernel, vectors, support, gram.n, dual[support], intercept)

    def coef_and_intercept(self, point: Sequence[BiasPoint]) -> tuple[Array, Array]:
        """Return the weights of a linear kernel, (n_pairs, d), and the biases."""
        from scipy.sparse import csr_matrix

        entries, X = self.entries, self.shared.X
        u = csr_matrix((self.signed(point), (entries.pair, entries.row)), shape=(len(point), X.shape[0]))
        coef = u @ X
        return coef if isinstance(coef, np.ndarray) else coef.toarray(), self.free_bias(point)

    def model(self, point: Any, classes: Array, info: Mapping[str, Any] | None = None) -> Any:
        """Return the model that a point is."""
        if not self.is_expansion:
            return super().model(point, classes, info)
        kernel, vectors, support, n, coef, intercept = self.expansion(point)
        counts = np.bincount(self.entries.codes[support], minlength=self.entries.k)
        return OneVsOne(classes, kernel, vectors, counts, coef, intercept, info or {}, support, n)

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel and the prices."""
        gram = self.shared
        settings = ("one-vs-one", self.whole.name, self.has_bias, gram.bias, gram.kernel)
        return digest_of(settings, gram.X, self.entries.codes, self.C)
