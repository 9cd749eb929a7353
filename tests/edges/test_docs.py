"""What README and docs show runs as it stands."""

import doctest
import importlib
import inspect
import re
import runpy
from argparse import _SubParsersAction
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import softmargin
from softmargin import KernelSVC, LinearSVC, SoftmaxRegression, load_model
from softmargin.cli.options import build_parser
from softmargin.solvers.names import SOLVERS

ROOT = Path(__file__).parents[2]


PAGES = [
    "README.md",
    "docs/tour.md",
    "docs/add_a_solver.md",
    "docs/add_a_penalty.md",
    "docs/balls.md",
    "docs/format.md",
    "docs/export.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})


@pytest.mark.parametrize(
    "clf",
    [
        LinearSVC(),
        SoftmaxRegression(),
        *(KernelSVC(kernel=name, coef0=1.0, tol=1e-2) for name in ("rbf", "polynomial", "sigmoid", "linear")),
    ],
    ids=lambda clf: getattr(clf, "kernel", type(clf).__name__),
)
@pytest.mark.filterwarnings("ignore::softmargin.IndefiniteKernelWarning")
@pytest.mark.parametrize("k", [2, 3])
def test_the_reader_of_the_format_page_reads_models(clf, k, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % k
    clone(clf).fit(X, y).model().save(tmp_path / "a.model")
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "format.md").read_text(), re.DOTALL)
    exec(compile(block, "format.md", "exec"), page := {"__name__": "page"})
    found = page["scores"](tmp_path / "a.model", X)
    expected = load_model(tmp_path / "a.model").decision_function(X)
    np.testing.assert_allclose(found, expected.reshape(30, -1), atol=1e-12)


def test_the_citation_names_this_version():
    assert f"version: {softmargin.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_file_that_a_page_names_is_there():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_source_file_that_a_page_names_is_there():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "maths").glob("*.md")]:
        for name in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page.read_text()):
            places = [ROOT / room / name for room in (".", "src/softmargin", "docs")]
            assert any(place.exists() for place in places), f"{page.name} names {name}"


def test_the_interface_page_has_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text()
    lists = re.findall(r"autosummary::\n   :toctree: api\n   :nosignatures:\n\n(.*?)```", text, re.DOTALL)
    listed = [line.strip().removeprefix("softmargin.") for block in lists for line in block.splitlines()]
    for name in listed:
        room, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(f"softmargin.{room}".rstrip(".")), last), name
    assert set(softmargin.__all__) - {"penalties", "__version__"} <= {name.rpartition(".")[2] for name in listed}


def test_the_page_of_the_command_line_has_every_verb():
    (verbs,) = (action.choices for action in build_parser()._actions if isinstance(action, _SubParsersAction))
    assert re.findall(r"\{command\} (\w+)", (ROOT / "docs" / "cli.md").read_text()) == list(verbs)


def example_of(name):
    """Return the lines that a docstring shows; empty where there are none."""
    return doctest.DocTestParser().get_doctest(getattr(softmargin, name).__doc__ or "", {}, name, None, 0)


WITH_EXAMPLES = [
    name for name in softmargin.__all__ if name not in ("penalties", "__version__") and example_of(name).examples
]
SOLVERS_WITH_EXAMPLES = [
    name for name in WITH_EXAMPLES if getattr(softmargin, name).__module__.startswith("softmargin.solvers")
]


@pytest.mark.parametrize("name", sorted(set(WITH_EXAMPLES) - set(SOLVERS_WITH_EXAMPLES)))
def test_the_example_of_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.DocTestRunner().run(example_of(name)).failed == 0


def test_every_public_function_and_estimator_has_an_example():
    public = {name: getattr(softmargin, name) for name in softmargin.__all__}
    told = {name for name, each in public.items() if inspect.isfunction(each) or hasattr(each, "fit")}
    assert told <= set(WITH_EXAMPLES)


@pytest.mark.slow  # compiles the loops of every solver
@pytest.mark.filterwarnings("ignore")
def test_the_page_of_every_solver_has_an_example_that_runs():
    pytest.importorskip("sphinx")
    ways_of = runpy.run_path(str(ROOT / "docs" / "conf.py"))["ways_of"]
    (listed,) = re.findall(
        r"## Solvers\n.*?nosignatures:\n\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL
    )
    for name in re.findall(r"softmargin\.(\w+)", listed):
        lines = ways_of(name)
        assert lines or name in SOLVERS_WITH_EXAMPLES, name
        exec(compile("\n".join(lines), name, "exec"), {})
        assert doctest.DocTestRunner().run(example_of(name)).failed == 0


def test_every_solver_that_has_a_name_is_public():
    assert {each.home for names in SOLVERS.values() for each in names.values()} <= set(softmargin.__all__)


SECTION, EQUATION = r"^## (\d+)\. ", r"(?:  |\| )\((\d+)\)(?: \|)?$"
NUMBERS = r"\d+(?:(?:,| and| to|, and) \d+)*"
CITATION = re.compile(rf"[Mm]aths: ([a-z]+(?: [a-zSVM]+)?)(?:, (eqs?\.|sections?) ({NUMBERS})| (\d{{3}}\.\d+))")


def numbers_of(text):
    """Return all numbers that a citation names: "2, 4 and 6", "3 to 5"."""
    ranges = re.findall(r"(\d+)(?: to (\d+))?", text)
    return {number for first, last in ranges for number in range(int(first), int(last or first) + 1)}


def is_there(page, kind, numbers, erratum):
    """Say whether the page of docs/maths has the sections, equations or erratum."""
    path = ROOT / "docs" / "maths" / f"{page.lower().replace(' ', '_')}.md"
    if not path.exists():
        return False
    text = path.read_text()
    if erratum:
        return page == "errata" and f"| {erratum} |" in text
    pattern = SECTION if kind.startswith("section") else EQUATION
    return numbers_of(numbers) <= {int(number) for number in re.findall(pattern, text, re.MULTILINE)}


def test_every_citation_of_the_mathematics_leads_somewhere():
    files = [path for room in ("src", "tests", "benchmarks", "docs") for path in (ROOT / room).rglob("*.[pm][yd]")]
    found = 0
    for path in files:
        if path == Path(__file__):
            continue
        text = re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text())
        for match in re.finditer(r"[Mm]aths: [^\n]{0,60}", text):
            citation = CITATION.match(match[0])
            assert citation, f"{path.name}: {match[0]!r} names no section, equation or erratum"
            assert is_there(*citation.groups()), f"{path.name}: {citation[0]!r} is not in docs/maths"
            found += 1
    assert found > 100


def test_no_citation_leads_out_of_the_repository():
    for room in ("src", "tests", "benchmarks", "docs"):
        for path in (ROOT / room).rglob("*.[pm][yd]"):
            if path != Path(__file__):
                assert not re.search(r"\b[Ss]pec(?: \d| part|s? erratum)", path.read_text()), path


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "maths").glob("*.md")), ids=lambda page: page.stem)
def test_equations_and_sections_are_numbered_in_order(page):
    text = page.read_text()
    for pattern in (SECTION, EQUATION):
        numbers = [int(number) for number in re.findall(pattern, text, re.MULTILINE)]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
