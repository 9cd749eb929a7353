"""Fixtures of the command-line tests."""

import json

import numpy as np
import pytest

from softmargin.cli.main import main
from softmargin.data import blobs, write_libsvm


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch):
    for name in ("SOFTMARGIN_DATA", "SOFTMARGIN_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def softmargin_(capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def call(*words):
        code = main([str(word) for word in words])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(softmargin_):
    """Run something that must fail; return the one line it leaves."""

    def call(*words, code=None):
        found, out, err = softmargin_(*words)
        assert found in (1, 2) if code is None else found == code, err
        assert out == ""
        assert err.startswith("softmargin: error: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        assert ("See: softmargin " in err) == (found == 2)
        return err

    return call


@pytest.fixture
def from_json(softmargin_):
    """Run with --json; return what the one line holds."""

    def call(*words, code=0):
        found, out, err = softmargin_(*words, "--json")
        assert found == code, err
        assert out.count("\n") == 1
        return json.loads(out, parse_constant=pytest.fail)

    return call


@pytest.fixture
def files(tmp_path):
    """Write a training file in LIBSVM form, and test files that lack its last column or have two more."""
    X, y = blobs(160, 6, 3, seed=0, separation=1.5)
    write_libsvm(tmp_path / "train.libsvm", X[:120], y[:120] + 1)
    narrow = X[120:].copy()
    narrow[:, -1] = 0.0
    write_libsvm(tmp_path / "narrow.libsvm", narrow, y[120:] + 1)
    write_libsvm(tmp_path / "wide.libsvm", np.hstack([X[120:], np.ones((40, 2))]), y[120:] + 1)
    return tmp_path
