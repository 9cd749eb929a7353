"""``check_kernel``: symmetric, as definite as it says, the same values in blocks, by rows and in every layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from softmargin.kernels import Points

__all__ = ["check_kernel"]

Array = NDArray[Any]
CLOSE = 1e-12
SINGLE = 3e-6  # what float32 may lose
INDEFINITE = 1e-10  # share of the largest value that a negative eigenvalue may have by rounding


def check_kernel(kernel: Any, *, n: int = 40, d: int = 5, seed: int = 0) -> None:
    """Hold a kernel to the contract of ``softmargin.kernels``.

    block           has a finite value for each pair; k(a, b) = k(b, a); a part of a block is the block of the parts
    diagonal        is that of the block, in float64
    is_psd          true only where no eigenvalue is negative, as far as n rows can tell
    layouts         CSR rows give the values of dense ones; float32 rows give them in float32

    Parameters
    ----------
    kernel : object
        With ``name``, ``is_psd``, ``block(left, right)`` and ``diagonal(points)``.
    n, d : int
        Rows and features to try it on.
    seed : int, default=0
        Of these rows.
    """
    rng = np.random.default_rng(seed)
    # Numbers that float32 holds exactly; zeros, so that CSR differs; a row of nothing, and one twice.
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32).astype(np.float64)
    X[0], X[1] = 0.0, X[2]
    points = Points(X)
    K = np.asarray(kernel.block(points, points))
    scale = max(float(np.abs(K).max(initial=0.0)), 1.0)

    def demand(found: Array, expected: Array, what: str, share: float = CLOSE) -> None:
        if found.shape != expected.shape or not np.abs(found - expected).max(initial=0.0) <= share * scale:
            raise AssertionError(f"{kernel!r}: {what}.")

    if K.shape != (n, n) or not np.isfinite(K).all():
        raise AssertionError(f"{kernel!r}: the block of {n} rows has shape {K.shape}, or values that are not finite.")
    demand(K.T, K, "k(a, b) is not k(b, a)")
    diagonal = np.asarray(kernel.diagonal(points))
    if diagonal.dtype != np.float64:
        raise AssertionError(f"{kernel!r}: the diagonal is {diagonal.dtype}, not float64.")
    demand(diagonal, np.diagonal(K), "the diagonal is not that of the block")
    some, others = rng.permutation(n)[: n // 3], rng.permutation(n)[: n // 2]
    part = np.asarray(kernel.block(points.take(some), points.take(others)))
    demand(part, K[np.ix_(some, others)], "the block of some rows is not that part of the whole block")
    if kernel.is_psd and not np.linalg.eigvalsh(K)[0] >= -INDEFINITE * scale:
        raise AssertionError(f"{kernel!r}: is_psd, but an eigenvalue is {np.linalg.eigvalsh(K)[0]}.")
    sparse = Points(csr_matrix(X))
    demand(np.asarray(kernel.block(sparse, sparse)), K, "CSR rows give other values than dense ones")
    single = Points(X.astype(np.float32))
    narrow = np.asarray(kernel.block(single, single))
    if narrow.dtype != np.float32:
        raise AssertionError(f"{kernel!r}: float32 rows give values of type {narrow.dtype}.")
    demand(narrow, K, "float32 rows give other values than float64 ones", SINGLE)
