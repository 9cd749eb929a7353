"""Whether a checkpoint holds a state that this solver could have on this problem; what kernel matrices remember.

Compiled loops read as many numbers as the problem has, whether they are there or not, so a state is compared with a
fresh one of the same problem first: the same fields, types and shapes. A class of states says what a run may change:

    grows = {"U": ("r", 1), "s": ("r", 0)}    the length of axis 1 of U and of axis 0 of s, both called r: equal, any
    empties = ("first",)                      a run may empty it
    positions = {"order": "gaps"}             entries of `order` are positions in the array `gaps`;
                                              a plain number is at most its length
    tiles = {"live": ("gaps", "alpha")}       bits of `live`, for each entry of `gaps`, name tiles of its row in `alpha`
    fixed = ("width",)                        a run never changes it
"""

import dataclasses
from typing import Any

import numpy as np

from softmargin.core.errors import IncompatibleError, ModelFileError

__all__ = ["check_restored", "kernel_matrices", "recall"]


def recall(problem: Any, solver: Any, saved: Any) -> None:
    """Check that a checkpoint is one of this problem and solver, and bring its kernel rows back."""
    if saved.fingerprint != problem.fingerprint():
        raise IncompatibleError(
            "the checkpoint was written for another problem. Data, weights, C, kernel and intercept must be the same, "
            "and the seed where landmarks are drawn; start afresh with another file."
        )
    # Before the kernel rows come back: a start may want some too.
    fresh = solver.fresh(problem, saved.state) if hasattr(solver, "fresh") else None
    check_restored(saved.state, fresh or solver.start(problem, None, np.random.default_rng(0)))
    grams = kernel_matrices(problem)
    if len(saved.memories) != len(grams):
        raise ModelFileError(
            f"the checkpoint tells of {len(saved.memories)} kernel matrices, not {len(grams)}. Start afresh."
        )
    for gram, memory in zip(grams, saved.memories, strict=True):
        gram.recall(memory)


def kernel_matrices(problem: Any) -> list[Any]:
    """Return the kernel matrices of a problem, or of its parts, each once: what they cache is a part of the state."""
    if hasattr(problem, "grams"):
        return list(problem.grams)
    parts = getattr(problem, "parts", [problem])
    found = {id(part.gram): part.gram for part in parts if hasattr(part, "gram")}
    return list(found.values())


def check_restored(state: Any, fresh: Any, name: str = "") -> None:
    """Refuse a restored state with other fields, types or shapes than a fresh one, or with positions out of range."""
    if isinstance(fresh, list) and any(map(dataclasses.is_dataclass, fresh)):
        _require(isinstance(state, list) and len(state) == len(fresh), f"{name} has not {len(fresh)} parts")
        for c, (mine, other) in enumerate(zip(state, fresh, strict=True)):
            check_restored(mine, other, f"{name}.{c}")
    elif dataclasses.is_dataclass(fresh):
        _require(type(state) is type(fresh), f"{name or 'its state'} is a {type(state).__name__}")
        for field in dataclasses.fields(fresh):
            if field.init:  # others are scratch
                mine, other = getattr(state, field.name), getattr(fresh, field.name)
                growing = getattr(fresh, "grows", {}).get(field.name)
                where = f"{name}.{field.name}".lstrip(".")
                if field.name in getattr(fresh, "fixed", ()):
                    _require(mine == other, f"{where} is {str(mine)[:40]}, not {other}")
                if np.size(mine) or field.name not in getattr(fresh, "empties", ()):
                    _check_value(mine, other, growing, where)
        _check_lengths(state, name)
        _check_positions(state, name)
        _check_tiles(state, name)


def _check_value(mine: Any, other: Any, growing: tuple[str, int] | None, name: str) -> None:
    if isinstance(other, np.ndarray):
        _require(isinstance(mine, np.ndarray), f"{name} is no array")
        wanted = list(other.shape)
        if growing is not None and mine.ndim == other.ndim:
            wanted[growing[1]] = mine.shape[growing[1]]
        _require(
            mine.dtype == other.dtype and list(mine.shape) == wanted,
            f"{name} has shape {mine.shape} of {mine.dtype}, not {tuple(wanted)} of {other.dtype}",
        )
    elif dataclasses.is_dataclass(other) or isinstance(other, list):
        check_restored(mine, other, name)
    elif isinstance(other, bool | np.bool_):
        _require(isinstance(mine, bool), f"{name} is {mine!r}, not true or false")
    elif isinstance(other, int | np.integer):
        _require(isinstance(mine, int) and abs(mine) < 1 << 63, f"{name} is {str(mine)[:40]}, not a whole number")
    elif isinstance(other, float):
        _require(isinstance(mine, int | float), f"{name} is {str(mine)[:40]}, not a number")


def _check_lengths(state: Any, name: str) -> None:
    lengths: dict[str, int] = {}
    for field, (letter, axis) in getattr(state, "grows", {}).items():
        length = getattr(state, field).shape[axis]
        _require(
            lengths.setdefault(letter, length) == length,
            f"{name}.{field} has the length {length} where others have {lengths[letter]}".lstrip("."),
        )


def _check_positions(state: Any, name: str) -> None:
    for field, where in getattr(state, "positions", {}).items():
        value, length = getattr(state, field), len(getattr(state, where))
        is_array = isinstance(value, np.ndarray)
        low, high = (value.min(initial=0), value.max(initial=-1)) if is_array else (value, value - 1)
        _require(
            low >= 0 and high < length, f"{name}.{field} has {low} to {high}; {where} has {length} entries".lstrip(".")
        )


def _check_tiles(state: Any, name: str) -> None:
    from softmargin.backends.lanes import WIDTH  # brings Numba, which most verbs do without

    for field, (rows, numbers) in getattr(state, "tiles", {}).items():
        bits, n = getattr(state, field), len(getattr(state, rows))
        if bits.size:
            n_tiles = len(getattr(state, numbers)) // n // WIDTH
            known = [(1 << min(max(n_tiles - first, 0), 64)) - 1 for first in range(0, 64 * (bits.size // n), 64)]
            unknown = bits.reshape(n, -1) & ~np.array(known, dtype=np.uint64)
            _require(not unknown.any(), f"{name}.{field} names more than {n_tiles} tiles".lstrip("."))


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise ModelFileError(f"the checkpoint does not fit the problem: {what}. Start afresh.")
