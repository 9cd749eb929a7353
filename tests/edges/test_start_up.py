"""Waiting for imports is the first thing a user feels: what is not needed is not imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import softmargin

SOURCE = str(Path(softmargin.__file__).parents[1])
HEAVY = ("numba", "numpy", "scipy", "sklearn", "pandas", "rich")


def imported_by(program):
    """Run a program in a fresh interpreter; return which heavy packages it imported."""
    report = f"import json, sys; sys.stderr.write(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{report}"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def calling(*words):
    return f"from softmargin.cli.main import main; assert main({list(words)!r}) == 0"


@pytest.mark.parametrize(
    "program",
    [
        "import softmargin",
        "import softmargin.cli.main",
        calling("--help"),
        calling("--version"),
        calling("train", "--help"),
        calling("predict", "--help"),
        calling("certify", "--help"),
        calling("data", "--help"),
    ],
)
def test_import_and_help_need_nothing_heavy(program):
    assert imported_by(program) == []


def test_training_never_imports_scikit_learn(tmp_path):
    model = str(tmp_path / "m")
    train = calling("train", "digits", "--json", "--tol", "1e-2", "-o", model)
    others = [
        calling("predict", "digits", model, "--json"),
        calling("certify", model, "digits", "--json", "--bound-tol", "1e-2"),
    ]
    found = imported_by("\n".join([train, *others]))
    assert not {"sklearn", "pandas", "rich"} & set(found)


def test_listing_data_needs_no_compiler():
    assert not {"numba", "sklearn", "pandas"} & set(imported_by(calling("data")))
