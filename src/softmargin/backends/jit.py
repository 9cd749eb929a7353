"""How a loop is compiled by Numba, and how compiled loops call methods of plain NamedTuples.

A matrix, a loss or a block solver is a NamedTuple with ordinary methods. ``@compiled_struct("scores", ...)`` lets
``@jit`` code call the methods it names, so each loop is written once and Numba specialises it for every struct it is
called with. Structs are tuples: they pickle, hit the disk cache, and run as plain Python under ``NUMBA_DISABLE_JIT=1``.
"""

import hashlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config, njit, types
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.extending import overload, overload_method

import softmargin
from softmargin.backends.disk_cache import CodeFiles, code_folder
from softmargin.core.warn import warn_caller

__all__ = ["compiled_struct", "inline", "inline_in_order", "jit"]

# Sums may be reordered and fused so that they vectorise; NaN and infinity keep their IEEE meaning. A loop that writes
# to one array and sums entries of another has both orders, and takes one by how far the arrays are apart: first write,
# then sum.
FASTMATH = {"reassoc", "contract", "nsz"}
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
# Python never calls what is compiled into a loop.
_INLINED = _OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_IN_ORDER = _INLINED | {"fastmath": FASTMATH - {"reassoc"}}

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any]
_signatures: dict[str, inspect.Signature] = {}


class _StructCache(FunctionCache):
    """A disk cache for Numba, with structs identified by their name and the code of their compiled methods.

    Numba's own key is the class of the struct: it misses an edited method, and it cannot read the index at all where
    one of the classes in it, perhaps a user's penalty, cannot be imported. Its own files break a fit where they are
    damaged, where the disk is full, or where no folder can be written to; here the loop is then compiled, and one
    warning says so.
    """

    has_warned = False

    def __init__(self, function: Function) -> None:
        self._py_func = function
        self._source = os.path.abspath(inspect.getfile(function))
        # Of now: the file may change before the function is compiled.
        self._stamp = _stamp(self._source)

    @cached_property
    def _files(self) -> CodeFiles | None:
        if not self._stamp:  # typed at a prompt
            return None
        code = self._py_func.__code__
        module = os.path.splitext(os.path.basename(self._source))[0]
        name = f"{module}.{code.co_qualname.replace('<', '').replace('>', '')}-{code.co_firstlineno}"
        try:
            folder = code_folder(Path(self._source).parent, config.CACHE_DIR)
        except OSError as problem:
            self._warn(str(problem))
            return None
        return CodeFiles(folder, f"{name}.{sys.implementation.cache_tag}", self._stamp)

    @property
    def cache_path(self) -> str | None:
        """The folder, as Numba's statistics show it."""
        return str(self._files.folder) if self._files else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code stored for a signature, or None."""
        if not self._files or not all(map(_is_importable, _structs(sig))):
            return None
        target_context.refresh()
        stored = self._files.load(self._key(sig, target_context.codegen()))
        return None if stored is None else CompileResult._rebuild(target_context, *pickle.loads(stored))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled signature, unless a later run could not import its structs."""
        is_movable = not data.library.has_dynamic_globals and all(part.can_cache for part in data.lifted)
        if self._files and is_movable and all(map(_is_importable, _structs(sig))):
            try:
                self._files.save(self._key(sig, data.codegen), dumps(data._reduce()))
            except OSError as problem:
                self._warn(f"{self._files.folder}: {problem}")

    def flush(self) -> None:
        """Forget the stored code."""
        if self._files:
            self._files.clear()

    def _key(self, sig: Any, codegen: Any) -> str:
        structs = "".join(f"{cls.__module__}.{cls.__qualname__}:{_digest(cls)};" for cls in _structs(sig))
        return repr((f"{sig} {structs}", *self._index_key(sig, codegen)[1:]))

    @classmethod
    def _warn(cls, problem: str) -> None:
        if not cls.has_warned:
            cls.has_warned = True
            warn_caller(
                f"compiled loops are not kept on disk ({problem}), so that every process compiles them again, which "
                "takes seconds. Set NUMBA_CACHE_DIR to a folder of your own.",
                RuntimeWarning,
            )


@cache
def _stamp(source: str) -> bytes:
    """Return what compiled code depends on beside its key; nothing where the source is no file."""
    try:
        content = Path(source).read_bytes()
    except OSError:
        return b""
    # Helpers and structs of other files are compiled into a loop: another version may have changed them.
    return f"{softmargin.__version__} {numba.__version__} ".encode() + hashlib.sha256(content).digest()


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
    return _inlined(function, _INLINED)


def inline_in_order(function: F) -> F:
    """Compile such a helper with sums in the order it has them, which keeps a loop from vectors.

    Where a sum takes numbers from many places, vectors of them are slower than one number after the other.
    """
    return _inlined(function, _IN_ORDER)


def _inlined(function: F, options: dict[str, Any]) -> F:
    overload(function, jit_options=options, strict=False)(_resolver(function, lambda *args: function))
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
