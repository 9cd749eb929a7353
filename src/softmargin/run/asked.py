"""What ``solve`` may be asked: kinds of its arguments, and whether solver, problem and first point go together."""

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.parameters import NONE, SOLVER_OBJECT, Given, Whole, shown
from softmargin.run.budget import Stop

__all__ = ["ASKED", "WATCHERS", "check_first", "check_needs"]


def _are_watchers(value: Any) -> bool:
    has_all = isinstance(value, list | tuple)
    return has_all and all(hasattr(watcher, name) for watcher in value for name in ("begin", "watch", "end"))


def _is_seed(value: Any) -> bool:
    return isinstance(value, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence)


def _are_seeds(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, int | np.integer) and part >= 0 for part in value)


def _is_point(value: Any) -> bool:
    """Say whether a value is a point: named fields, or a list of points of a one-vs-rest problem."""
    return hasattr(value, "_fields") or (isinstance(value, list) and len(value) > 0)


def _is_saved(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("fingerprint", "state", "iteration", "seconds", "schedule"))


WATCHERS = (Given("a list of watchers (begin, watch, end)", _are_watchers),)
ASKED = {
    "solver": (SOLVER_OBJECT,),
    "stop": (NONE, Given("a Stop", lambda value: isinstance(value, Stop))),
    "rng": (NONE, Whole(0, math.inf), Given("a Generator", _is_seed), Given("a list of integers", _are_seeds)),
    "init": (NONE, Given("a point, such as solve returns", _is_point)),
    "watchers": WATCHERS,
    "resume": (NONE, Given("a checkpoint (run.watchers.load_checkpoint)", _is_saved)),
}

# The protocols that problems of a class have: checking one takes as long as a pass over a small X.
_MET: WeakKeyDictionary[type, set[type]] = WeakKeyDictionary()


def check_needs(problem: Any, solver: Any, advice: str = "Use a solver made for this problem.") -> None:
    """Refuse a solver that needs another problem."""
    met = _MET.setdefault(type(problem), set())
    for needed in solver.needs:
        if needed in met:
            continue
        if not isinstance(problem, needed):
            raise IncompatibleError(
                f"{type(solver).__name__} needs a {needed.__name__}; {type(problem).__name__} is not one. {advice}"
            )
        met.add(needed)
    if getattr(getattr(problem, "gram", None), "is_on_device", False) and not getattr(solver, "runs_on_device", False):
        raise IncompatibleError(
            f"{type(solver).__name__} needs kernel values in the memory of the processor, but X lies on a device. Use "
            "solver='splitting' (with fit_intercept='free' 'frank_wolfe', with squared_hinge 'dual_prox_gradient'), or "
            "pass X as a NumPy array."
        )


def check_first(problem: Any, init: Any) -> None:
    """Refuse a first point of another problem: one point, or one for every part."""
    parts, points = (problem.parts, init) if hasattr(problem, "parts") else ([problem], [init])
    kinds = [getattr(part, "point_type", object) for part in parts]
    if len(points) != len(kinds) or not all(map(isinstance, points, kinds)):
        each = f", one for each of its {len(kinds)} classes" if hasattr(problem, "parts") else ""
        raise DataError(
            f"the points of this {type(problem).__name__} are of type {kinds[0].__name__}{each}; found "
            f"init={shown(init)}. Pass the point of an earlier result of the same problem, or leave init out."
        )
