"""Compiled code on disk: any fit works without it, damage is noticed, and nobody else's code is ever read."""

import hashlib
import importlib.util
import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import softmargin
from softmargin.backends import disk_cache, jit
from softmargin.backends.disk_cache import code_folder, own_folder, private_folder

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
NOBODY = 65534
LOOP = """
from softmargin.backends.jit import jit

@jit
def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Return a function that imports a module with one loop as a new process would; its code goes to ``tmp_path``."""
    source = tmp_path / "loops.py"
    source.write_text(LOOP)
    monkeypatch.setattr(jit.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(jit._StructCache, "has_warned", False)

    def load():
        code_folder.cache_clear()
        spec = importlib.util.spec_from_file_location("loops", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return load


def stored(tmp_path):
    return sorted((tmp_path / "cache").rglob("*.nbc"))


def hits(loop):
    return sum(loop.stats.cache_hits.values())


def test_code_is_kept_in_a_private_folder_and_found_again(fresh, tmp_path):
    assert fresh()(np.ones(3)) == 3.0
    (path,) = stored(tmp_path)
    if os.name == "posix":
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    again = fresh()
    assert again(np.ones(3)) == 3.0
    assert hits(again) == 1


def test_code_of_an_older_source_is_removed(fresh, tmp_path):
    fresh()(np.ones(3))
    (old,) = stored(tmp_path)
    jit._stamp.cache_clear()
    (tmp_path / "loops.py").write_text(LOOP + "# edited\n")
    changed = fresh()
    assert changed(np.ones(3)) == 3.0
    assert hits(changed) == 0
    (new,) = stored(tmp_path)
    assert new != old


class Planted:
    """A pickle that leaves a trace when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("damage", ["truncated", "empty", "one bit", "another pickle", "a folder"])
def test_a_damaged_file_is_ignored_and_rewritten(fresh, tmp_path, damage):
    """F6: a truncated one was an UnpicklingError, and a wrong bit would be run as machine code."""
    fresh()(np.ones(3))
    (path,) = stored(tmp_path)
    content = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
        with pytest.warns(RuntimeWarning, match="compiled loops are not kept on disk"):
            assert fresh()(np.ones(3)) == 3.0
        return
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    pickled = pickle.dumps(Planted(tmp_path / "executed"))
    path.write_bytes(
        {"truncated": content[:-100], "empty": b"", "one bit": bytes(flipped), "another pickle": pickled}[damage]
    )
    again = fresh()
    assert again(np.ones(3)) == 3.0
    assert hits(again) == 0
    assert not (tmp_path / "executed").exists()
    assert hashlib.sha256(path.read_bytes()[32:]).digest() == path.read_bytes()[:32]


def test_a_full_disk_is_one_warning(fresh, monkeypatch):
    """F6: it was OSError 28 from fit."""

    def write(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)
    loop = fresh()
    with pytest.warns(RuntimeWarning, match=r"not kept on disk .*cache.*No space left.*Set NUMBA_CACHE_DIR") as told:
        assert loop(np.ones(3)) == 3.0
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loop(np.ones(3, dtype=np.float32)) == 3.0


@posix
def test_folders_that_others_can_write_to_are_refused(tmp_path):
    """F8: a file planted there was executed."""
    mine = private_folder(tmp_path / "mine")
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    for mode in (0o777, 0o770, 0o702):
        mine.chmod(mode)
        with pytest.raises(PermissionError, match="others may write"):
            private_folder(mine)
    mine.chmod(0o755)
    assert private_folder(mine) == mine
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="others may replace"):
        private_folder(mine)
    tmp_path.chmod(0o1777)  # sticky, as the temporary folder
    assert private_folder(mine) == mine


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_folders_of_others_are_refused(tmp_path):
    os.chown(private_folder(tmp_path / "theirs"), NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="another user"):
        private_folder(tmp_path / "theirs")
    with pytest.raises(PermissionError, match="others may replace"):
        private_folder(tmp_path / "theirs" / "within")


@posix
def test_code_goes_where_only_the_user_can_write(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(sys, "platform", "linux")
    source, named = tmp_path / "package", tmp_path / "named"
    (source / "__pycache__").mkdir(parents=True)
    code_folder.cache_clear()
    assert code_folder(source, str(named)).parent == named
    assert code_folder(source) == source / "__pycache__"
    (source / "__pycache__").chmod(0o777)
    named.chmod(0o777)
    code_folder.cache_clear()
    assert code_folder(source, str(named)).parent == tmp_path / "caches" / "softmargin" / "numba"
    code_folder.cache_clear()


@posix
def test_own_folders_are_among_the_users_caches_or_new(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert own_folder("numba", "abc") == tmp_path / "softmargin" / "numba-abc"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, second = own_folder("x", "y"), own_folder("x", "y")
    assert first != second
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    monkeypatch.setattr(disk_cache.os.path, "expanduser", lambda path: path)
    with pytest.raises(PermissionError, match="no home folder"):
        private_folder(disk_cache.user_cache())


def test_own_folders_of_old_versions_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = own_folder("data", "0")
    for version in range(6):
        folder = own_folder("numba", str(version))
        (folder / "code").mkdir()
        os.utime(folder, (version, version))
    own_folder("numba", "2")
    names = sorted(path.name for path in other.parent.iterdir())
    assert names == ["data-0", "numba-2", "numba-3", "numba-4", "numba-5"]


SUM_OF_SQUARES = """
import numpy as np
from softmargin.matrices.rows import as_rows, squared_norms
for dtype in (np.float32, np.float64):
    out = np.zeros(2)
    squared_norms(as_rows(np.ones((2, 3), dtype=dtype)), out)
    assert (out == 3.0).all()
"""
FITS = """
import numpy as np
from softmargin import KernelSVC, LinearSVC, SoftmaxRegression
X = np.random.default_rng(0).standard_normal((60, 4))
for estimator in (LinearSVC(), KernelSVC(), SoftmaxRegression()):
    assert estimator.fit(X, np.arange(60) % 3).status_ == "converged"
"""


@posix
@pytest.mark.parametrize("script", [SUM_OF_SQUARES, pytest.param(FITS, marks=pytest.mark.slow)])
def test_a_container_without_any_folder_compiles_and_says_so_once(script):
    """F6: unprivileged user, no HOME, read-only site-packages; the import was a RuntimeError."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        package = Path(folder) / "site" / "softmargin"
        shutil.copytree(Path(softmargin.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (*package.rglob("*"), package):
            path.chmod(0o555 if path.is_dir() else 0o444)
        user = []
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                pytest.skip("setpriv is not here; root can write everywhere")
            # Reading stays allowed: the interpreter itself may lie in a folder of root's.
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            user += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH")}
        done = subprocess.run(
            [*user, sys.executable, "-W", "always", "-c", script],
            env=kept | {"HOME": "/nonexistent", "PYTHONPATH": str(package.parent)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        for path in (*package.rglob("*"), package):
            path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("compiled loops are not kept on disk") == 1, done.stderr
    assert "/nonexistent" in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr
