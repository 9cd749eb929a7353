"""Vectors of four float64 numbers, with which the hot loops are written.

Compilers vectorise a loop over 10 or 26 classes badly: the trip count is unknown, short and odd. So class axes are
padded to a multiple of ``WIDTH`` and the loops use vectors explicitly: ``load``, ``store``, ``splat``, ``+ - *``,
``where_greater``, ``maximum``, ``exp``, ``total``, ``largest``, ``any_nonzero``. LLVM lowers them to the registers of
the machine (one AVX, two NEON, ...). Under ``NUMBA_DISABLE_JIT=1`` they are NumPy arrays of length four.
"""

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numpy.typing import NDArray

from softmargin.backends.jit import inline

__all__ = [
    "WIDTH",
    "aligned",
    "any_nonzero",
    "exp",
    "fetch",
    "keep",
    "largest",
    "load",
    "log1p",
    "log1p_exp",
    "maximum",
    "padded",
    "pointer",
    "pointer_to",
    "splat",
    "store",
    "total",
    "where_greater",
    "zeros",
]

WIDTH = 4
N_TERMS = 16  # of the series of log1p: the next one is below the last digit
_ALIGNMENT = 64  # bytes of a cache line, so that no vector spans two of them


def padded(k: int) -> int:
    """Round ``k`` classes up to a whole number of vectors."""
    return -(-k // WIDTH) * WIDTH


def zeros(*shape: int) -> NDArray[np.float64]:
    """Allocate zeros that start on a cache line."""
    size = math.prod(shape)
    spare = _ALIGNMENT // 8
    raw = np.zeros(size + spare)
    skip = (-raw.__array_interface__["data"][0] % _ALIGNMENT) // 8
    return raw[skip : skip + size].reshape(shape)


def aligned(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Copy a flat array to one that starts on a cache line."""
    copy = zeros(array.size)
    copy[:] = array
    return copy


@inline
def keep(array: Any) -> int:
    """Use an array after its last use through a pointer, which Numba does not count: it would free the array before."""
    return int(array.size)


@inline
def log1p(e: float) -> float:
    """Return log(1 + e) for 0 <= e <= 1 with all digits, by a series without calls: a loop over it vectorises.

    log(1 + e) = 2 artanh(z) = 2 (z + z^3 / 3 + z^5 / 5 + ...),   z = e / (2 + e) <= 1/3
    """
    z = e / (2.0 + e)
    square = z * z
    series = 1.0 / (2 * N_TERMS + 1)
    for term in range(N_TERMS - 1, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return 2.0 * z * series


@inline
def log1p_exp(t: float) -> float:
    """Return log(1 + exp(t)), for any t."""
    return max(t, 0.0) + log1p(np.exp(-abs(t)))


class LanesType(types.Type):
    """The Numba type of a vector of ``WIDTH`` float64."""

    def __init__(self) -> None:
        super().__init__(name=f"lanes_{WIDTH}x_float64")


lanes = LanesType()
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_FLAGS = ("reassoc", "contract", "nsz")  # as in backends.jit.FASTMATH


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


for _operator, _opcode in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):

    @infer_global(_operator)
    class _Arithmetic(ConcreteTemplate):
        cases = [signature(lanes, lanes, lanes)]  # noqa: RUF012

    def _lower(context: Any, builder: Any, sig: Any, args: Any, _opcode: str = _opcode) -> Any:
        return getattr(builder, _opcode)(*args, flags=_FLAGS)

    lower_builtin(_operator, lanes, lanes)(_lower)


def _address(builder: Any, start: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(start, [offset]), _VECTOR.as_pointer())


def _reduced(builder: Any, vector: Any, combine: Any) -> Any:
    """Combine the lanes in pairs until one number is left."""
    parts = [builder.extract_element(vector, ir.Constant(ir.IntType(32), index)) for index in range(WIDTH)]
    while len(parts) > 1:
        parts = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@intrinsic
def _pointer(typingctx: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.make_array(sig.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


@intrinsic
def _pointer_to(typingctx: Any, array: Any, offset: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])

    return types.CPointer(array.dtype)(array, types.intp), codegen


def _instruction(result: Any, *operands: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of those types from a function ``emit(builder, *values)`` that writes LLVM code."""

    def register(emit: Callable[..., Any]) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = emit(builder, *args)
            return context.get_dummy_value() if value is None else value

        def typed(typingctx: Any, *args: Any) -> Any:
            return result(*operands), codegen

        typed.__name__ = emit.__name__
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # Numba refuses *args
        return intrinsic(typed)

    return register


_FLOATS = types.CPointer(types.float64)


@_instruction(lanes, _FLOATS, types.intp)
def _load(builder: Any, start: Any, offset: Any) -> Any:
    return builder.load(_address(builder, start, offset), align=8)


@_instruction(types.void, _FLOATS, types.intp, lanes)
def _store(builder: Any, start: Any, offset: Any, value: Any) -> None:
    builder.store(value, _address(builder, start, offset), align=8)


@_instruction(types.void, _FLOATS, types.intp)
def _fetch(builder: Any, start: Any, offset: Any) -> None:
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    reading, into_all_caches, data = (ir.Constant(number, value) for value in (0, 3, 1))
    builder.call(function, [builder.bitcast(builder.gep(start, [offset]), byte), reading, into_all_caches, data])


@_instruction(lanes, types.float64)
def _splat(builder: Any, value: Any) -> Any:
    vector = ir.Constant(_VECTOR, ir.Undefined)
    for index in range(WIDTH):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), index))
    return vector


@_instruction(lanes, lanes, lanes, lanes, lanes)
def _where_greater(builder: Any, left: Any, right: Any, yes: Any, no: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), yes, no)


def _greater(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


_maximum = _instruction(lanes, lanes, lanes)(_greater)


# exp(x) = 2^m exp(r), x = m log 2 + r, |r| <= log(2) / 2: Cody and Waite's two parts of log 2, then Taylor's series.
_LOG2 = (0.693147180369123816490, 1.90821492927058770002e-10)
_SERIES = [1.0 / math.factorial(power) for power in range(13, -1, -1)]
_SHIFT = 1.5 * 2.0**52
_SMALLEST, _LARGEST = -708.0, 709.0  # beyond these exp is no normal number: it is zero below, and constant above


@_instruction(lanes, lanes)
def _exp(builder: Any, x: Any) -> Any:
    def constant(value: float) -> Any:
        return ir.Constant(_VECTOR, [value] * WIDTH)

    def intrinsic_of(name: str, *operands: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(operands))
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{WIDTH}f64")
        return builder.call(function, operands)

    # Calls, as sums with the two parts of log 2 must not be reordered.
    def fused(a: Any, b: Any, c: Any) -> Any:
        return intrinsic_of("fma", a, b, c)

    integers = ir.VectorType(ir.IntType(64), WIDTH)
    # A NaN fails these comparisons and stays NaN.
    x = builder.select(builder.fcmp_ordered(">", x, constant(_LARGEST)), constant(_LARGEST), x)
    tiny = builder.fcmp_ordered("<", x, constant(_SMALLEST))
    x = builder.select(tiny, constant(_SMALLEST), x)
    # Near _SHIFT numbers are whole: the sum rounds x / log 2, and its last bits are those of the integer.
    shifted = fused(constant(1.0), builder.fmul(x, constant(1.0 / math.log(2.0))), constant(_SHIFT))
    m = fused(constant(1.0), shifted, constant(-_SHIFT))
    r = fused(m, constant(-_LOG2[0]), x)
    r = fused(m, constant(-_LOG2[1]), r)
    series = constant(_SERIES[0])
    for term in _SERIES[1:]:
        series = fused(series, r, constant(term))
    power = builder.shl(builder.bitcast(shifted, integers), ir.Constant(integers, [52] * WIDTH))
    value = builder.bitcast(builder.add(builder.bitcast(series, integers), power), _VECTOR)
    return builder.select(tiny, constant(0.0), value)


@_instruction(types.float64, lanes)
def _total(builder: Any, vector: Any) -> Any:
    return _reduced(builder, vector, builder.fadd)


@_instruction(types.float64, lanes)
def _largest(builder: Any, vector: Any) -> Any:
    return _reduced(builder, vector, lambda a, b: _greater(builder, a, b))


@_instruction(types.boolean, lanes)
def _any_nonzero(builder: Any, vector: Any) -> Any:
    mask = builder.fcmp_unordered("!=", vector, ir.Constant(_VECTOR, [0.0] * WIDTH))
    bits = builder.bitcast(mask, ir.IntType(WIDTH))
    return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))


total: Callable[[Any], float]
largest: Callable[[Any], float]

if config.DISABLE_JIT:

    def pointer(array: Any) -> Any:
        """View a flat array without its reference count: ``keep`` one that the loop allocates itself."""
        return array

    def pointer_to(array: Any, offset: int) -> Any:
        """View a C-ordered array from entry ``offset`` on, without its reference count."""
        return array.reshape(-1)[offset:]

    def load(array: Any, offset: int) -> Any:
        """Read ``WIDTH`` numbers of a flat array."""
        return array[offset : offset + WIDTH].copy()

    def store(array: Any, offset: int, value: Any) -> None:
        """Write ``WIDTH`` numbers into a flat array."""
        array[offset : offset + WIDTH] = value

    def fetch(array: Any, offset: int) -> None:
        """Ask for the cache line of an entry ahead of its use."""

    def splat(value: float) -> Any:
        """Repeat one number in every lane."""
        return np.full(WIDTH, value, dtype=np.float64)

    def where_greater(left: Any, right: Any, yes: Any, no: Any) -> Any:
        """Choose ``yes`` where ``left > right``, else ``no``, lane by lane."""
        return np.where(left > right, yes, no)

    def exp(vector: Any) -> Any:
        """Raise e to every lane; zero below the normal numbers, finite above."""
        return np.where(vector < _SMALLEST, 0.0, np.exp(np.clip(vector, _SMALLEST, _LARGEST)))

    maximum, total, largest, any_nonzero = np.maximum, np.sum, np.max, np.any
else:
    pointer, pointer_to, load, store, splat, fetch = _pointer, _pointer_to, _load, _store, _splat, _fetch
    maximum, total, largest, any_nonzero, exp = _maximum, _total, _largest, _any_nonzero, _exp
    where_greater = _where_greater
