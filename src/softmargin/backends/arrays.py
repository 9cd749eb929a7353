"""Arrays of other libraries than NumPy, by the array API standard: the one place that knows them.

    is_foreign(X)       whether X is an array of another library: PyTorch, CuPy, JAX, array-api-strict
    home_of(X)          its namespace and device, a ``Home``; refuses what cannot be computed with
    same_home(X, y)     the same, for arrays that must lie on one device
    moved(X, device)    a NumPy array or a sparse matrix as a PyTorch tensor on that device
    to_numpy(X)         the values in the memory of the processor
    on_host(X, who)     the same, where X lies there; else it is refused
    is_dask(X, y)       whether one of these is a Dask collection, whose rows may lie on other machines

    home.array(v)       NumPy values there, in their own type
    home.wide(x)        the same numbers in float64
    home.inverse(S)     S^-1 of a positive definite matrix
    home.stacked(parts) strips of rows as one matrix
    home.fused          kernels that do in one pass what the library does in many; None where there are none
    home.free_bytes     memory that the device has left; None where it does not tell

Everything else is called by its name in the standard (``home.xp.exp``). Arrays are never written to, as those of JAX
cannot be; new ones name their type and device.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from softmargin.core.errors import DataError, IncompatibleError

__all__ = ["Home", "home_of", "is_dask", "is_foreign", "moved", "on_host", "same_home", "to_numpy"]

Array = NDArray[Any]
_LIBRARIES = (
    "torch",
    "cupy",
    "cupyx",
    "jax",
    "jaxlib",
    "array_api_strict",
)  # those that may not name a namespace themselves
_LEAF = 1024  # rows of a matrix that is inverted by the library itself; by hand
_NEEDED = (
    *("asarray", "astype", "take", "concat", "where", "matmul", "matrix_transpose", "sum", "max", "sort"),
    *(
        "cumulative_sum",
        "argmax",
        "maximum",
        "minimum",
        "abs",
        "exp",
        "log",
        "log1p",
        "tanh",
        "pow",
        "isfinite",
        "all",
        "any",
    ),
    *("mean", "reshape", "ones_like", "zeros_like", "full", "eye", "arange", "isdtype"),
)


class Home(NamedTuple):
    """Where arrays lie."""

    xp: Any  # the namespace
    device: Any

    def array(self, values: Any) -> Any:
        """Return a copy of NumPy values here, of the same type."""
        return self.xp.asarray(np.ascontiguousarray(values), device=self.device, copy=True)

    def wide(self, x: Any) -> Any:
        """Return x in float64."""
        return self.xp.astype(x, self.xp.float64, copy=False)

    def full(self, shape: tuple[int, ...], value: float) -> Any:
        """Return a float64 array of one value."""
        return self.xp.full(shape, value, dtype=self.xp.float64, device=self.device)

    def stacked(self, strips: Iterator[Any], shape: tuple[int, int]) -> Any:
        """Return strips of rows as one matrix; where arrays can be written to, no strip is kept beside it."""
        if not self.is_writable:
            return self.xp.concat(list(strips), axis=0)
        whole, first = None, 0
        for strip in strips:
            whole = strip.new_empty(shape) if whole is None else whole
            whole[first : first + len(strip)] = strip
            first += len(strip)
        return whole

    def inverse(self, S: Any) -> Any:
        """Return the inverse of a symmetric and positive definite matrix, of any other anything.

        It is made by halves, S = [[A, B], [B', D]]: products alone, which a device is made for.

            W = A^-1 B,   P = (D - B' W)^-1,   V = W P :     S^-1 = [[A^-1 + V W', -V], [-V', P]]

        Every block that is inverted is positive definite where S is, and no worse conditioned.
        """
        xp, h = self.xp, S.shape[0] // 2
        if h < _LEAF:
            return self._small_inverse(S)
        B = S[:h, h:]
        A = self.inverse(S[:h, :h])
        W = xp.matmul(A, B)
        P = self.inverse(S[h:, h:] - xp.matmul(xp.matrix_transpose(B), W))
        V = xp.matmul(W, P)
        upper = xp.concat([A + xp.matmul(V, xp.matrix_transpose(W)), -V], axis=1)
        return xp.concat([upper, xp.concat([-xp.matrix_transpose(V), P], axis=1)], axis=0)

    def _small_inverse(self, S: Any) -> Any:
        if _compat().is_torch_namespace(self.xp):
            import torch

            return torch.cholesky_inverse(torch.linalg.cholesky_ex(S)[0])  # neither waits for the device nor raises
        return self.xp.linalg.inv(S)

    @property
    def is_writable(self) -> bool:
        """Whether arrays are written to here, in ``stacked`` alone."""
        return bool(_compat().is_torch_namespace(self.xp))

    @property
    def is_torch_cuda(self) -> bool:
        """Whether arrays are tensors of PyTorch on a GPU of NVIDIA or AMD."""
        return bool(_compat().is_torch_namespace(self.xp)) and self.device.type == "cuda"

    @property
    def fused(self) -> Any:
        """The module of fused kernels, where they can be used: on CUDA, with PyTorch and Triton; else None."""
        if not self.is_torch_cuda:
            return None
        try:
            from softmargin.backends import fused
        except ImportError:
            return None
        return fused if fused.is_usable(self.device) else None

    @property
    def free_bytes(self) -> int | None:
        """How many bytes the device has left for arrays, those its library keeps for reuse included."""
        if self.is_torch_cuda:
            import torch

            kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            return int(torch.cuda.mem_get_info(self.device)[0]) + int(kept)
        if _compat().is_cupy_namespace(self.xp):
            import cupy

            with self.device:
                return int(cupy.cuda.runtime.memGetInfo()[0]) + int(cupy.get_default_memory_pool().free_bytes())
        return None


def _compat() -> Any:
    try:
        import array_api_compat
    except ImportError as error:
        raise IncompatibleError(
            "arrays of other libraries than NumPy need array-api-compat: pip install 'softmargin[gpu]'."
        ) from error
    return array_api_compat


def is_foreign(X: Any) -> bool:
    """Say whether X is an array of another library than NumPy; it costs nothing."""
    if isinstance(X, np.ndarray | np.generic | list | tuple) or not hasattr(X, "dtype"):
        return False
    return type(X).__module__.partition(".")[0] in _LIBRARIES or hasattr(X, "__array_namespace__")


def is_dask(*collections: Any) -> bool:
    """Say whether any of these is a Dask collection; it imports nothing."""
    return any(type(each).__module__.partition(".")[0] in ("dask", "dask_expr") for each in collections)


def home_of(X: Any, name: str = "X") -> Home:
    """Return where a foreign array lies; refuse what cannot be computed with, and say what to do."""
    compat = _compat()
    try:
        xp = compat.array_namespace(X)
    except TypeError as error:
        raise IncompatibleError(f"{name} is a {type(X).__name__}, which follows no array API; pass NumPy's.") from error
    if getattr(X, "requires_grad", False):
        raise DataError(f"{name} requires gradients, which a fit to a certificate has none of; pass {name}.detach().")
    home = Home(xp, compat.device(X))
    if str(home.device) == "meta":  # of PyTorch: shapes alone
        raise DataError(f"{name} lies on the device meta, which holds no values; load them first.")
    missing = [each for each in _NEEDED if not hasattr(xp, each)]
    missing += [] if hasattr(getattr(xp, "linalg", None), "inv") else ["linalg.inv"]
    if missing:
        raise IncompatibleError(
            f"the array library {xp.__name__} lacks {', '.join(missing)}; update it and array-api-compat, or pass "
            "NumPy arrays."
        )
    if not _has_float64(home):
        raise IncompatibleError(
            f"{xp.__name__} has no float64 on {home.device}, which certificates are computed in; for JAX, call "
            "jax.config.update('jax_enable_x64', True) first, else use another device."
        )
    return home


def _has_float64(home: Home) -> bool:
    with warnings.catch_warnings():  # JAX warns, and takes float32
        warnings.simplefilter("ignore")
        try:
            return bool(home.full((1,), 0.0).dtype == home.xp.float64)
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return False


def same_home(X: Any, *others: tuple[str, Any]) -> Home:
    """Return where X lies; refuse another array (its name, the array) of another library or on another device."""
    home = home_of(X)
    for name, array in others:
        if is_foreign(array):
            found = home_of(array, name)
            if found != home:
                raise DataError(
                    f"X lies on {home.device} ({home.xp.__name__}), {name} on {found.device} ({found.xp.__name__}); "
                    f"move them to one device, or pass {name} as a NumPy array."
                )
    return home


def moved(X: Any, device: str) -> Any:
    """Return a NumPy array or a sparse matrix of SciPy as a PyTorch tensor on a device, dense or CSR."""
    try:
        import torch
    except (ImportError, OSError) as error:
        raise IncompatibleError(
            f"device={device!r} needs PyTorch, which cannot be imported ({error}); install it, or pass X as an array "
            "of the library you have."
        ) from error
    try:
        if issparse(X):
            rows = X.tocsr()
            parts = (rows.indptr, rows.indices, rows.data)
            there = [torch.asarray(part, device=torch.device(device), copy=True) for part in parts]
            return torch.sparse_csr_tensor(*there, size=rows.shape, check_invariants=False)
        return torch.asarray(np.ascontiguousarray(X), device=torch.device(device), copy=True)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise IncompatibleError(
            f"device={device!r} is not there: {reason} Use a device that torch.device knows and this machine has, or "
            "device=None."
        ) from error


def to_numpy(X: Any) -> Any:
    """Return a foreign array as one of NumPy's, anything else as it is."""
    if not is_foreign(X):
        return X
    compat = _compat()
    if compat.is_torch_array(X):
        return np.asarray(X.detach().cpu().numpy())
    if compat.is_cupy_array(X):
        return np.asarray(X.get())
    xp = compat.array_namespace(X)
    if compat.is_array_api_strict_namespace(xp):
        X = X.to_device(xp.Device("CPU_DEVICE"))
    return np.asarray(X)


def on_host(X: Any, who: str) -> Any:
    """Return X as a NumPy array where NumPy can read it; refuse it where it lies on another device, or on a cluster."""
    if is_dask(X):
        raise IncompatibleError(
            f"X is a Dask collection, and {who} needs all rows in one memory; pass X.compute() where they fit. "
            "LinearSVC, SoftmaxRegression, KernelSVC with landmarks and balls are fitted on a cluster."
        )
    if not is_foreign(X):
        return X
    device = _compat().device(X)
    if "cpu" not in str(device).lower():
        raise IncompatibleError(
            f"X lies on {device}, and {who} computes in the memory of the processor; pass a NumPy array."
        )
    return to_numpy(X)
