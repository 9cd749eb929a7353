"""Sphinx settings: `pip install '.[docs]' && sphinx-build -W docs docs/_build`."""

import argparse
import runpy
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive

import softmargin
from softmargin.cli.options import build_parser

project = "softmargin"
author = "The softmargin developers"
project_copyright = author
release = softmargin.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_design", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "download_all_examples": False,
    "capture_repr": (),
}
html_theme = "furo"
html_title = f"softmargin {release}"
html_theme_options = {"navigation_with_keys": True}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
numpydoc_show_class_members = False


class CommandHelp(Directive):
    """``{command} train``: what `softmargin train --help` prints; without a verb, what `softmargin --help` does."""

    optional_arguments = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return the help of one parser as it stands."""
        parser = build_parser()
        if self.arguments:
            (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
            parser = verbs.choices[self.arguments[0]]
        text = parser.format_help()
        return [nodes.literal_block(text, text, language="text")]


def escape_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of norms such as |W|: docstrings are plain text, where reStructuredText sees substitutions."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def add_page(app: Any, problem: Exception | None) -> None:
    """Write the page that classifies a drawn digit beside the others."""
    if problem is None and app.builder.format == "html":
        write_page = runpy.run_path(str(Path(__file__).parent / "browser" / "digits_page.py"))["write_page"]
        write_page(Path(app.outdir) / "digits.html")


def setup(app: Any) -> None:
    """Escape docstrings before numpydoc reads them; make the command-line reference from the parser."""
    app.connect("build-finished", add_page)
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    app.add_directive("command", CommandHelp)
