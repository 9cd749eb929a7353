"""The columns of a table as numbers: what a model remembers, so that another table becomes the same columns of X.

    a column of numbers or bools    one column of X
    a column of text                one column of X per category, 1 where the row has it; new categories have none

A missing value is refused, or stands for the mean of its columns of X over the training rows (for a category: the
shares of all categories), or its row is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.errors import DataError

__all__ = ["MISSING", "Columns", "Encoded", "fit_columns", "listed"]

MISSING = ("error", "mean", "drop")
_DENSE_SHARE = 0.25  # of the entries of a row; with fewer, X is sparse; by hand
_SHOWN = 10


class Encoded(NamedTuple):
    """The numbers of a table."""

    X: Any  # (n, d) ndarray or csr_matrix; NaN never
    is_kept: np.ndarray  # (rows of the table,) False where a row was dropped for a missing value
    new: Mapping[str, int]  # text columns -> rows whose category the model does not know


class Columns(NamedTuple):
    """Which columns of a table are features, and how they become columns of X."""

    names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]  # of the columns of text, sorted
    label: str | None
    missing: str = "error"
    fill: tuple[float, ...] | None = None  # (d,) what stands for a missing value; None: it is refused or dropped

    @property
    def feature_names(self) -> list[str]:
        """The name of every column of X: that of the table's column, with ``=category`` where it has some."""
        return [
            text
            for name in self.names
            for text in ([f"{name}={value}" for value in self.categories[name]] if name in self.categories else [name])
        ]

    @property
    def widths(self) -> list[int]:
        """How many columns of X each column of the table has."""
        return [len(self.categories[name]) if name in self.categories else 1 for name in self.names]

    def as_info(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        return {
            "names": list(self.names),
            "categories": {name: list(values) for name, values in self.categories.items()},
            "label": self.label,
            "missing": self.missing,
            "fill": None if self.fill is None else list(self.fill),
        }

    @classmethod
    def from_info(cls, info: Mapping[str, Any], n_features: int) -> Columns:
        """Return the columns that a model file keeps; ValueError where they are none of its ``n_features``."""
        names, fill = tuple(map(str, info["names"])), info["fill"]
        categories = {str(name): tuple(map(str, values)) for name, values in info["categories"].items()}
        label = None if info["label"] is None else str(info["label"])
        found = cls(names, categories, label, str(info["missing"]), None if fill is None else tuple(map(float, fill)))
        d = sum(found.widths)
        is_known = found.missing in MISSING and set(categories) <= set(names) and len(set(names)) == len(names)
        if d != n_features or not is_known or (fill is not None and len(fill) != d):
            raise ValueError(f"its columns make {d} features of {n_features}")
        return found

    def encode(self, values: Mapping[str, Any], n: int, source: str) -> Encoded:
        """Return the numbers of a table: ``values`` are its columns, text as lists with None, numbers with NaN."""
        from scipy import sparse

        missing = {name: _is_missing(values[name]) for name in self.names}
        is_kept, new = np.ones(n, dtype=bool), dict[str, int]()
        if any(is_missing.any() for is_missing in missing.values()):
            if self.missing == "drop":
                is_kept = ~np.any(list(missing.values()), axis=0)
            elif self.fill is None:
                raise DataError(self._lacking(missing, n, source))
        blocks, start = list[Any](), 0
        for name, width in zip(self.names, self.widths, strict=True):
            fill = np.zeros(width) if self.fill is None else np.asarray(self.fill[start : start + width])
            start += width
            if name not in self.categories:
                blocks.append(np.where(missing[name], fill[0], values[name])[:, np.newaxis])
                continue
            codes = _codes(values[name], self.categories[name])
            is_new = (codes < 0) & ~missing[name]
            if is_new.any():
                new[name] = int(is_new.sum())
            # A row of the unit matrix for every category, one of zeros for what is new, and the one that is filled in.
            table = sparse.vstack([sparse.identity(width), sparse.csr_matrix((1, width)), fill], format="csr")
            blocks.append(table[np.where(missing[name], width + 1, np.where(is_new, width, codes))])
        if self._is_sparse:
            X = sparse.hstack(blocks, format="csr")
        else:
            X = np.hstack([block if isinstance(block, np.ndarray) else block.toarray() for block in blocks])
        return Encoded(X if is_kept.all() else X[is_kept], is_kept, new)

    def _lacking(self, missing: Mapping[str, np.ndarray], n: int, source: str) -> str:
        """Say which value is the first that is missing."""
        name = next(name for name, is_missing in missing.items() if is_missing.any())
        n_rows = int(np.any(list(missing.values()), axis=0).sum())
        return (
            f"{source}: column {name!r} has no value in row {int(np.argmax(missing[name]))} (counted from 0), and "
            f"{n_rows} of {n} rows miss one. Give --missing mean or --missing drop to `train`, or fill them in."
        )

    @property
    def _is_sparse(self) -> bool:
        return len(self.names) < _DENSE_SHARE * sum(self.widths)


def fit_columns(
    values: Mapping[str, Any], n: int, *, label: str | None, missing: str, source: str
) -> tuple[Columns, Encoded]:
    """Learn the columns of a table that a model shall be trained on, and return them with its numbers."""
    if missing not in MISSING:
        raise DataError(f"missing must be one of {', '.join(MISSING)}; found {missing!r}.")
    categories = {
        name: tuple(sorted({text for text in column if text is not None}))
        for name, column in values.items()
        if not isinstance(column, np.ndarray)
    }
    present = [n - int(_is_missing(column).sum()) for column in values.values()]
    empty = [name for name, count in zip(values, present, strict=True) if count == 0]
    if empty:
        raise DataError(f"{source}: no row has a value of {listed(empty)}. Leave such columns out with --ignore.")
    columns = Columns(tuple(values), categories, label, missing)
    if missing == "mean":
        # Means over the rows that have a value: of an encoding in which missing values count as 0.
        filled = columns._replace(fill=(0.0,) * sum(columns.widths)).encode(values, n, source).X
        sums = np.asarray(filled.sum(axis=0)).ravel()
        columns = columns._replace(fill=tuple((sums / np.repeat(present, columns.widths)).tolist()))
    encoded = columns.encode(values, n, source)
    if not encoded.is_kept.any():
        raise DataError(f"{source}: every row misses a value, so that --missing drop leaves none. Give --missing mean.")
    return columns, encoded


def _codes(texts: Sequence[str | None], categories: Sequence[str]) -> np.ndarray:
    """Return the number of every text's category, -1 where it is missing or new."""
    code_of: dict[Any, int] = {category: i for i, category in enumerate(categories)}
    return np.array([code_of.get(text, -1) for text in texts], dtype=np.int64)


def _is_missing(column: Any) -> np.ndarray:
    """Say for every row whether it has no value."""
    if isinstance(column, np.ndarray):
        return np.asarray(np.isnan(column))
    return np.array([text is None for text in column], dtype=bool)


def listed(names: Sequence[str]) -> str:
    """Name columns, the first of many."""
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
