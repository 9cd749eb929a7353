"""Sphinx settings: `pip install '.[docs]' && sphinx-build docs docs/_build`."""

import softmargin

project = "softmargin"
author = "The softmargin developers"
release = softmargin.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
numpydoc_show_class_members = False
