"""`softmargin report`: a page that says what is proven, measured and looked at, and that runs nothing."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

TABLE = """<script>alert(1)</script>,b$x,color,label
1,2,red,<b>yes</b>
2,1,blue,no
3,5,red,<b>yes</b>
1,0,blue,no
4,4,red,<b>yes</b>
0,1,blue,no
5,4,red,<b>yes</b>
0,0,green,no
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train once: a model with its trace, a model of a table, and a regressor."""
    from softmargin.cli.main import main

    folder = tmp_path_factory.mktemp("report")
    (folder / "table.csv").write_text(TABLE)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    np.savez(folder / "numbers.npz", X=X, y=X @ [1.0, 0.0, -1.0])
    quiet = ("-q", "--json")
    assert main(["train", "digits", "-o", f"{folder / 'm'}", "--trace", f"{folder / 'm.json'}", *quiet]) == 0
    table = ("--label", "label", "--model", "softmax", "--normalize", "standard", "--trace", f"{folder / 'w.jsonl'}")
    assert main(["train", f"{folder / 'table.csv'}", "-o", f"{folder / 'w'}", *table, *quiet]) == 0
    ball = ("--model", "l1-ball-regressor", "--radius", "1.5")
    assert main(["train", f"{folder / 'numbers.npz'}", "-o", f"{folder / 'r'}", *ball, *quiet]) == 0
    return folder


def test_a_page_tells_what_is_proven_and_how_well_it_does(trained, from_json):
    page = trained / "m.html"
    found = from_json("report", trained / "m", trained / "m.json", "digits", "-o", page)
    text = page.read_text()
    assert found["fits"][0]["verdict"] in text.replace("&#x27;", "'")
    assert "which the model was trained on" in found["rows_used"]
    accuracy = from_json("predict", "digits", trained / "m", "--part", "all", "-o", trained / "labels")["accuracy"]
    assert f"<b>{accuracy:.4f}</b>" in text
    for heading in ("Settings", "Data", "The run", "Confusion", "Margins", "What the model looks at"):
        assert f"<h2>{heading}</h2>" in text
    assert "Calibration" not in text  # this model has no probabilities
    assert text.count("<svg") == 3
    assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}  # the names of SVG's vocabularies


def test_names_of_columns_and_labels_are_inert(trained, softmargin_):
    page = trained / "w.html"
    code, out, _ = softmargin_("report", trained / "w", trained / "table.csv", "-o", page)
    assert code == 0
    assert "No weights have an objective" in out
    text = page.read_text()
    assert "<script" not in text
    assert "<b>yes" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "Calibration" in text
    assert "<td>column_scales</td><td>5 numbers from" in text  # not a page of them


def test_a_liblinear_file_that_holds_no_price_has_a_page(trained, from_json):
    from_json("train", "digits", "-o", trained / "l", "--format", "liblinear", "-q")
    from_json("report", trained / "l", "-o", trained / "l.html")
    assert "linear SVM" in (trained / "l.html").read_text()


def test_several_fits_stand_side_by_side(trained, from_json):
    page = trained / "both.html"
    found = from_json("report", trained / "m", trained / "m.json", trained / "w.jsonl", "-o", page)
    assert [fit["name"] for fit in found["fits"]] == ["m", "w.jsonl"]
    assert "Side by side" in page.read_text()
    ours = from_json("report", trained / "r", trained / "numbers.npz", "-o", trained / "r.html")
    assert ours["rows_used"].startswith("all 30 rows")
    assert "R²" in (trained / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digits",), "no model and no trace"),
        (("m", "digits", "dna"), "one data set"),
        (("m.json", "digits"), "name its model before it"),
        (("m", "broken.json"), "--trace"),
        (("m", "short.json"), "different lengths"),
    ],
)
def test_what_makes_no_page_is_refused(trained, softmargin_, words, message):
    (trained / "broken.json").write_text('{"iteration": 3')
    (trained / "short.json").write_text(json.dumps({"iteration": [1], "seconds": [], "residual": []}))
    named = [trained / word if (trained / word).exists() else word for word in words]
    code, _, err = softmargin_("report", *named, "-o", trained / "none.html")
    assert code == (2 if message in ("one data set", "name its model before it") else 1)
    assert message in err
    assert not (trained / "none.html").exists()


def test_without_matplotlib_the_page_says_how_to_get_pictures(trained, softmargin_, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert softmargin_("report", trained / "m.json", "-o", trained / "plain.html")[0] == 0
    assert "softmargin[plot]" in (trained / "plain.html").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_window(trained, softmargin_, width):
    page = trained / "wide.html"
    assert softmargin_("report", trained / "m", trained / "m.json", "digits", "-o", page)[0] == 0
    script = "<script>document.title = document.documentElement.scrollWidth + ' of ' + window.innerWidth</script>"
    (trained / "measured.html").write_text(page.read_text() + script)
    words = ["chromium", "--headless", "--no-sandbox", f"--window-size={width},2000", "--dump-dom"]
    shown = subprocess.run([*words, trained / "measured.html"], capture_output=True, text=True, timeout=120).stdout
    title = re.search(r"<title>(\d+) of (\d+)</title>", shown)
    assert title is not None
    assert int(title[1]) <= int(title[2])
