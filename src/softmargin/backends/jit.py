"""The only door to Numba: how a loop is compiled, and how compiled loops call methods of plain NamedTuples.

A matrix, a loss or a block solver is a NamedTuple with ordinary methods. ``@compiled_struct("scores", ...)`` lets
``@jit`` code call the methods it names, so each loop is written once and specialised by Numba for every struct it
meets. Structs are tuples: they pickle, hit the disk cache, and run as plain Python under ``NUMBA_DISABLE_JIT=1``.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit, types
from numba.extending import overload_method

__all__ = ["compiled_struct", "inline", "jit"]

# Sums may be reordered and fused so that they vectorise; NaN and infinity keep their IEEE meaning.
FASTMATH = {"reassoc", "contract", "nsz"}

T = TypeVar("T")
_signatures: dict[str, inspect.Signature] = {}


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop: cached on disk, without the GIL, sums free to vectorise."""
    return njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")(function)


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper of such loops into its caller: a call with many arguments costs more than a block."""
    return njit(nogil=True, fastmath=FASTMATH, error_model="numpy", forceinline=True)(function)


def compiled_struct(*names: str, **shared: Callable[..., Any]) -> Callable[[type[T]], type[T]]:
    """Let compiled code call the named methods of a NamedTuple class, and give it methods shared with other structs.

    One compiled name has one signature in the whole library; a second one is refused. A name must not be a field of
    another struct: compiled code would find the method first.
    """

    def register(cls: type[T]) -> type[T]:
        for name, function in shared.items():
            setattr(cls, name, function)
        for name in (*names, *shared):
            signature = inspect.signature(getattr(cls, name))
            known = _signatures.setdefault(name, signature)
            if known is signature:
                _overload(name, signature)
            elif [*known.parameters] != [*signature.parameters]:
                raise TypeError(f"{cls.__name__}.{name}{signature}: {name} is already compiled as {name}{known}")
        return cls

    return register


def _overload(name: str, signature: inspect.Signature) -> None:
    def resolve(self: Any, *args: Any) -> Any:
        return getattr(self.instance_class, name, None)

    resolve.__signature__ = signature  # type: ignore[attr-defined]
    options = {"fastmath": FASTMATH, "error_model": "numpy", "forceinline": True}
    overload_method(types.BaseNamedTuple, name, strict=False, jit_options=options)(resolve)
