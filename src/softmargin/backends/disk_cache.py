"""Compiled code on disk: in a folder that nobody else can write to, in files that are read whole or not at all.

Compiled code is stored as a pickle, and whoever writes a pickle runs code as its reader. So a folder is used only if it
belongs to the user and nobody else may write to it. In this order:

    NUMBA_CACHE_DIR                  where it is set
    __pycache__ beside the source    as Numba does; passed over where it is read-only, or not the user's own
    the user's own cache folder      XDG_CACHE_HOME or ~/.cache; ~/Library/Caches on macOS; LOCALAPPDATA on Windows

Nothing here imports Numba.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

__all__ = ["CodeFiles", "code_folder", "own_folder", "private_folder", "user_cache"]

_DIGEST_BYTES = hashlib.sha256().digest_size
_KEPT = 4  # folders of one kind
_SHORT = 16  # characters of a digest that is part of a name


def user_cache() -> Path:
    """Return softmargin's folder among the caches of the user; it need not exist, nor be absolute without a home."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    elif sys.platform == "darwin":
        root = os.path.expanduser("~/Library/Caches")
    else:
        named = os.environ.get("XDG_CACHE_HOME", "")
        root = named if os.path.isabs(named) else os.path.expanduser("~/.cache")
    return Path(root) / "softmargin"


def private_folder(path: Path, mode: int = 0o700) -> Path:
    """Return a folder, made where it is missing; OSError where it cannot be written to, or others could do so."""
    if not path.is_absolute():
        raise PermissionError(f"{path} has no place: the user has no home folder")
    _make(path, mode)
    if os.name == "posix":
        user, own, above = os.geteuid(), path.stat(), path.parent.stat()
        if own.st_uid != user:
            raise PermissionError(f"{path} belongs to another user (uid {own.st_uid})")
        if own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others may write to {path} (mode {stat.S_IMODE(own.st_mode):o})")
        # In a sticky folder, such as the temporary one, nobody can rename what belongs to somebody else.
        if above.st_uid not in (user, 0) or (above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX):
            raise PermissionError(f"others may replace {path}")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written to")
    return path


def own_folder(kind: str, version: str) -> Path:
    """Return the folder ``kind-version`` among the user's caches, or a fresh temporary one where there can be none.

    Of every kind the folders that were used last are kept, and older ones removed.
    """
    try:
        folder = private_folder(user_cache() / f"{kind}-{version}")
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"softmargin-{kind}-{version}-"))
    with contextlib.suppress(OSError):  # another process may remove the same folders
        os.utime(folder)
        others = [path for path in folder.parent.glob(f"{kind}-*") if path != folder and path.is_dir()]
        for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
    return folder


def _make(path: Path, mode: int) -> None:
    if not path.is_dir():
        _make(path.parent, mode)
        path.mkdir(mode=mode, exist_ok=True)


@functools.cache
def code_folder(source: Path, named: str = "") -> Path:
    """Return the folder for compiled code of the sources in a folder; OSError says why there is none.

    Parameters
    ----------
    source : Path
        The folder of the source file.
    named : str
        NUMBA_CACHE_DIR.
    """
    key = f"{source.name}_{_short(bytes(source))}"
    wanted = [(source / "__pycache__", 0o755), (user_cache() / "numba" / key, 0o700)]
    if named:
        wanted.insert(0, (Path(named).absolute() / key, 0o700))
    troubles = []
    for path, mode in wanted:
        try:
            return private_folder(path, mode)
        except OSError as problem:
            troubles.append(str(problem))
    raise PermissionError("; ".join(troubles))


class CodeFiles:
    """The compiled forms of one function: a file for each key, with its checksum in front.

    Parameters
    ----------
    folder : Path
    name : str
        Begins the names of the files.
    stamp : bytes
        Whatever the code depends on; files with another stamp are removed when one is saved.
    """

    def __init__(self, folder: Path, name: str, stamp: bytes) -> None:
        self.folder, self._name = folder, name
        self._current = f"{name}.{_short(stamp)}."

    def _path(self, key: str) -> Path:
        return self.folder / f"{self._current}{_short(key.encode())}.nbc"

    def load(self, key: str) -> bytes | None:
        """Return what was saved under a key; None where there is nothing, or its file is truncated or damaged."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        code = content[_DIGEST_BYTES:]
        return code if hashlib.sha256(code).digest() == content[:_DIGEST_BYTES] else None

    def save(self, key: str, code: bytes) -> None:
        """Write the file of a key, whole or not at all; OSError where that fails."""
        path = self._path(key)
        temporary = path.with_suffix(f".{os.urandom(6).hex()}.tmp")
        try:
            temporary.write_bytes(hashlib.sha256(code).digest() + code)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self.clear(keep=self._current)

    def clear(self, keep: str | None = None) -> None:
        """Remove all files of the function but those whose names begin with ``keep``."""
        for path in self.folder.iterdir():
            if path.name.startswith(f"{self._name}.") and not (keep and path.name.startswith(keep)):
                with contextlib.suppress(OSError):
                    path.unlink()


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_SHORT]
