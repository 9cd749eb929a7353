"""The page of docs/browser in a real browser: its predictor has our scores, and it knows a digit that is drawn."""

import html
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits

from softmargin import KernelSVC
from softmargin.features.scaling import fit_scaling
from softmargin.kernels import make_kernel
from softmargin.models import KernelExpansion, LinearModel, write_json_model
from softmargin.sets import LowRank

BROWSER = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
ROOT = Path(__file__).parents[2]
EVIL = "</script><script>document.body.dataset.harm = 1</script><img src=x onerror='document.body.dataset.harm = 1'>"
rng = np.random.default_rng(0)
X = np.round(8.0 + 4.0 * rng.normal(size=(5, 64)))
X[0] = 0.0

# What a visitor does, and what there is to see afterwards: {name: points}, a line through them.
VISIT = """<script>
const found = { classes, scores: [] };
for (const [model, rows] of MODELS) found.scores.push(rows.map(predictor(model)));
const arc = (x, y, rx, ry, from, to) => Array.from({ length: 31 }, (_, i) => {
  const angle = Math.PI * (from + (to - from) * i / 30);
  return [x + rx * Math.cos(angle), y + ry * Math.sin(angle)];
});
const drawings = {
  0: arc(128, 128, 60, 90, 0, 2),
  1: [[128, 30], [128, 220]],
  3: [...arc(120, 80, 50, 45, -0.8, 0.5), ...arc(120, 170, 55, 48, -0.5, 0.8)],
  7: [[70, 40], [190, 40], [110, 220]],
};
const drawn = (points) => {
  at("clear").click();
  points.forEach(([x, y], i) => stroke(x, y, i === 0));
  return at("label").textContent;
};
found.evil = drawn(drawings[1]);
found.images = document.images.length;
use(JSON.stringify(DIGITS));
found.drawn = Object.values(drawings).map(drawn);
found.bars = at("scores").childElementCount;
at("clear").click();
found.cleared = at("label").textContent;
use("{}");
found.trouble = at("trouble").textContent;
document.body.dataset.found = JSON.stringify(found);
</script></body>"""


def in_browser(path):
    """Return what the script found, and the page as it is then."""
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    dom = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(html.unescape(re.search('data-found="([^"]*)"', dom)[1])), dom


def as_json(model, folder):
    write_json_model(model, folder / "m.json")
    return json.loads((folder / "m.json").read_text())


def models():
    kernels = {"linear": {}, "rbf": {"gamma": 1e-3}, "laplacian": {"gamma": 1e-2}}
    kernels |= {"polynomial": {"gamma": 1e-2, "coef0": 1.0, "degree": 2}, "sigmoid": {"gamma": 1e-3, "coef0": 0.1}}
    vectors, coef = rng.normal(size=(6, 64)), rng.normal(size=(6, 3))
    yield LinearModel([1, 2], rng.normal(size=(1, 64)), [0.5])
    yield LinearModel([1, 2, 3], LowRank(*(rng.normal(size=shape) for shape in ((3, 2), (2,), (64, 2)))), np.ones(3))
    for name, settings in kernels.items():
        yield KernelExpansion([1, 2, 3], make_kernel(name, **settings), vectors, np.arange(6), 6, coef, np.ones(3))
    sparse, rbf = csr_matrix(np.round(vectors)), make_kernel("rbf", gamma=0.1)
    yield KernelExpansion([1, 2, 3], rbf, sparse, np.arange(6), 6, coef, np.ones(3))
    for how in ("rows", "maxabs", "standard"):
        info = fit_scaling(how, X, "X").as_info()
        yield KernelExpansion([1, 2, 3], rbf, vectors, np.arange(6), 6, coef, np.ones(3), info)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_the_page_scores_as_we_do_and_knows_what_is_drawn(tmp_path):
    page_of = runpy.run_path(str(ROOT / "docs" / "browser" / "digits_page.py"))["page_of"]
    images, digits = load_digits(return_X_y=True)
    clf = KernelSVC(gamma=1e-3, tol=1e-2, random_state=0).fit(images, digits)
    those = list(models())
    told = json.dumps([[as_json(model, tmp_path), X.tolist()] for model in those])
    visit = VISIT.replace("MODELS", told).replace("DIGITS", json.dumps(as_json(clf.model(), tmp_path)))
    evil = LinearModel([EVIL, "b"], np.zeros((1, 64)), [-1.0])
    (tmp_path / "page.html").write_text(page_of(evil).replace("</body>", visit))
    found, dom = in_browser(tmp_path / "page.html")

    for model, scores in zip(those, found["scores"], strict=True):
        rows = fit_scaling(model.info.get("normalize", "none"), X, "X").apply(X, "X")
        expected = model.decision_function(rows)
        np.testing.assert_allclose(np.array(scores), expected.reshape(len(X), -1), rtol=1e-9, atol=1e-9)
    assert found["drawn"] == ["0", "1", "3", "7"]
    assert found["bars"] == 3 * 10
    assert found["cleared"] == "?"
    assert "no model of softmargin export" in found["trouble"]
    assert found["classes"] == [EVIL, "b"]
    assert (found["evil"], found["images"]) == (EVIL, 0)
    assert "data-harm" not in dom


def test_the_page_loads_nothing():
    text = (ROOT / "docs" / "browser" / "digits.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|src=|href=|fetch\(|import ", text)
