"""Files written whole or not at all; errors that name the file and the cause."""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from softmargin.core.errors import ModelFileError, SoftmarginError

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

__all__ = ["DAMAGE", "atomic_write", "blaming", "find_target", "is_same_file", "open_binary"]

# What zipfile, zlib, json and NumPy raise on content that nobody wrote on purpose.
DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(lzma.LZMAError, struct.error, zipfile.BadZipFile, zlib.error),
)


@contextlib.contextmanager
def blaming(
    path: str | os.PathLike[str], *, error: type[SoftmarginError] = ModelFileError, advice: str = "Copy it again."
) -> Iterator[None]:
    """Blame the file, with the cause, where its content makes a reader fail."""
    try:
        yield
    except error:
        raise
    except MemoryError as problem:
        raise error(f"{os.fspath(path)!r} needs more memory than there is. {problem}".rstrip()) from problem
    except DAMAGE as problem:
        cause = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem) or type(problem).__name__
        raise error(f"{os.fspath(path)!r} is truncated or damaged ({cause[:300].rstrip('.')}). {advice}") from problem


def open_binary(path: str | os.PathLike[str], *, error: type[SoftmarginError] = ModelFileError) -> IO[bytes]:
    """Open a file for reading; say in one sentence why it cannot be."""
    try:
        return open(path, "rb")
    except OSError as problem:
        raise error(f"cannot read {os.fspath(path)!r}: {problem.strerror or problem}.") from problem


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, error: type[SoftmarginError] = ModelFileError) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under `path` only when the block ends without an error.

    The bytes go to a temporary file in the same folder, reach the disk (fsync), and get the name in one step. If the
    block raises, or the process dies, the old file at `path` is unchanged; the next writer removes what a killed one
    left. Links are followed; devices and pipes (``/dev/null``) get the bytes at the end. ``error`` is raised when the
    system refuses.
    """
    shown = os.fspath(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            # A zip is written back and forth, which a device is not.
            content = io.BytesIO()
            yield content
            with open(path, "wb") as device:
                device.write(content.getbuffer())
            return
        with _renamed_at_the_end(find_target(path, error=error)) as file:
            yield file
    except OSError as problem:
        raise error(
            f"cannot write {shown!r}: {problem.strerror or problem}. What stood there before is unchanged."
        ) from problem


def is_same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Say whether both names lead to one file, which need not exist."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def find_target(path: str | os.PathLike[str], *, error: type[SoftmarginError] = ModelFileError) -> Path:
    """Return the file that `path` names, links followed; refuse a folder, and a file in no folder."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise error(f"cannot write {os.fspath(path)!r}: it is a folder. Give the name of a file.")
    if not target.parent.is_dir():
        raise error(f"cannot write {os.fspath(path)!r}: there is no folder {str(target.parent)!r}. Make it first.")
    return target


@contextlib.contextmanager
def _renamed_at_the_end(target: Path) -> Iterator[IO[bytes]]:
    _remove_leftovers(target)
    temporary, descriptor = _open_temporary(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    # The new name shall survive a power failure, where the system allows it.
    with contextlib.suppress(OSError):
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# A name may have 255 bytes, a character up to 4 of them.
_NAME_KEPT = 40


def _open_temporary(target: Path) -> tuple[Path, int]:
    """Make a file beside the target that is locked while its writer lives."""
    while True:
        temporary = target.with_name(f".{target.name[:_NAME_KEPT]}.{os.urandom(6).hex()}.tmp")
        # os.open with 0o666 lets the user's umask decide the mode; tempfile would make every model 0600.
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is None:
            return temporary, descriptor
        with contextlib.suppress(OSError):  # some network folders have no locks; nobody removes files there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Somebody may have taken it for a leftover before it was locked.
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files that killed writers of this target have left: of this user, and locked by nobody."""
    if fcntl is None:
        return
    is_ours = re.compile(re.escape(f".{target.name[:_NAME_KEPT]}.") + r"[0-9a-f]{12}\.tmp").fullmatch
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if is_ours(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(descriptor)
