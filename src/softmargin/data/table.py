"""Tables with named columns: which is the label, and what the others are as features. Arrow reads them (``arrow``)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.files import open_binary
from softmargin.data.arrow import BINARY_SUFFIXES, arrow_table, values_of
from softmargin.data.columns import Columns, fit_columns, listed

__all__ = [
    "LABEL_NAMES",
    "STDIN",
    "TABLE_SUFFIXES",
    "TableOptions",
    "TableRows",
    "is_table",
    "looks_like_libsvm",
    "named_column",
    "read_table",
]

STDIN = "-"
TABLE_SUFFIXES = (".csv", ".tsv", *BINARY_SUFFIXES)
_PACKED = (".gz", ".bz2", ".xz")
LABEL_NAMES = ("label", "target", "class", "y")
_LIBSVM_LINE = re.compile(rb"\s*\S+(\s+(qid|\d+):\S+)+\s*(#.*)?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_OWN_SHARE = 0.5  # of the rows have a category to themselves: a note says that the column may be no feature; by hand


class TableOptions(NamedTuple):
    """How a table is to be read."""

    label: str | None = None  # the column of labels: its name, or its number from 0 (-1: the last one); None: guessed
    missing: str = "error"  # what to do about missing values, where the columns are learnt: see columns.MISSING
    has_header: bool = True
    ignore: tuple[str, ...] = ()
    columns: Columns | None = None  # of the model that the rows are for; None: they are learnt from the table
    may_drop: bool = True  # False: every row needs an answer, and none may be dropped
    n_features: int | None = None  # of a model that remembers no columns: the table's own are taken in their order


class TableRows(NamedTuple):
    """A table as numbers and labels."""

    X: Any  # (n, d)
    y: np.ndarray | None  # (n,); None where the table has no column of labels, and columns are known
    columns: Columns
    notes: tuple[str, ...]  # what a user should know: guesses, dropped rows, new categories


def is_table(path: str | os.PathLike[str]) -> bool:
    """Say whether a file is a table, by its suffix."""
    name = os.fspath(path).lower()
    packed = next((suffix for suffix in _PACKED if name.endswith(suffix)), "")
    return name.removesuffix(packed).endswith(TABLE_SUFFIXES)


def looks_like_libsvm(start: bytes) -> bool:
    """Say whether a text begins with a line of a LIBSVM file."""
    lines = (line for line in start.splitlines() if line.strip() and not line.lstrip().startswith(b"#"))
    return _LIBSVM_LINE.fullmatch(next(lines, b"")) is not None


def read_table(
    path_or_file: str | os.PathLike[str] | IO[bytes], options: TableOptions | None = None, *, name: str | None = None
) -> TableRows:
    """Read a CSV, TSV, Parquet or Feather file, by its content; text may be compressed by gzip, bzip2 or xz.

    Columns of text become one column of X per category; see `softmargin.data.columns`. The column of labels may hold
    text or numbers.

    Parameters
    ----------
    path_or_file : path-like or binary file
    options : TableOptions, optional
    name : str, optional
        What errors and notes call it.

    Raises
    ------
    DataError
        For a file that is no table, a column that is not there or holds neither numbers nor text, missing values.
    IncompatibleError
        Where Arrow is not installed.
    """
    options = options or TableOptions()
    if isinstance(path_or_file, str | os.PathLike):
        source = name or os.fspath(path_or_file)
        with open_binary(path_or_file, error=DataError) as file:
            table, notes = arrow_table(file, source, options.has_header)
    else:
        source = name or str(getattr(path_or_file, "name", "the file given"))
        table, notes = arrow_table(path_or_file, source, options.has_header)
    return _rows(table, options, source, notes)


def _rows(table: Any, options: TableOptions, source: str, notes: list[str]) -> TableRows:
    names = list(table.column_names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{source}: the column {twice[0]!r} is there twice. Give every column a name of its own.")
    if table.num_rows == 0:
        raise DataError(f"{source}: the table has {len(names)} columns and no rows.")
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    if options.has_header and (len(numbers) == len(names) or any("." in name for name in numbers)):
        notes.append(f"{source}: the first line was read as names ({numbers[0]!r}). Give --no-header if it is a row.")
    known = options.columns
    label = _label(names, options, source, notes)
    if known is None:
        unknown = [name for name in options.ignore if name not in names]
        if unknown:
            raise DataError(f"{source}: --ignore names {unknown[0]!r}; the columns are {listed(names)}.")
        chosen = [name for name in names if name != label and name not in options.ignore]
        if not chosen:
            raise DataError(f"{source}: no column is left for the features beside the label {label!r}.")
    else:
        chosen = list(known.names)
        lost = [name for name in chosen if name not in names]
        if lost:
            raise DataError(
                f"{source}: the model needs the column {lost[0]!r}, which is not there; found {listed(names)}."
            )
    y, has_label = _labels(table, label, source)
    missing = options.missing if known is None else known.missing
    if not has_label.any():
        raise DataError(f"{source}: the column {label!r} holds no labels. Give --label: there are {listed(names)}.")
    if not has_label.all():
        if missing != "drop" or not options.may_drop:
            row = int(np.argmin(has_label))
            raise DataError(
                f"{source}: row {row} (counted from 0) has no label in the column {label!r}; "
                f"{int((~has_label).sum())} rows have none. Fill them in, or train with --missing drop."
            )
        notes.append(f"{source}: {int((~has_label).sum())} rows without a label were dropped.")
        table, y = table.filter(_mask(has_label)), None if y is None else y[has_label]
    values = {name: values_of(table[name], name, source) for name in chosen}
    n = table.num_rows
    if known is None:
        columns, encoded = fit_columns(values, n, label=label, missing=missing, source=source)
        if options.n_features is not None and columns.categories:
            raise DataError(
                f"{source}: column {next(iter(columns.categories))!r} holds text, and the model does not remember how "
                "it became numbers. Give a table of numbers, or train on a table."
            )
    else:
        columns, encoded = known, known.encode(_as_learnt(values, known, source), n, source)
    notes += [
        f"{source}: {name!r} has {len(values)} categories in {n} rows. Each becomes a feature; where they are names or "
        f"numbers written in another way, leave the column out: --ignore {name}."
        for name, values in columns.categories.items()
        if known is None and len(values) > _OWN_SHARE * n
    ]
    n_dropped = n - int(encoded.is_kept.sum())
    if n_dropped:
        if not options.may_drop:
            raise DataError(
                f"{source}: {n_dropped} rows miss a value; the model was trained without such rows and has nothing to "
                "fill in. Drop them, or train with --missing mean."
            )
        notes.append(f"{source}: {n_dropped} of {n} rows miss a value and were dropped.")
        y = None if y is None else y[encoded.is_kept]
    notes += [
        f"{source}: {count} rows have a {name!r} that training never saw; they count as none of its categories."
        for name, count in encoded.new.items()
    ]
    return TableRows(encoded.X, y, columns, tuple(notes))


def _label(names: list[str], options: TableOptions, source: str, notes: list[str]) -> str | None:
    """Return the name of the column of labels; None where a table to be labelled has none."""
    asked = options.label
    if asked is None and options.columns is not None:
        return options.columns.label if options.columns.label in names else None
    if asked is None:
        if options.n_features is not None and len(names) == options.n_features:
            return None
        found = next((name for word in LABEL_NAMES for name in names if name.lower() == word), names[-1])
        notes.append(f"{source}: the column {found!r} is taken for the label. Give --label to choose another.")
        return found
    return named_column(names, asked, source, "--label")


def named_column(names: list[str], asked: str, source: str, option: str) -> str:
    """Return the name of the column that an option asks for, by its name or its number."""
    if asked in names:
        return asked
    try:
        return names[int(asked)]
    except (ValueError, IndexError) as problem:
        raise DataError(
            f"{source}: {option} asks for the column {asked!r}; there are {len(names)}: {listed(names)}."
        ) from problem


def _labels(table: Any, name: str | None, source: str) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the labels as text, whole numbers or numbers, and which rows have one; all do where no column is named."""
    from pyarrow import types

    if name is None:
        return None, np.ones(table.num_rows, dtype=bool)
    column = table[name]
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    has_label = np.asarray(column.is_valid().to_numpy(), dtype=bool)
    if types.is_integer(kind):
        filled = column.cast(kind).fill_null(0).to_numpy()
        return np.asarray(filled, dtype=np.int64), has_label
    if types.is_floating(kind) or types.is_decimal(kind):
        numbers = np.asarray(column.cast("float64").to_numpy(), dtype=np.float64)
        has_label &= ~np.isnan(numbers)
        whole = np.where(has_label, numbers, 0.0)
        is_whole = bool((np.floor(whole) == whole).all() and (np.abs(whole) <= 2**53).all())
        return (whole.astype(np.int64) if is_whole else numbers), has_label
    if types.is_nested(kind) or types.is_binary(kind):
        raise DataError(f"{source}: column {name!r} holds {kind}, which is no label. Give --label to choose another.")
    # Bools and dates too: as a table shows them.
    return np.array(["" if text is None else text for text in column.cast("string").to_pylist()], dtype=str), has_label


def _as_learnt(values: Mapping[str, Any], columns: Columns, source: str) -> dict[str, Any]:
    """Return columns of the kinds that training saw: categories as text, numbers as numbers."""
    found: dict[str, Any] = {}
    for name, column in values.items():
        if name in columns.categories and isinstance(column, np.ndarray):
            found[name] = [None if np.isnan(value) else _text(value) for value in column.tolist()]
        elif name not in columns.categories and not isinstance(column, np.ndarray):
            value = next((text for text in column if text is not None), "")
            raise DataError(f"{source}: column {name!r} held numbers in training; here it holds {value[:40]!r}.")
        else:
            found[name] = column
    return found


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _mask(values: np.ndarray) -> Any:
    import pyarrow

    return pyarrow.array(values)
