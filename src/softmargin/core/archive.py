"""The one archive format of models and checkpoints.

An archive is an ordinary zip file, which `numpy.load` and any unzip program can read:

    model.json       format name and version, kind, package version, the caller's `meta`, checksum
    <name>.npy       one member per array, in NumPy's own format; never a pickle

The checksum is a SHA-256 over every array (name, type, shape, bytes) and over the meta, so a changed byte is found even
where somebody also changed the CRC of the zip.

What a file says of itself is checked against its size before room is made for it: members of an archive are stored as
they are, never compressed, so a model never takes more memory than a few times its file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np

import softmargin
from softmargin.core import npy
from softmargin.core.errors import ModelFileError
from softmargin.core.files import DAMAGE, atomic_write, blaming, open_binary

__all__ = ["HEADER", "archive_kind", "open_zip", "read_archive", "read_member", "to_json", "write_archive"]

FORMAT_NAME = "softmargin-model"
FORMAT_VERSION = 1
HEADER = "model.json"
# Keys of JSON are text; a class_weight such as {0: 1.0, 3: 2.0} is stored as a list of pairs.
_PAIRS = "__pairs__"
_ZIP_MAGIC = b"PK\x03\x04"
# The last record of a zip, 22 bytes and a comment of at most 65535.
_ZIP_END, _ZIP_END_REACH = b"PK\x05\x06", 22 + 65535
# The date of every zip member, so that the same model gives the same bytes.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
# How deep lists and dicts of a meta may nest; ours reach 5.
_DEEPEST = 50
# A byte that deflate wrote stands for at most so many: two bits for a run of 258.
_LARGEST_RATIO = 1032
_COMPRESSIONS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _LARGEST_RATIO}


def write_archive(
    path: str | os.PathLike[str], *, kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON-able `meta` as one archive, whole or not at all; no suffix is added to the path.

    ``kind`` says what the archive holds ("LinearModel"); `read_archive` requires the same word. Object arrays, which
    need a pickle, are refused. ``meta`` may hold numbers, text, None, lists, dicts (with any simple keys), NumPy
    scalars and arrays.
    """
    plain_meta = to_json(meta, "meta")
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
        archive.writestr(zipfile.ZipInfo(HEADER, _ZIP_DATE), text.encode("utf-8", "surrogatepass"))
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
        arrays = {name: _read_array(archive, name, shown) for name in header["arrays"]}
        if _checksum(arrays, header["meta"]) != header["sha256"]:
            raise ModelFileError(f"{shown!r} is damaged: its checksum does not match its content. {_ADVICE}")
        return arrays, _from_json(header["meta"])


def archive_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of the archive at `path` (``"LinearModel"``); ModelFileError where it is no archive."""
    with _open_archive(path) as archive:
        return str(_read_header(archive, os.fspath(path))["kind"])


def open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip; ValueError if its members overlap, and so seem to hold more than the file does."""
    size = os.fstat(file.fileno()).st_size
    archive = zipfile.ZipFile(file)
    if sum(info.compress_size for info in archive.infolist()) > size:
        raise ValueError(f"its members tell of more bytes than the {size} of the file")
    return archive


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read one array of a zip; ValueError if it is not as NumPy writes it, or larger than its bytes can hold."""
    if info.compress_type not in _COMPRESSIONS:
        raise ValueError("it is compressed in a way that NumPy never uses")
    with archive.open(info) as member:
        array = npy.read_array(member, min(info.file_size, _COMPRESSIONS[info.compress_type] * info.compress_size))
        # zipfile checks the CRC only at the end of the member.
        while member.read(1 << 20):
            pass
    return array


_ADVICE = "Copy it again, or train again."


@contextlib.contextmanager
def _open_archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    shown = os.fspath(path)
    with open_binary(path) as file, blaming(path, advice=_ADVICE):
        start, size = file.read(64), os.fstat(file.fileno()).st_size
        if not start.startswith(_ZIP_MAGIC):
            raise ModelFileError(f"{shown!r} is not a softmargin file: {_looks_like(start)}.")
        file.seek(max(0, size - _ZIP_END_REACH))
        if _ZIP_END not in file.read(_ZIP_END_REACH):
            raise ModelFileError(f"{shown!r} is truncated: its end is missing ({size} bytes are there). {_ADVICE}")
        with open_zip(file) as archive:
            packed = [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
            if packed and HEADER in archive.namelist():
                raise ModelFileError(
                    f"{shown!r} is not a file that softmargin wrote: its member {packed[0]!r} is compressed."
                )
            yield archive


def _read_header(archive: zipfile.ZipFile, shown: str) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise ModelFileError(f"{shown!r} is not a softmargin file: it is a zip (an .npz?) without a member {HEADER!r}.")
    try:
        header = json.loads(archive.read(HEADER).decode("utf-8", "surrogatepass"))
    except DAMAGE as problem:
        raise ModelFileError(f"{shown!r} is damaged: member {HEADER!r} cannot be read ({problem}).") from problem
    if not isinstance(header, dict) or header.get("format") != FORMAT_NAME:
        raise ModelFileError(f"{shown!r} is not a softmargin file: {HEADER!r} names no {FORMAT_NAME!r} format.")
    version = header.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"{shown!r} is damaged: its format_version is {version!r}.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{shown!r} has format version {version} (written by softmargin "
            f"{header.get('softmargin_version', '?')}); this one reads up to {FORMAT_VERSION}. Upgrade."
        )
    missing = [key for key in HEADER_KINDS if key not in header]
    if missing:
        raise ModelFileError(f"{shown!r} is damaged: {HEADER!r} lacks {', '.join(missing)}.")
    for key, kind in HEADER_KINDS.items():
        if not isinstance(header[key], kind):
            raise ModelFileError(f"{shown!r} is damaged: {key} in {HEADER!r} is {str(header[key])[:60]!r}.")
    names = header["arrays"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ModelFileError(f"{shown!r} is damaged: {HEADER!r} does not name every array once.")
    return header


HEADER_KINDS = {"kind": str, "arrays": list, "meta": dict, "sha256": str}


def _read_array(archive: zipfile.ZipFile, name: str, shown: str) -> np.ndarray:
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError as problem:
        raise ModelFileError(f"{shown!r} is damaged: member '{name}.npy' is missing.") from problem
    try:
        return read_member(archive, info)
    except DAMAGE as problem:
        raise ModelFileError(f"{shown!r} is damaged: member '{name}.npy' cannot be read ({problem}).") from problem


def _checksum(arrays: Mapping[str, np.ndarray], meta: Any) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode("utf-8", "surrogatepass"))
        digest.update(array.tobytes())
    digest.update(json.dumps(meta, sort_keys=True).encode("ascii"))
    return digest.hexdigest()


def to_json(value: Any, where: str) -> Any:
    """Return what JSON can hold of a value, in Python's own types; ModelFileError, with the place, where it cannot."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and _PAIRS not in value:
            return {str(key): to_json(item, f"{where}[{key!r}]") for key, item in value.items()}
        return {_PAIRS: [[to_json(key, where), to_json(item, f"{where}[{key!r}]")] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [to_json(item, where) for item in value]
    # Subclasses of str, int and float (such as NumPy's) may have a repr that is not JSON: take the plain value.
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    if value is None:
        return None
    raise ModelFileError(f"cannot store {where}: a {type(value).__name__} is neither number, text, list nor dict.")


def _from_json(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"lists in lists, more than {_DEEPEST} deep")
    if isinstance(value, list):
        return [_from_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if set(value) == {_PAIRS}:
            return {_from_json(key, depth + 1): _from_json(item, depth + 1) for key, item in value[_PAIRS]}
        return {key: _from_json(item, depth + 1) for key, item in value.items()}
    return value


def _looks_like(content: bytes) -> str:
    if not content:
        return "it is empty"
    if content.startswith(b"solver_type"):
        return "it is a LIBLINEAR model, which softmargin.models.read_liblinear reads"
    if content.startswith(b"\x80"):
        return "it looks like a pickle, which softmargin does not open"
    return f"it starts with {content[:12]!r}"
