"""The examples of the gallery run as they stand."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


def test_there_is_a_gallery():
    assert len(EXAMPLES) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the extra plot is not installed")
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    runpy.run_path(str(path), run_name="__main__")
    pyplot.close("all")
