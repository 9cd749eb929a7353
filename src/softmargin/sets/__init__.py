"""Convex sets: their nearest points and corners. Each is imported when it is first used: models need no compiler."""

from softmargin._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(globals())
