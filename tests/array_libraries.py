"""Array libraries other than NumPy: what puts arrays on their devices, or skips where they are not installed."""

import pytest

NOT_HERE = "not installed: the other libraries stand for it"


def strict():
    """Return what puts NumPy arrays on a device of array-api-strict."""
    xp = pytest.importorskip("array_api_strict", reason=NOT_HERE)
    return lambda values: xp.asarray(values, device=xp.Device("device1"))


def _jax():
    jax = pytest.importorskip("jax", reason=NOT_HERE)
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray


def _torch(device):
    torch = pytest.importorskip("torch", reason=NOT_HERE)
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return lambda values: torch.asarray(values, device=device)


def _cupy():
    return pytest.importorskip("cupy", reason=NOT_HERE).asarray


LIBRARIES = {
    "strict": strict,
    "jax": _jax,
    "torch_cpu": lambda: _torch("cpu"),
    "torch_cuda": lambda: _torch("cuda"),
    "cupy": _cupy,
}
ON_GPU = ("torch_cuda", "cupy")
