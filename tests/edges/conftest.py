"""Fixtures of the command-line tests."""

import json

import pytest

from softmargin.cli.main import main


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

    def call(*words, code=1):
        found, out, err = softmargin_(*words)
        assert (found, out) == (code, ""), err
        assert err.startswith("softmargin: error: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
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
