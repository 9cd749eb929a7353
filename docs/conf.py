"""Sphinx settings: `pip install '.[docs]' && sphinx-build docs docs/_build`."""

from typing import Any

import softmargin

project = "softmargin"
author = "The softmargin developers"
release = softmargin.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
myst_heading_anchors = 3
numpydoc_show_class_members = False


def escape_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of norms such as |W|: docstrings are plain text, where reStructuredText sees substitutions."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app: Any) -> None:
    """Escape docstrings before numpydoc reads them."""
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
