"""The benchmark of data as they come: its forms, its tables, and that a run goes on where it stopped."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from softmargin.data import write_libsvm

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no benchmarks folder beside the tests")


@pytest.fixture
def room(monkeypatch):
    """Return a function that imports a file of the room; its modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(FOLDER)
    yield lambda name: importlib.import_module(f"hard.{name}")
    for name in set(sys.modules) - before:
        if (FOLDER / name.partition(".")[0]).is_dir():
            del sys.modules[name]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a folder of two sets: an array with columns of all sizes, and one of zeros and ones."""
    folder, rng = tmp_path / "data", np.random.default_rng(0)
    folder.mkdir()
    y = np.arange(40) % 2
    write_libsvm(folder / "sizes.libsvm", csr_matrix(rng.normal(size=(40, 3)) * [1.0, 1e3, 1e-3] + y[:, None]), y)
    write_libsvm(folder / "ones.libsvm", csr_matrix((rng.random((40, 9)) < 0.3).astype(float)), y)
    monkeypatch.setenv("SOFTMARGIN_DATA", str(folder))
    return folder


def test_forms_are_what_users_are_told_to_do(room):
    standardised, rng = room("cells").standardised, np.random.default_rng(0)
    columns = standardised(rng.normal(size=(50, 3)) * 1e3 + 7.0)
    np.testing.assert_allclose([columns.mean(axis=0), columns.var(axis=0)], [np.zeros(3), np.ones(3)], atol=1e-12)
    texts = standardised(random(10, 60, 0.3, random_state=0, format="csr"))
    np.testing.assert_allclose(np.sqrt(texts.multiply(texts).sum(axis=1)), 1.0)
    others = standardised(csr_matrix(5.0 * random(60, 10, 0.3, random_state=0, format="csr")))
    np.testing.assert_allclose(others.max(axis=0).toarray(), 1.0)


def test_standardising_that_changes_nothing_is_not_fitted_twice(room, data):
    sets = room("cells").Sets()
    assert sets.of("ones", "standardised", has_kernel=False) is None
    assert sets.of("ones", "raw", has_kernel=True)[0].shape == (40, 9)
    X, y = sets.of("sizes", "standardised", has_kernel=False)
    assert isinstance(X, np.ndarray)
    assert len(y) == 40
    assert room("cells").Sets(["standardised"]).of("ones", "standardised", has_kernel=False) is not None
    assert room("cells").Sets(most_rows=39).of("sizes", "raw", has_kernel=True) is None


def test_a_run_goes_on_where_it_stopped_and_peers_are_judged(data, tmp_path):
    out = tmp_path / "hard.jsonl"
    words = ["--settings", "softmax-l2", "--C", "1", "--peers", "-o", str(out)]
    done = [
        subprocess.run(
            [sys.executable, "hard/certified.py", *words], cwd=FOLDER, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    kinds = [row["kind"] for row in rows]
    # Three forms are fitted by us and by two peers, each asked twice; the fourth form is one of the three.
    assert [kinds.count(kind) for kind in ("machine", "measurement", "left out")] == [2, 3 * 5, 5]
    ours = [row["residual"] for row in rows if row["kind"] == "measurement" and row["contender"] == "softmargin"]
    assert all(0.0 <= residual <= 1e-3 for residual in ours)
    assert "**3 of 3 fits certified**" in done[0].stdout
    assert "| sklearn lbfgs, patient | softmax-l2, 1 | 0.001 | 3 | 3 | 0 |" in done[0].stdout
    assert done[1].stdout == done[0].stdout
    assert "gap" not in done[1].stderr


def row(data="a", residual=1e-4, seconds=1.0, **more):
    """Return a measurement."""
    cell = {"data": data, "form": "raw", "setting": "linear-ww", "C": 1.0, "tol": 1e-3, "contender": "softmargin"}
    return {"kind": "measurement", **cell, "residual": residual, "seconds": seconds, "status": "max_seconds", **more}


def test_tables_count_what_is_proven_in_time(room, capsys):
    rows = [row("a"), row("b", 0.5), row("c", seconds=25.0), row("d", None, np.inf, status="ended by force")]
    before = [row("a", seconds=0.5), row("b"), row("c", 0.9)]
    room("tables").show(rows, 20.0, before)
    text = capsys.readouterr().out
    assert "**1 of 4 fits certified** within 20 s of one core; 2 took more than 22 s." in text
    assert "| linear-ww, 1 | 0.001 | 4 | 1 | – | 13 | inf | inf |" in text
    lines = [line for line in text.splitlines() if line.startswith(("| a |", "| b |", "| c |", "| d |"))]
    assert lines == [
        "| d | raw | linear-ww, 1 | 0.001 | – | inf | ended by force |",
        "| b | raw | linear-ww, 1 | 0.001 | 5.0e-01 | 1 | max_seconds |",
        "| c | raw | linear-ww, 1 | 0.001 | 1.0e-04 | 25 | max_seconds |",
        "| b | raw | linear-ww, 1 | 0.001 | 1.0e-04 | 1 | 5.0e-01 | 1 |",
        "| a | raw | linear-ww, 1 | 0.001 | 1.0e-04 | 0.5 | 1.0e-04 | 1 |",
    ]
