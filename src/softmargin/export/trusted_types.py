"""The types of ours that a file of skops may hold."""

import importlib
import pkgutil
import types
from typing import Any

import softmargin

__all__ = ["skops_types"]

# What estimators keep: themselves, certificates and traces, kernels, penalties, solvers and streams.
_ROOMS = tuple(
    f"softmargin.{room}."
    for room in ("core", "estimators", "features", "kernels", "penalties", "problems", "run", "sets", "solvers")
)


def skops_types(estimator: Any = None) -> list[str]:
    """Return the names of our classes, for ``skops.io.load(path, trusted=skops_types())``; those of one estimator only.

    Classes alone: a file that names a function, of ours or of others, is refused by skops all the same.

    Parameters
    ----------
    estimator : object, optional
        A fitted estimator or pipeline; all classes without one.

    Examples
    --------
    >>> from softmargin import LinearSVC
    >>> from softmargin.export import skops_types
    >>> "softmargin.estimators.linear_svc.LinearSVC" in skops_types()
    True
    """
    names = (module.name for module in pkgutil.walk_packages(softmargin.__path__, "softmargin."))
    ours = [
        f"{name}.{kind.__name__}"
        for name in names
        if f"{name}.".startswith(_ROOMS)
        for kind in vars(_imported(name)).values()
        if isinstance(kind, type) and kind.__module__ == name
    ]
    if estimator is None:
        return ours
    from skops.io import dumps, get_untrusted_types

    return sorted({*ours} & {*get_untrusted_types(data=dumps(estimator))})


def _imported(name: str) -> Any:
    """Return a module of ours; an empty one where it needs an extra that is not installed: no file can hold of it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "softmargin":
            raise
        return types.ModuleType(name)
