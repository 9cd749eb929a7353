"""Data sets by name or path: two are embedded, others are files in folders.

    softmargin.data.load("digits")                      embedded
    softmargin.data.load("mnist", data_dir="corpora")   corpora/mnist.train.libsvm.xz and mnist.test.libsvm.xz
    softmargin.data.load("mine/points.npz")             one file, by its suffix
    softmargin.data.load("people.csv", table=TableOptions(label="job"))     a table: CSV, TSV, Parquet, Feather

Folders searched for a name: `data_dir`, then the one named by the environment variable SOFTMARGIN_DATA.
"""

from __future__ import annotations

import difflib
import io
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.errors import DataError
from softmargin.data.arrays import read_npy, read_npz
from softmargin.data.columns import Columns
from softmargin.data.compressed import decompressed
from softmargin.data.libsvm import read_libsvm_noted
from softmargin.data.table import STDIN, TableOptions, is_table, looks_like_libsvm, read_table

__all__ = ["DATA_VARIABLE", "Dataset", "Entry", "available", "load", "source_files", "split"]

DATA_VARIABLE = "SOFTMARGIN_DATA"
_STDIN_START = 1 << 20  # bytes in which the first line of LIBSVM text must end
_EMBEDDED_FOLDER = Path(__file__).parent / "embedded"
_EMBEDDED = {
    "digits": "1797 x 64, 10 classes: handwritten digits, 8 x 8 pixels in [0, 1] (UCI optdigits, test part)",
    "dna": "2000 + 1186 x 180, 3 classes: splice junctions, sparse 0/1 (StatLog dna, train and test part)",
}
_SUFFIXES = (".libsvm", ".libsvm.xz", ".libsvm.gz", ".libsvm.bz2", ".npz", ".npy")
_TEXT_SUFFIXES = (".libsvm", ".svm", ".svmlight", ".txt", ".dat", ".t", ".scale", ".xz", ".gz", ".bz2")
_OTHER_FORMATS = (".arff", ".mat", ".json", ".pkl", ".pickle", ".joblib", ".xlsx", ".xls", ".orc")


class Dataset(NamedTuple):
    """Training rows and, where there are any, test rows."""

    name: str
    X: Any  # (n, d) ndarray or csr_matrix
    y: np.ndarray  # (n,) labels
    X_test: Any = None  # (n_test, d), or None
    y_test: np.ndarray | None = None  # (n_test,), or None
    columns: Columns | None = None  # of a table: how its columns became those of X
    notes: tuple[str, ...] = ()  # what a user should know of how it was read
    has_labels: bool = True  # False: a table for prediction that has none; y is all zeros


class Entry(NamedTuple):
    """One line of `softmargin data`."""

    name: str
    where: str
    description: str


def load(
    name_or_path: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    table: TableOptions | None = None,
) -> Dataset:
    """Load a data set by name, or a file by its path; ``-`` is the standard input.

    A name is that of an embedded set, else of ``name.train.*`` (with ``name.test.*`` where it exists) or ``name.*`` in
    one of the folders, as LIBSVM (plain or compressed), npz or npy file, else of a file. ``./name`` is always a file.

    Parameters
    ----------
    name_or_path : str or path-like
    data_dir : path-like, optional
        First folder to search for a name; SOFTMARGIN_DATA is the second.
    n_features : int, optional
        Number of columns; LIBSVM files end at their highest used column. Training and test part always get the same
        number.
    table : TableOptions, optional
        How a table (CSV, TSV, Parquet, Feather) is to be read: which column holds the labels, and so on.

    Returns
    -------
    Dataset
        Without a test part where none is stored; see `split`.
    """
    text, found = os.fspath(name_or_path), _named_parts(name_or_path, data_dir)
    if found:
        is_embedded = found[0].parent == _EMBEDDED_FOLDER
        return _load_parts(text, found, n_features, dtype=np.float64 if is_embedded else None)
    if text == STDIN:
        return _load_stdin(n_features, table)
    if not Path(text).exists():
        raise DataError(_not_found(text, data_dir))
    if is_table(text):
        return _load_table(Path(text).name, text, table)
    X, y, notes = _read(Path(text), n_features)
    return Dataset(Path(text).name, X, y, notes=notes)


def _load_table(name: str, source: Any, table: TableOptions | None) -> Dataset:
    found = read_table(source, table, name=name)
    y = np.zeros(found.X.shape[0], dtype=np.int64) if found.y is None else found.y
    return Dataset(name, found.X, y, columns=found.columns, notes=found.notes, has_labels=found.y is not None)


def _load_stdin(n_features: int | None, table: TableOptions | None) -> Dataset:
    """Read LIBSVM text or a table, whichever the first line says."""
    content = io.BufferedReader(io.BytesIO(sys.stdin.buffer.read()))
    if not content.peek(1):
        raise DataError("stdin: nothing to read. Pipe LIBSVM text, CSV, Parquet or Feather into it.")
    start = decompressed(content).read(_STDIN_START)
    content.seek(0)
    if looks_like_libsvm(start):
        X, y, notes = read_libsvm_noted(content, n_features)
        return Dataset("stdin", X, y, notes=notes)
    return _load_table("stdin", content, table)


def source_files(name_or_path: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the files that `load` would read, labels beside a matrix included."""
    if name_or_path == STDIN:
        return []
    files = _named_parts(name_or_path, data_dir) or [Path(name_or_path)]
    return files + [path.with_name(path.stem + ".y.npy") for path in files if path.suffix.lower() == ".npy"]


def _named_parts(name_or_path: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None) -> list[Path]:
    """Return the files of a data set by its name; [] for a path, or where there is none of that name."""
    if _is_path(name_or_path):
        return []
    text = os.fspath(name_or_path)
    folders = [_EMBEDDED_FOLDER] if text in _EMBEDDED else _folders(data_dir)
    return next((found for folder in folders if (found := _parts(folder, text))), [])


def available(data_dir: str | os.PathLike[str] | None = None) -> list[Entry]:
    """List the data sets `load` knows by name: embedded ones first, then by folder."""
    entries = [Entry(name, "embedded", description) for name, description in _EMBEDDED.items()]
    for folder in _folders(data_dir):
        for name in _names_in(folder):
            if name in {entry.name for entry in entries}:
                continue
            files = _parts(folder, name)
            size = sum(path.stat().st_size for path in files)
            what = "training and test part" if len(files) == 2 else "one part"
            kind = "".join(files[0].suffixes[-2:] if files[0].suffix in (".xz", ".gz", ".bz2") else files[0].suffix)
            entries.append(Entry(name, str(folder), f"{what}, {kind.lstrip('.')}, {size / 1e6:.2f} MB"))
    return entries


def split(dataset: Dataset, *, test_size: float = 0.25, seed: int = 0, by_class: bool = True) -> Dataset:
    """Hold out a test part, stratified by default; a data set that has one is returned unchanged.

    The same data and seed give the same rows on every machine. Rows keep their order. Every class keeps at least one
    training row.

    Parameters
    ----------
    dataset : Dataset
    test_size : float in (0, 1)
        Share of the rows to hold out.
    seed : int
    by_class : bool
        False where y holds numbers: rows are then drawn from all alike.
    """
    if dataset.X_test is not None:
        return dataset
    if not 0.0 < test_size < 1.0:
        raise DataError(f"test_size must lie between 0 and 1; got {test_size}.")
    n = len(dataset.y)
    labels = dataset.y if by_class else np.zeros(n)
    class_of, sizes = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    wanted = test_size * sizes
    held = np.minimum(np.floor(wanted), sizes - 1).astype(np.int64)
    # The classes with the largest remainders get the rows left over by rounding down.
    by_remainder = np.argsort(held - wanted, kind="stable")
    can_give = [c for c in by_remainder.tolist() if held[c] < sizes[c] - 1]
    held[can_give[: max(round(test_size * n) - int(held.sum()), 0)]] += 1
    if held.sum() == 0:
        raise DataError(f"{dataset.name}: {n} rows in {len(sizes)} classes are too few to hold out {test_size:.0%}.")
    shuffled = np.random.default_rng(seed).permutation(n)
    # A stable sort by class keeps the shuffled order inside each class; the first held[c] rows go.
    ordered = shuffled[np.argsort(class_of[shuffled], kind="stable")]
    rank = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_test = np.zeros(n, dtype=bool)
    is_test[ordered] = rank < np.repeat(held, sizes)
    test, train = np.flatnonzero(is_test), np.flatnonzero(~is_test)
    X, y = dataset.X, dataset.y
    return dataset._replace(X=X[train], y=y[train], X_test=X[test], y_test=y[test])


def _is_path(name_or_path: str | os.PathLike[str]) -> bool:
    text = os.fspath(name_or_path)
    if not isinstance(name_or_path, str) or os.sep in text or "/" in text or text == STDIN:
        return True
    return is_table(text) or text.lower().endswith(_SUFFIXES + _TEXT_SUFFIXES)


def _folders(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    folders = [Path(folder) for folder in (data_dir, os.environ.get(DATA_VARIABLE)) if folder]
    return list(dict.fromkeys(folders))


def _parts(folder: Path, name: str) -> list[Path]:
    """Return the training file of `name` and, if there is one, its test file; [] if there is none."""
    train, test, whole = (
        next((path for suffix in _SUFFIXES if (path := folder / f"{name}{part}{suffix}").is_file()), None)
        for part in (".train", ".test", "")
    )
    if train is not None:
        return [train] if test is None else [train, test]
    return [] if whole is None else [whole]


def _names_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    names = set()
    for path in folder.iterdir():
        suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
        if suffix is not None and not path.name.endswith((".y.npy", f".test{suffix}")) and path.is_file():
            names.add(path.name.removesuffix(suffix).removesuffix(".train"))
    return sorted(names)


def _load_parts(name: str, parts: list[Path], n_features: int | None, dtype: Any = None) -> Dataset:
    loaded = [_read(path, n_features) for path in parts]
    d = max(X.shape[1] for X, _, _ in loaded)
    flat: list[Any] = []
    for path, (X, y, _) in zip(parts, loaded, strict=True):
        X = _with_columns(X, d, str(path))
        flat += [X if dtype is None else X.astype(dtype, copy=False), y]
    return Dataset(name, *flat)._replace(notes=tuple(note for _, _, notes in loaded for note in notes))


def _read(path: Path, n_features: int | None) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    suffix = path.suffix.lower()
    if suffix in _OTHER_FORMATS:
        raise DataError(
            f"{path}: {suffix} files are not read. Save it as CSV, Parquet, LIBSVM text or .npz (with arrays X and y)."
        )
    if suffix not in (".npz", ".npy"):
        return read_libsvm_noted(path, n_features)
    X, y = read_npz(path) if suffix == ".npz" else read_npy(path)
    return (X if n_features is None else _with_columns(X, n_features, str(path))), y, ()


def _with_columns(X: Any, d: int, source: str) -> Any:
    if X.shape[1] == d:
        return X
    if isinstance(X, np.ndarray) or X.shape[1] > d:
        raise DataError(f"{source}: X has {X.shape[1]} columns; {d} are needed.")
    return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], d))


def _not_found(text: str, data_dir: str | os.PathLike[str] | None) -> str:
    folders = _folders(data_dir)
    names = {name for folder in folders for name in _names_in(folder)}
    close = difflib.get_close_matches(Path(text).name, sorted(names | set(_EMBEDDED)), n=3, cutoff=0.5)
    message = f"no data set or file {text!r}. "
    if close:
        message += f"Did you mean {' or '.join(close)}? "
    message += f"Embedded: {', '.join(_EMBEDDED)}. "
    for folder in folders:
        found = ", ".join(_names_in(folder)) if folder.is_dir() else "no such folder"
        message += f"In {folder}: {found or 'no data sets'}. "
    if not folders:
        message += f"Set {DATA_VARIABLE}, or give data_dir, to search a folder for more. "
    return message.rstrip()
