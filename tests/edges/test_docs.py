"""What README and docs show runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


PAGES = ["README.md", "docs/tour.md", "docs/add_a_solver.md", "docs/add_a_penalty.md", "docs/balls.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})


def test_every_file_that_a_page_names_is_there():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


SECTION, EQUATION = r"^## (\d+)\. ", r"(?:  |\| )\((\d+)\)(?: \|)?$"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "maths").glob("*.md")), ids=lambda page: page.stem)
def test_equations_and_sections_are_numbered_in_order(page):
    text = page.read_text()
    for pattern in (SECTION, EQUATION):
        numbers = [int(number) for number in re.findall(pattern, text, re.MULTILINE)]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
