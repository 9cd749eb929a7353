"""What PyTorch would do in many passes over memory, in one: kernels of Triton for CUDA devices.

    rbf_values        exp(min(2 gamma <a, b> - gamma |a|^2 - gamma |b|^2, 0)), in place of the products <a, b>
    fused_iteration   an iteration of splitting (solvers.kernel_svm): products and one kernel
    times_inverse     products with the inverse that ``shifted_inverse`` has factored

An iteration does what ``_dual_rows.plain_iteration`` does with whole arrays, every row by itself:

    T = r (A_0 + M pull) + (1 - r) Z + U ;   Z = nearest feasible row to T ;   U = T - Z
    pull = rho (Z - U - A_0) - G_0

Nearest rows (the formulas of ``_dual_rows``). Crammer-Singer: the shift of the simplex by Michelot's passes, each of
which drops the entries below the last shift; k passes end it. Weston-Watkins: gamma by bisection, then by the formula
of the entries that lie between their bounds, which has no error but rounding.

Products of a few rows with a large matrix read it at half of the memory's speed in cuBLAS. Here tensor cores multiply
(``tf32x3``: three products of halves of the numbers, as exact as float32), and the memory is all that counts.

Triton and PyTorch are imported here: ``Home.fused`` loads this module where it can be used. Numbers that need all their
digits come as tensors, as Triton takes those of Python for float32.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["NARROW", "WIDEST", "fused_iteration", "is_usable", "rbf_values", "times_inverse"]

WIDEST = 1024  # classes: a row is in the registers of one group of threads
NARROW = 16  # rows of a product with an inverse, at most: as many as a tensor core takes
_TILE = tl.constexpr(64)  # rows and columns of a factor for one group of threads; measured
_PARTS = 16  # of a sum over rows, one for every group of threads: enough to keep an H200 busy; measured
_LENGTH = 1024  # of a part of a row of kernel values; by hand
_ENTRIES = 512  # of T for one group of threads; by hand
_HALVINGS = tl.constexpr(60)  # of the interval that holds gamma: below the rounding of its ends


@triton.jit
def _nearest_crammer_singer(T, is_label, is_inside, C, k: tl.constexpr):  # type: ignore[no-untyped-def]
    q = tl.where(is_inside, tl.where(is_label, C - T, -T), float("-inf"))
    q = q - tl.max(q, axis=1)[:, None]
    shift = (tl.sum(tl.where(is_inside, q, 0.0), axis=1)[:, None] - C) / k
    for _ in range(k):
        is_above = q > shift
        n_above = tl.sum(tl.where(is_above, 1.0, 0.0), axis=1)[:, None]
        sums = tl.sum(tl.where(is_above, q, 0.0), axis=1)[:, None]
        shift = tl.where(n_above > 0.0, (sums - C) / tl.maximum(n_above, 1.0), shift)
    return -tl.maximum(q - shift, 0.0)


@triton.jit
def _nearest_weston_watkins(T, is_label, is_inside, C):  # type: ignore[no-untyped-def]
    own = tl.sum(tl.where(is_label, T, 0.0), axis=1)[:, None]
    v = tl.where(is_inside & ~is_label, own - T, 0.0)
    low, high = own * 0.0, tl.maximum(tl.max(v, axis=1)[:, None], 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        sums = tl.sum(tl.minimum(tl.maximum(v - middle, 0.0), C), axis=1)[:, None]
        is_below = sums > middle
        low, high = tl.where(is_below, middle, low), tl.where(is_below, high, middle)
    over = v - 0.5 * (low + high)
    is_between = (over > 0.0) & (over < C)
    sums = tl.sum(tl.where(over >= C, C, tl.where(is_between, v, 0.0)) * tl.where(over > 0.0, 1.0, 0.0), axis=1)
    gamma = (sums / (1.0 + tl.sum(tl.where(is_between, 1.0, 0.0), axis=1)))[:, None]
    return -tl.minimum(tl.maximum(v - gamma, 0.0), C)


@triton.jit
def _iteration(  # type: ignore[no-untyped-def]
    moves,
    first,
    G,
    Z,
    U,
    y,
    prices,
    numbers,  # rho and r
    new_Z,
    new_U,
    new_pull,
    m,
    k: tl.constexpr,
    width: tl.constexpr,
    height: tl.constexpr,
    is_joint_max: tl.constexpr,
):
    i, j = tl.program_id(0) * height + tl.arange(0, height), tl.arange(0, width)
    is_row, is_inside = i < m, (i[:, None] < m) & (j[None, :] < k)
    at, across = i[:, None] * k + j[None, :], j[None, :] * m + i[:, None]
    rho, r = tl.load(numbers), tl.load(numbers + 1)
    C = tl.load(prices + i, mask=is_row, other=0.0)[:, None]
    is_label = tl.load(y + i, mask=is_row, other=0)[:, None] == j[None, :]
    A_0 = tl.load(first + at, mask=is_inside, other=0.0)
    A = A_0 + tl.load(moves + across, mask=is_inside, other=0.0).to(tl.float64)
    T = r * A + (1.0 - r) * tl.load(Z + at, mask=is_inside, other=0.0) + tl.load(U + at, mask=is_inside, other=0.0)
    if is_joint_max:
        alpha = _nearest_crammer_singer(T, is_label, is_inside, C, k)
    else:
        alpha = _nearest_weston_watkins(T, is_label, is_inside, C)
    alpha = tl.where(is_inside & ~is_label, alpha, 0.0)
    alpha = tl.where(is_label, -tl.sum(alpha, axis=1)[:, None], alpha)  # rows sum to zero
    tl.store(new_Z + at, alpha, mask=is_inside)
    tl.store(new_U + at, T - alpha, mask=is_inside)
    pull = rho * (2.0 * alpha - T - A_0) - tl.load(G + at, mask=is_inside, other=0.0)
    tl.store(new_pull + across, pull.to(new_pull.dtype.element_ty), mask=is_inside)


def fused_iteration(
    is_joint_max: bool,
    y: Any,
    C: Any,
    solved: Callable[[Any], Any],
    first: Any,
    G: Any,
    *,
    rho: float,
    relaxation: float,
) -> Callable[[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return one iteration as a function of Z, U and pull'; y int32 (m,), C (m, 1), first and G (m, k).

    ``solved`` returns the transpose of M pull, (k, m), given that of pull.
    """
    m, k = first.shape
    width = triton.next_power_of_2(k)
    height = max(1, _ENTRIES // width)
    first, G = first.contiguous(), G.contiguous()
    numbers = torch.tensor([rho, relaxation], dtype=torch.float64, device=first.device)

    def iterate(Z: Any, U: Any, pull: Any) -> tuple[Any, Any, Any]:
        moves = solved(pull).contiguous()
        new = torch.empty_like(first), torch.empty_like(first), torch.empty_like(moves)
        _iteration[(triton.cdiv(m, height),)](
            *(moves, first, G, Z.contiguous(), U.contiguous(), y, C, numbers, *new, m),
            k=k,
            width=width,
            height=height,
            is_joint_max=is_joint_max,
        )
        return new

    return iterate


@triton.jit
def _rbf_values(values, own, other, slope, n_columns, length: tl.constexpr):  # type: ignore[no-untyped-def]
    i, j = tl.program_id(0).to(tl.int64), tl.program_id(1) * length + tl.arange(0, length)
    is_inside, at = j < n_columns, i * n_columns + j
    products = tl.load(values + at, mask=is_inside, other=0.0)
    exponent = tl.load(slope) * products - tl.load(own + i) - tl.load(other + j, mask=is_inside, other=0.0)
    # Rounding may make a squared distance negative; no kernel value exceeds 1, and NaN stays.
    tl.store(values + at, tl.exp(tl.where(exponent > 0.0, 0.0, exponent)), mask=is_inside)


def rbf_values(products: Any, own: Any, other: Any, gamma: float) -> Any:
    """Return the kernel values of points, in place of their products (m, l); own (m,), other (l,) are gamma |x|^2."""
    m, n_columns = products.shape
    slope = torch.tensor([2.0 * gamma], dtype=products.dtype, device=products.device)
    grid = (m, triton.cdiv(n_columns, _LENGTH))
    _rbf_values[grid](products, own, other, slope, n_columns, length=_LENGTH)
    return products


@triton.jit
def _down(factor, V, first, n_rows, k, m, size: tl.constexpr, width: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * _TILE + tl.arange(0, _TILE)
    j, c = tl.arange(0, _TILE), tl.arange(0, width)
    is_row, is_inside = i < n_rows, c < k
    sums = tl.zeros((_TILE, width), dtype=tl.float32)
    own = factor + (size + i)[:, None].to(tl.int64) * size
    for start in range(0, size, _TILE):
        tile = tl.load(own + (start + j)[None, :], mask=is_row[:, None], other=0.0)
        head = tl.load(V + c[None, :] * m + (first + start + j)[:, None], mask=is_inside[None, :], other=0.0)
        sums = tl.dot(tile, head, sums, input_precision="tf32x3")
    at, is_there = V + c[None, :] * m + (first + size + i)[:, None], is_row[:, None] & is_inside[None, :]
    tl.store(at, tl.load(at, mask=is_there, other=0.0) + sums, mask=is_there)


@triton.jit
def _up(factor, V, parts, first, n_rows, per_part, k, m, size: tl.constexpr, width: tl.constexpr):  # type: ignore[no-untyped-def]
    j, part = tl.program_id(0) * _TILE + tl.arange(0, _TILE), tl.program_id(1)
    i, c = tl.arange(0, _TILE), tl.arange(0, width)
    sums = tl.zeros((width, _TILE), dtype=tl.float32)
    for start in range(part * per_part, min((part + 1) * per_part, n_rows), _TILE):
        is_row = start + i < n_rows
        tile = tl.load(factor + (start + i)[:, None].to(tl.int64) * size + j[None, :], mask=is_row[:, None], other=0.0)
        is_there = (c < k)[:, None] & is_row[None, :]
        rest = tl.load(V + c[:, None] * m + (first + start + i)[None, :], mask=is_there, other=0.0)
        sums = tl.dot(rest, tile, sums, input_precision="tf32x3")
    tl.store(parts + (part * width + c)[:, None] * size + j[None, :], sums)


def times_inverse(V: Any, factor: list[Any]) -> Any:
    """Return V (L D L')^-1, for V (k, m) of few rows; float32. ``factor`` is that of ``ShiftedInverse``.

    The columns of all blocks but the last are whole tiles.
    """
    V, (k, m), first = V.clone(memory_format=torch.contiguous_format), V.shape, 0
    for lower in factor[:-1]:
        n_rows, size = lower.shape
        _down[(triton.cdiv(n_rows - size, _TILE.value),)](lower, V, first, n_rows - size, k, m, size, NARROW)
        first += size
    V[:, first:] = V[:, first:] @ factor[-1]
    for lower in factor[-2::-1]:
        n_rows, size = lower.shape
        first -= size
        per_part = triton.cdiv(triton.cdiv(n_rows, _PARTS), _TILE.value) * _TILE.value
        parts = V.new_empty((_PARTS, NARROW, size))
        _up[(size // _TILE.value, _PARTS)](lower, V, parts, first, n_rows, per_part, k, m, size, NARROW)
        V[:, first : first + size] = parts.sum(dim=0)[:k]
    return V


@cache
def is_usable(device: Any) -> bool:
    """Say whether Triton can compile here: it needs a compiler for C beside itself."""
    one = torch.ones((1, 2), dtype=torch.float64, device=device)
    y = torch.zeros(1, dtype=torch.int32, device=device)
    side, narrow = _TILE.value, {"dtype": torch.float32, "device": device}
    try:
        times_inverse(
            torch.ones((1, 2 * side), **narrow), [torch.ones((rows * side, side), **narrow) for rows in (2, 1)]
        )
        fused_iteration(True, y, one[:, :1], lambda pull: pull, one, one, rho=1.0, relaxation=1.0)(one, one, one.T)
    except Exception:  # whatever its compilers raise: plain operations do the same
        return False
    return True
