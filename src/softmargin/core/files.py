"""Files written whole or not at all, and the one archive format of models and checkpoints.

An archive is an ordinary zip file, which `numpy.load` and any unzip program can read:

    model.json       format name and version, kind, package version, the caller's `meta`, checksum
    <name>.npy       one member per array, in NumPy's own format; never a pickle

The checksum is a SHA-256 over every array (name, type, shape, bytes) and over the meta, so a changed byte is found even
where somebody also changed the CRC of the zip.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

import softmargin
from softmargin.core.errors import ModelFileError, SoftmarginError

__all__ = ["archive_kind", "atomic_write", "find_target", "open_binary", "read_archive", "write_archive"]

FORMAT_NAME = "softmargin-model"
FORMAT_VERSION = 1
_HEADER = "model.json"
# Keys of JSON are text; a class_weight such as {0: 1.0, 3: 2.0} is stored as a list of pairs.
_PAIRS = "__pairs__"
_ZIP_MAGIC = b"PK\x03\x04"
# The last record of a zip, 22 bytes and a comment of at most 65535.
_ZIP_END, _ZIP_END_REACH = b"PK\x05\x06", 22 + 65535
# The date of every zip member, so that the same model gives the same bytes.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError, RuntimeError)


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
    block raises, or the process dies, the old file at `path` is unchanged. Links are followed; devices and pipes
    (``/dev/null``) are written directly. ``error`` is raised when the system refuses.
    """
    shown = os.fspath(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            with open(path, "wb") as device:
                yield device
            return
        with _renamed_at_the_end(find_target(path, error=error)) as file:
            yield file
    except OSError as problem:
        raise error(
            f"cannot write {shown!r}: {problem.strerror or problem}. What stood there before is unchanged."
        ) from problem


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
    temporary = target.with_name(f".{target.name[:80]}.{os.urandom(6).hex()}.tmp")
    # os.open with 0o666 lets the user's umask decide the mode; tempfile would make every model 0600.
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
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


def write_archive(
    path: str | os.PathLike[str], *, kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON-able `meta` as one archive, whole or not at all; no suffix is added to the path.

    ``kind`` says what the archive holds ("LinearModel"); `read_archive` requires the same word. Object arrays, which
    need a pickle, are refused. ``meta`` may hold numbers, text, None, lists, dicts (with any simple keys), NumPy
    scalars and arrays.
    """
    plain_meta = _to_json(meta, "meta")
    packed = {name: np.asarray(array) for name, array in sorted(arrays.items())}
    for name, array in packed.items():
        if array.dtype.hasobject:
            raise ModelFileError(f"cannot store array {name!r}: its type is object. Use numbers or text.")
    header = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "softmargin_version": softmargin.__version__,
        "arrays": list(packed),
        "meta": plain_meta,
        "sha256": _checksum(packed, plain_meta),
    }
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(header, indent=1, ensure_ascii=False)
        archive.writestr(zipfile.ZipInfo(_HEADER, _ZIP_DATE), text.encode("utf-8", "surrogatepass"))
        for name, array in packed.items():
            info = zipfile.ZipInfo(f"{name}.npy", _ZIP_DATE)
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_archive(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and meta of an archive.

    ModelFileError if it is missing, of another format or kind, truncated, damaged, or newer than this softmargin.
    """
    shown = os.fspath(path)
    with _open_archive(path) as archive:
        header = _read_header(archive, shown)
        if header["kind"] != kind:
            raise ModelFileError(f"{shown!r} holds a {header['kind']}; a {kind} was asked for.")
        arrays = {name: _read_member(archive, name, shown) for name in header["arrays"]}
    if _checksum(arrays, header["meta"]) != header["sha256"]:
        raise ModelFileError(
            f"{shown!r} is damaged: its checksum does not match its content. Copy it again, or train again."
        )
    return arrays, _from_json(header["meta"])


def archive_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of the archive at `path` (``"LinearModel"``); ModelFileError where it is no archive."""
    with _open_archive(path) as archive:
        return str(_read_header(archive, os.fspath(path))["kind"])


def _open_archive(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    shown = os.fspath(path)
    with open_binary(path) as file:
        content = file.read()
    if not content.startswith(_ZIP_MAGIC):
        raise ModelFileError(f"{shown!r} is not a softmargin file: {_looks_like(content)}.")
    if _ZIP_END not in content[-_ZIP_END_REACH:]:
        raise ModelFileError(
            f"{shown!r} is truncated: its end is missing ({len(content)} bytes are there). "
            "Copy it again, or train again."
        )
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except _DAMAGE as problem:
        raise ModelFileError(f"{shown!r} is damaged ({problem}). Copy it again, or train again.") from problem


def _read_header(archive: zipfile.ZipFile, shown: str) -> dict[str, Any]:
    if _HEADER not in archive.namelist():
        raise ModelFileError(
            f"{shown!r} is not a softmargin file: it is a zip (an .npz?) without a member {_HEADER!r}."
        )
    try:
        header = json.loads(archive.read(_HEADER).decode("utf-8", "surrogatepass"))
    except _DAMAGE as problem:
        raise ModelFileError(f"{shown!r} is damaged: member {_HEADER!r} cannot be read ({problem}).") from problem
    if not isinstance(header, dict) or header.get("format") != FORMAT_NAME:
        raise ModelFileError(f"{shown!r} is not a softmargin file: {_HEADER!r} names no {FORMAT_NAME!r} format.")
    version = header.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"{shown!r} is damaged: its format_version is {version!r}.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{shown!r} has format version {version} (written by softmargin "
            f"{header.get('softmargin_version', '?')}); this one reads up to {FORMAT_VERSION}. Upgrade."
        )
    missing = [key for key in ("kind", "arrays", "meta", "sha256") if key not in header]
    if missing:
        raise ModelFileError(f"{shown!r} is damaged: {_HEADER!r} lacks {', '.join(missing)}.")
    return header


def _read_member(archive: zipfile.ZipFile, name: str, shown: str) -> np.ndarray:
    if f"{name}.npy" not in archive.namelist():
        raise ModelFileError(f"{shown!r} is damaged: member '{name}.npy' is missing.")
    try:
        with archive.open(f"{name}.npy") as member:
            array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
            # NumPy stops at the last number; zipfile checks the CRC only at the end of the member.
            member.read()
    except _DAMAGE as problem:
        raise ModelFileError(f"{shown!r} is damaged: member '{name}.npy' cannot be read ({problem}).") from problem
    return array


def _checksum(arrays: Mapping[str, np.ndarray], meta: Any) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode("utf-8", "surrogatepass"))
        digest.update(array.tobytes())
    digest.update(json.dumps(meta, sort_keys=True).encode("ascii"))
    return digest.hexdigest()


def _to_json(value: Any, where: str) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and _PAIRS not in value:
            return {str(key): _to_json(item, f"{where}[{key!r}]") for key, item in value.items()}
        return {_PAIRS: [[_to_json(key, where), _to_json(item, f"{where}[{key!r}]")] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_to_json(item, where) for item in value]
    # Subclasses of str, int and float (such as NumPy's) may have a repr that is not JSON: take the plain value.
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    if value is None:
        return None
    raise ModelFileError(f"cannot store {where}: a {type(value).__name__} is neither number, text, list nor dict.")


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {_PAIRS}:
            return {_from_json(key): _from_json(item) for key, item in value[_PAIRS]}
        return {key: _from_json(item) for key, item in value.items()}
    return value


def _looks_like(content: bytes) -> str:
    if not content:
        return "it is empty"
    if content.startswith(b"solver_type"):
        return "it is a LIBLINEAR model, which softmargin.models.read_liblinear reads"
    if content.startswith(b"\x80"):
        return "it looks like a pickle, which softmargin does not open"
    return f"it starts with {content[:12]!r}"
