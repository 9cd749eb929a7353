"""Names that a package imports when they are first used.

Its stub, ``__init__.pyi``, lists them for type checkers, one per line, ``from home import name as name``; here the same
lines say where to find a name.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of the package with these globals."""
    with open(os.path.join(package["__path__"][0], "__init__.pyi"), encoding="utf-8") as stub:
        imports = [line.split() for line in stub if line.startswith("from ")]
    homes = {name: home for _, home, _, name, _, _ in imports}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        home = homes[name]
        is_module = home == package["__name__"]
        value = importlib.import_module(f"{home}.{name}") if is_module else getattr(importlib.import_module(home), name)
        package[name] = value
        return value

    def names() -> list[str]:
        return sorted({*homes, *(name for name in package if name.startswith("__"))})

    return find, names, sorted(homes)
