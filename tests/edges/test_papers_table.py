"""The table of docs/papers.md: every name, file, command and test in it exists."""

import argparse
import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import softmargin
from softmargin.cli.options import build_parser

ROOT = Path(__file__).parents[2]
HEADS = ["what", "name", "file", "command", "test"]
ROOMS = ("blocks", "penalties", "sets", "losses")


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def rows():
    """Return the rows of the table, and how many each paper has."""
    text = (ROOT / "docs" / "papers.md").read_text()
    found = []
    for part in re.split(r"^### ", text[text.index("## All of it") :], flags=re.MULTILINE)[1:]:
        paper, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if line.startswith("|")]
        assert cells(lines[0]) == HEADS
        found += [(paper, *cells(line)) for line in lines[2:]]
    return found


ROWS = rows()


def code(cell):
    assert re.fullmatch(r"`[^`]+`", cell), cell
    return cell[1:-1]


def test_no_cell_is_empty_and_every_paper_is_there():
    assert len({paper for paper, *_ in ROWS}) == 5
    for row in ROWS:
        assert len(row) == 1 + len(HEADS)
        assert all(row), row


@pytest.mark.parametrize("name", sorted({code(row[2]) for row in ROWS}))
def test_every_name_is_in_the_library_and_takes_its_settings(name):
    importlib.import_module("softmargin.sets.balanced")
    importlib.import_module("softmargin.solvers.names")
    known = {room: importlib.import_module(f"softmargin.{room}") for room in ROOMS}
    value = eval(name, {**known, **{each: getattr(softmargin, each) for each in softmargin.__all__}})
    assert value is not None
    if getattr(value, "solver", "auto") != "auto":
        assert any(value.solver in names for names in softmargin.solvers.names.SOLVERS.values())


def test_every_file_is_there():
    for _, what, _, file, *_ in ROWS:
        assert any((place / code(file)).is_file() for place in (ROOT, ROOT / "src" / "softmargin")), what


def test_every_command_is_understood():
    if not (ROOT / "benchmarks").is_dir():
        pytest.skip("no benchmarks folder beside the tests")
    scripts = []
    for command in sorted({code(row[4]) for row in ROWS}):
        program, *words = shlex.split(command)
        if program == "softmargin":
            assert isinstance(build_parser().parse_args(words), argparse.Namespace)
        else:
            assert program == "python"
            scripts.append([words[0].removeprefix("benchmarks/"), *words[1:]])
    check = (
        "import importlib, json, sys\n"
        "for name, *words in json.loads(sys.argv[1]):\n"
        "    importlib.import_module(name.removesuffix('.py').replace('/', '.')).parser().parse_args(words)\n"
    )
    asked = [sys.executable, "-c", check, json.dumps(scripts)]
    done = subprocess.run(asked, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_test_is_there():
    for *_, test in ROWS:
        file, _, name = code(test).partition("::")
        assert f"\ndef {name}(" in (ROOT / file).read_text(), test
