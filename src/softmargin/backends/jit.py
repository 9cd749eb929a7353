"""How a loop is compiled by Numba, and how compiled loops call methods of plain NamedTuples.

A matrix, a loss or a block solver is a NamedTuple with ordinary methods. ``@compiled_struct("scores", ...)`` lets
``@jit`` code call the methods it names, so each loop is written once and Numba specialises it for every struct it is
called with. Structs are tuples: they pickle, hit the disk cache, and run as plain Python under ``NUMBA_DISABLE_JIT=1``.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from numba import config, njit, types
from numba.core.caching import FunctionCache
from numba.extending import overload, overload_method

__all__ = ["compiled_struct", "inline", "jit"]

# Sums may be reordered and fused so that they vectorise; NaN and infinity keep their IEEE meaning.
FASTMATH = {"reassoc", "contract", "nsz"}
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
# Python never calls what is compiled into a loop.
_INLINED = _OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any]
_signatures: dict[str, inspect.Signature] = {}


class _StructCache(FunctionCache):
    """Numba's disk cache, with structs identified by their name and the code of their compiled methods.

    Numba's own key is the class of the struct: it misses an edited method, and it cannot read the index at all where
    one of the classes in it, perhaps a user's penalty, cannot be imported.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code stored for a signature, or None."""
        return super().load_overload(sig, target_context) if all(map(_is_importable, _structs(sig))) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled signature, unless a later run could not import its structs."""
        if all(map(_is_importable, _structs(sig))):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        structs = "".join(f"{cls.__module__}.{cls.__qualname__}:{_digest(cls)};" for cls in _structs(sig))
        return (f"{sig} {structs}", *super()._index_key(sig, codegen)[1:])


def _structs(kind: Any) -> Iterator[type]:
    """Yield the classes of all structs in a signature, also of structs within structs."""
    if isinstance(kind, types.BaseNamedTuple):
        yield kind.instance_class
    if isinstance(kind, tuple | types.BaseTuple):
        for member in kind:
            yield from _structs(member)


def _is_importable(cls: type) -> bool:
    return cls.__module__ != "__main__" and getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls


def _digest(cls: type) -> str:
    codes = (getattr(getattr(cls, name, None), "__code__", None) for name in sorted(_signatures))
    parts = [(code.co_code, code.co_names, code.co_consts) for code in codes if code is not None]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def jit(function: Function) -> Function:
    """Compile a loop: cached on disk, without the GIL, sums free to vectorise."""
    compiled: Function = njit(**_OPTIONS)(function)
    if not config.DISABLE_JIT:
        compiled._cache = _StructCache(function)  # type: ignore[attr-defined]
    return compiled


def inline(function: F) -> F:
    """Compile a helper of such loops into its caller: a call with many arguments costs more than a block step.

    Called by Python, the helper runs as plain Python.
    """
    overload(function, jit_options=_INLINED, strict=False)(_resolver(function, lambda *args: function))
    return function


def compiled_struct(*names: str, **shared: Function) -> Callable[[type[T]], type[T]]:
    """Let compiled code call the named methods of a NamedTuple class, and give it methods shared with other structs.

    One compiled name has one signature in the whole library; a second one is refused. A name must not be a field of
    another struct: compiled code would find the method first.
    """

    def register(cls: type[T]) -> type[T]:
        for name, function in shared.items():
            setattr(cls, name, function)
        for name in (*names, *shared):
            method = getattr(cls, name)
            signature = inspect.signature(method)
            known = _signatures.setdefault(name, signature)
            if known is signature:
                chosen = _resolver(method, lambda self, *args, name=name: getattr(self.instance_class, name, None))
                overload_method(types.BaseNamedTuple, name, strict=False, jit_options=_INLINED)(chosen)
            elif [*known.parameters] != [*signature.parameters]:
                raise TypeError(f"{cls.__name__}.{name}{signature}: {name} is already compiled as {name}{known}")
        return cls

    return register


def _resolver(function: Function, resolve: Function) -> Function:
    """Give ``resolve`` the signature of what it resolves to: Numba compares them."""
    resolve.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return resolve
