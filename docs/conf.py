"""Sphinx settings: `pip install '.[docs]' && sphinx-build -W docs docs/_build`."""

import argparse
import functools
import importlib
import re
import runpy
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes

import softmargin
from softmargin.cli.options import build_parser
from softmargin.solvers.names import SOLVERS

project = "softmargin"
author = "The softmargin developers"
project_copyright = author
release = softmargin.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "download_all_examples": False,
    "capture_repr": (),
    "backreferences_dir": "gallery/used_by",  # the examples that the page of a class shows
    "doc_module": ("softmargin",),
}
html_theme = "furo"
html_title = f"softmargin {release}"
pygments_dark_style = "monokai"  # Furo's own underlines the names of modules, as if they were links
html_theme_options = {"navigation_with_keys": True}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
numpydoc_show_class_members = False

# How an estimator asks for the solvers of a kind of problem (softmargin.solvers.names).
WAYS = {
    "linear hinge": 'LinearSVC(solver="{}")',
    "linear squared_hinge": 'LinearSVC(multiclass="one_vs_rest", loss="squared_hinge", solver="{}")',
    "kernel hinge": 'KernelSVC(solver="{}")',
    "kernel squared_hinge": 'KernelSVC(multiclass="one_vs_rest", loss="squared_hinge", solver="{}")',
    "kernel hinge with a free bias": 'KernelSVC(multiclass="one_vs_rest", fit_intercept="free", solver="{}")',
    "one-vs-one": 'KernelSVC(multiclass="one_vs_one", solver="{}")',
    "sampled kernel": 'KernelSVC(multiclass="one_vs_rest", tol=0.1, solver="{}")',
    "softmax ridge": 'SoftmaxRegression(solver="{}")',
    "softmax": 'SoftmaxRegression(l1_ratio=1.0, solver="{}")',
    "l1 ball": 'L1BallClassifier(radius=10.0, solver="{}")',
    "trace ball": 'TraceBallClassifier(radius=10.0, solver="{}")',
}
# What a solver needs besides: two classes, here one against the others; no intercept; one target.
_AGAINST_OTHERS = ("solver", 'multiclass="one_vs_rest", solver')
_NO_INTERCEPT = ("solver", "fit_intercept=False, solver")
NEEDS = {
    "AugmentedLagrangian": _AGAINST_OTHERS,
    "KernelPairDescent": _AGAINST_OTHERS,
    "BallDualDescent": _NO_INTERCEPT,
    "PrimalDualBFW": _NO_INTERCEPT,
    "LowRankPDBFW": _NO_INTERCEPT,
    "BallNewton": ("Classifier", "Regressor"),
}


def ways_of(solver: str) -> list[str]:
    """Return lines of Python that ask for a class of solvers by its names; none where it has none."""
    asked = [
        way.replace(*NEEDS.get(solver, ("", ""))).format(name)
        for kind, way in WAYS.items()
        for name, each in SOLVERS[kind].items()
        if each.home == solver
    ]
    estimators = sorted({way.partition("(")[0] for way in asked})
    data = ["from sklearn.datasets import load_iris", "from sklearn.preprocessing import scale"]
    data += [f"from softmargin import {', '.join(estimators)}", "", "X, y = load_iris(return_X_y=True)", "X = scale(X)"]
    fits = [f"print({way}.fit(X, y).certificate_)" for way in asked]
    return [*data, *fits] if asked else []


def members_of(name: str) -> str:
    """Return the methods and properties of a class that are ours and have a docstring, in the order of their names."""
    kind = _object(name)
    ours = {
        name
        for base in kind.__mro__
        if base.__module__.startswith("softmargin")
        for name, value in vars(base).items()
        if not name.startswith(("_", "set_")) and _is_told(value)
    }
    return ", ".join(sorted(ours))


def _is_told(value: Any) -> bool:
    is_member = callable(value) or isinstance(value, (property, classmethod, staticmethod, functools.cached_property))
    return is_member and not isinstance(value, type) and bool(value.__doc__)


def is_shown(name: str) -> bool:
    """Say whether an example of the gallery uses a name."""
    used = "".join(path.read_text() for path in (Path(__file__).parents[1] / "examples").glob("*.py"))
    return re.search(rf"\b{name.rpartition('.')[2]}\b", used) is not None


def _object(name: str) -> Any:
    room, _, last = name.rpartition(".")
    return getattr(importlib.import_module(room), last)


autosummary_context = {"members_of": members_of, "ways_of": ways_of, "is_shown": is_shown}
suppress_warnings = ["config.cache"]  # functions of a context are not kept between builds


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
    lines[:] = [re.sub(r"(?<!\\)\|", r"\\|", line) for line in lines]


def shorten_tuning(app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str) -> Any:
    """Leave the numbers of a solver's tuning out of its signature: they stand, with their origins, in its file."""
    return (re.sub(r"(\w*Tuning = )\(.*\)(?=[,)])", r"\1...", signature) if signature else signature), returned


def leave_out_of_sidebar(app: Any, doctree: nodes.document) -> None:
    """Keep the pages of the interface out of the sidebar, which has room for few; theirs is the page of lists."""
    if app.env.docname == "api":
        for tree in list(doctree.findall(addnodes.toctree)):
            tree.parent.remove(tree)


def add_page(app: Any, problem: Exception | None) -> None:
    """Write the page that classifies a drawn digit beside the others."""
    if problem is None and app.builder.format == "html":
        write_page = runpy.run_path(str(Path(__file__).parent / "browser" / "digits_page.py"))["write_page"]
        write_page(Path(app.outdir) / "digits.html")


def setup(app: Any) -> None:
    """Escape docstrings before numpydoc reads them; make the command-line reference from the parser."""
    app.connect("build-finished", add_page)
    app.connect("doctree-read", leave_out_of_sidebar, priority=100)
    app.connect("autodoc-process-signature", shorten_tuning)
    app.connect("autodoc-process-docstring", escape_bars, priority=100)
    app.add_directive("command", CommandHelp)
