"""CSR matrices of libraries with devices, PyTorch's and CuPy's: the few verbs that differ between them.

    is_sparse(X)           whether X is a sparse matrix of one of them
    csr_home(X)            where it lies; a layout that is not CSR is refused
    parts_of(X)            indptr, indices, values
    csr_like(X, parts, shape)    a matrix of such parts, of the library of X
    transposed(X)          X' in CSR

A product with an array is ``X @ W`` in both.
"""

from typing import Any

from softmargin.backends.arrays import Home, home_of
from softmargin.core.errors import DataError

__all__ = ["csr_home", "csr_like", "is_sparse", "parts_of", "to_scipy", "transposed"]


def is_sparse(X: Any) -> bool:
    """Say whether X is a sparse matrix of PyTorch or CuPy; it imports nothing."""
    root = type(X).__module__.partition(".")[0]
    return root == "cupyx" or (root == "torch" and "sparse" in str(getattr(X, "layout", "")))


def _is_torch(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "torch"


def csr_home(X: Any, name: str = "X") -> Home:
    """Return where a sparse matrix lies; refuse other layouts than CSR."""
    layout = str(X.layout).removeprefix("torch.") if _is_torch(X) else f"{X.format} matrix"
    if layout not in ("sparse_csr", "csr matrix"):
        advice = "to_sparse_csr()" if _is_torch(X) else "tocsr()"
        raise DataError(f"{name} is sparse in the layout {layout}; CSR is computed with. Pass {name}.{advice}.")
    if getattr(X, "requires_grad", False):
        raise DataError(f"{name} requires gradients, which a fit to a certificate has none of; pass {name}.detach().")
    return home_of(parts_of(X)[2], name)


def parts_of(X: Any) -> tuple[Any, Any, Any]:
    """Return indptr, indices and values."""
    return (X.crow_indices(), X.col_indices(), X.values()) if _is_torch(X) else (X.indptr, X.indices, X.data)


def csr_like(X: Any, parts: tuple[Any, Any, Any], shape: tuple[int, int]) -> Any:
    """Return the CSR matrix of indptr, indices and values, of the library of X."""
    indptr, indices, values = parts
    if _is_torch(X):
        import torch

        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)
    return type(X)((values, indices, indptr), shape=shape)


def transposed(X: Any) -> Any:
    """Return X' in CSR: a product with it adds up in a fixed order."""
    return X.t().to_sparse_csr() if _is_torch(X) else X.T.tocsr()


def to_scipy(X: Any) -> Any:
    """Return a CSR matrix of SciPy with the same numbers."""
    from scipy.sparse import csr_matrix

    from softmargin.backends.arrays import to_numpy

    indptr, indices, values = (to_numpy(part) for part in parts_of(X))
    return csr_matrix((values, indices, indptr), shape=tuple(X.shape))
