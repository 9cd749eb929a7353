"""Solvers: a folder per family of problems, a file per algorithm. Each is imported when it is first used."""

from softmargin._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(globals())
