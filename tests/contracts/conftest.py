"""Fixtures of the contract tests: of the loop and its watchers, and of array libraries."""

import os
import signal

import pytest

from array_libraries import LIBRARIES, ON_GPU
from helpers import Clock
from softmargin.run import budget


@pytest.fixture
def clock(monkeypatch):
    """Put the loop on a clock that only fakes move."""
    clock = Clock()
    monkeypatch.setattr(budget, "time", clock)
    return clock


@pytest.fixture
def ctrl_c():
    """Give a function that presses Ctrl-C, under the handler Python starts with (a test worker may have another)."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda *_: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, old)


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.gpu] * (name in ON_GPU)) for name in LIBRARIES])
def put(request):
    """Return a function from NumPy arrays to those of a library, on a device."""
    return LIBRARIES[request.param]()
