"""The first hour of a newcomer: a fresh environment, a table of one's own, the best settings, files for others."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest

from softmargin.data import blobs, write_libsvm

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def softmargin_of(tmp_path_factory):
    """Install the package in a fresh environment, beside the libraries of this one: nothing is downloaded."""
    pytest.importorskip("hatchling", reason="builds the package")
    home = tmp_path_factory.mktemp("newcomer")
    venv.create(home / "venv", with_pip=True)
    python = home / "venv" / "bin" / "python"
    site = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    Path(site.strip(), "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOFTMARGIN"))}
    install = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--force-reinstall", ROOT]
    subprocess.run(install, check=True, env=environment)

    def call(*words, code=0, stdin=""):
        command = [home / "venv" / "bin" / "softmargin", *map(str, words)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=environment, cwd=home, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return call, home


@pytest.fixture(scope="module")
def people(softmargin_of):
    """Write a table with text labels, a column of text and missing values; return it and the lines of its rows."""
    rng, home = np.random.default_rng(0), softmargin_of[1]
    lines = []
    for i in range(300):
        job = ("baker", "painter", "smith")[i % 3]
        age, height = rng.normal(30 + 10 * (i % 3), 4), rng.normal(170 - 5 * (i % 3), 3)
        town = rng.choice(["Ulm", "Bonn", "Kiel"], p=np.roll([0.7, 0.2, 0.1], i % 3))
        lines.append(f"{'' if i % 17 == 0 else f'{age:.2f}'},{height:.1f},{'' if i % 23 == 0 else town},{job}")
    (home / "people.csv").write_text("\n".join(["age,height,town,job", *lines]) + "\n")
    return home / "people.csv", lines


def test_the_newcomers_hour(softmargin_of, people):
    softmargin, _ = softmargin_of
    table, lines = people
    assert sys.prefix not in softmargin("--version")
    assert "--missing" in softmargin("train", table, code=1)

    words = ("--label", "job", "--missing", "mean", "--normalize", "standard", "--search", "C=1e-2:1e2:log")
    found = json.loads(softmargin("train", table, *words, "-o", "people.model", "--json", "-q"))
    assert found["trained_on"] == "all 300 rows of people.csv"
    assert found["cv"]["score"] > 0.85
    assert found["C"] in [0.01, 0.1, 1.0, 10.0, 100.0]
    assert found["certificate"]["residual"] <= 1e-3

    new = "\n".join(["town,age,height", *(",".join(np.array(line.split(","))[[2, 0, 1]]) for line in lines[:30])])
    labels = softmargin("predict", "-", "people.model", "-q", stdin=new + "\n").split()
    assert np.mean(np.array(labels) == [line.rpartition(",")[2] for line in lines[:30]]) > 0.8

    certificate = json.loads(softmargin("certify", "people.model", table, "--json", "-q"))
    assert certificate["residual"] <= 1.1e-3

    page = softmargin_of[1] / "people.html"
    softmargin("report", "people.model", table, "-o", page)
    assert "town=Ulm" in page.read_text()  # a weight by its name


def test_models_for_others(softmargin_of, people):
    softmargin, home = softmargin_of
    X, y = blobs(120, 5, 3, seed=0)
    write_libsvm(home / "rows.libsvm", X, y)
    softmargin("train", "--like", "libsvm", "-t", "2", "-g", "0.1", "-c", "2", "rows.libsvm", "rows.model")
    softmargin("export", "rows.model", "-o", "svm.txt", "--format", "libsvm")
    assert (home / "svm.txt").read_text().startswith("svm_type c_svc\nkernel_type rbf\n")
    found = json.loads(softmargin("certify", "svm.txt", "rows.libsvm", "-C", "2", "--json"))
    assert found["residual"] <= 2e-3
    theirs = softmargin("predict", "rows.libsvm", "svm.txt", "-q")
    assert theirs == softmargin("predict", "rows.libsvm", "rows.model", "-q")

    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    softmargin("export", "rows.model", "-o", "rows.onnx")
    session = onnxruntime.InferenceSession(home / "rows.onnx")
    labels = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[0]
    assert theirs.split() == [str(label) for label in labels]
