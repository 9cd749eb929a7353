"""Who is measured by ``scaling.py``, and on which made-up data: problems that stay as hard as they grow."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

TOL = 1e-3
STRENGTH = 400.0  # C n
_SMALL = {"n": 1000, "d": 4000, "k": 3, "per_row": 40}
_USEFUL = 20  # features of sparse data that make the labels
_RANK = 5  # of the weights behind the targets

Sizes = dict[str, int]


class Contender(NamedTuple):
    """An estimator from the sizes, its data, the sizes that stay, and those that are tried on each axis."""

    make: Callable[[Sizes, float], Any]
    data: Callable[[Sizes], tuple[Any, Any]]
    base: Sizes
    grids: dict[str, Sequence[int]]


def small(sizes: Sizes) -> Sizes:
    """Return sizes that compile what the given ones need: "auto" goes by d, and two classes are a case of their own."""
    return {name: min(size, _SMALL[name]) for name, size in sizes.items()}


def doubled(first: int, times: int, factor: int = 2) -> list[int]:
    """Return a geometric grid."""
    return [first * factor**power for power in range(times)]


def dense(sizes: Sizes) -> tuple[Any, Any]:
    """Return overlapping Gaussian classes whose means are as far apart whatever d is."""
    from softmargin.data.synthetic import blobs

    return blobs(sizes["n"], sizes["d"], sizes["k"], seed=0, separation=3.0 / np.sqrt(sizes["d"]))


def sparse(sizes: Sizes) -> tuple[Any, Any]:
    """Return sparse rows of a fixed length: a few features make the labels, ``per_row`` others are noise."""
    from scipy.sparse import csr_matrix, hstack

    n, d, k, per_row = (sizes[name] for name in ("n", "d", "k", "per_row"))
    rng = np.random.default_rng(0)
    useful = np.where(rng.random((n, _USEFUL)) < 0.5, rng.standard_normal((n, _USEFUL)), 0.0)
    values = np.sqrt(_USEFUL / per_row) * rng.standard_normal(n * per_row)
    columns = rng.integers(d - _USEFUL, size=n * per_row)
    noise = csr_matrix((values, columns, np.arange(0, n * per_row + 1, per_row)), shape=(n, d - _USEFUL))
    noise.sum_duplicates()
    scores = useful @ rng.standard_normal((_USEFUL, k)) + rng.standard_normal((n, k))
    y = scores.argmax(axis=1)
    y[:k] = np.arange(k)  # every class is there
    return hstack([csr_matrix(useful), noise], format="csr"), y


def low_rank(sizes: Sizes) -> tuple[Any, Any]:
    """Return targets X W0 + noise; W0 has equal singular values, and the noise as much in all whatever k is."""
    n, d, k = (sizes[name] for name in ("n", "d", "k"))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    left, right = (np.linalg.qr(rng.standard_normal((size, min(_RANK, k))))[0] for size in (d, k))
    return X, X @ left @ right.T + rng.standard_normal((n, k)) / np.sqrt(k)


def _linear(sizes: Sizes, cap: float) -> Any:
    from softmargin import LinearSVC

    return LinearSVC(C=STRENGTH / sizes["n"], tol=TOL, max_seconds=cap, random_state=0)


def _kernel(sizes: Sizes, cap: float) -> Any:
    from softmargin import KernelSVC

    # With C n constant, every row would end up a support vector at its bound.
    return KernelSVC(C=1.0, approximation=None, tol=TOL, max_seconds=cap, random_state=0)


def _softmax(l1_ratio: float) -> Callable[[Sizes, float], Any]:
    def make(sizes: Sizes, cap: float) -> Any:
        from softmargin import SoftmaxRegression

        return SoftmaxRegression(C=STRENGTH / sizes["n"], l1_ratio=l1_ratio, tol=TOL, max_seconds=cap, random_state=0)

    return make


def _l1_ball(sizes: Sizes, cap: float) -> Any:
    from softmargin import L1BallClassifier

    return L1BallClassifier(radius=float(sizes["k"]), tol=TOL, max_seconds=cap, random_state=0)


def _trace_ball(sizes: Sizes, cap: float) -> Any:
    from softmargin import TraceBallRegressor

    return TraceBallRegressor(radius=0.9 * min(_RANK, sizes["k"]), tol=TOL, max_seconds=cap, random_state=0)


_DENSE = {"n": 4000, "d": 100, "k": 8}
_SPARSE = {"n": 4000, "d": 8000, "k": 8, "per_row": 40}
_DENSE_GRIDS = {"n": doubled(1000, 8), "d": doubled(50, 8), "k": doubled(2, 7)}
_SPARSE_GRIDS = {"n": doubled(1000, 8), "d": doubled(1000, 6, 4), "k": doubled(2, 7), "nnz": doubled(10, 7)}

CONTENDERS = {
    "LinearSVC dense": Contender(_linear, dense, _DENSE, _DENSE_GRIDS),
    "LinearSVC sparse": Contender(_linear, sparse, _SPARSE, _SPARSE_GRIDS),
    "KernelSVC rbf": Contender(_kernel, dense, {"n": 2000, "d": 20, "k": 4}, {"n": doubled(500, 8)}),
    "Softmax l2 dense": Contender(_softmax(0.0), dense, _DENSE, _DENSE_GRIDS),
    "Softmax l2 sparse": Contender(_softmax(0.0), sparse, _SPARSE, _SPARSE_GRIDS),
    "Softmax l1 sparse": Contender(_softmax(1.0), sparse, _SPARSE, _SPARSE_GRIDS),
    "L1Ball sparse": Contender(_l1_ball, sparse, _SPARSE, _SPARSE_GRIDS),
    "TraceBall": Contender(_trace_ball, low_rank, {"n": 2000, "d": 100, "k": 40}, {"k": doubled(10, 8)}),
}
