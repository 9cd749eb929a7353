"""CSV and TSV text, Parquet and Feather files as tables of Arrow (the extra ``table``); their columns as numbers."""

import io
import re
from typing import IO, Any

import numpy as np

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data.compressed import READ_ERRORS, decompressed, peekable

__all__ = ["BINARY_SUFFIXES", "arrow_table", "values_of"]

BINARY_SUFFIXES = (".parquet", ".feather", ".arrow")
_SEPARATORS = ",;\t|"
_NO_VALUES = ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None"]
_PARQUET, _FEATHER = b"PAR1", b"ARROW1"
_PEEKED = 1 << 16
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# A part of a line that is a number with a decimal comma; the separator is another character.
_DECIMAL_COMMA = rb'(?:^|%s|")[+-]?\d+,\d+(?:"|%s|\r?$)'


def arrow_table(file: IO[bytes], source: str, has_header: bool) -> tuple[Any, list[str]]:
    """Return the table of Arrow, and what a user should know of how it was read."""
    try:
        import pyarrow
        from pyarrow import csv, feather, parquet
    except ImportError as problem:
        raise IncompatibleError(
            f"{source}: tables are read by pyarrow, which is not installed. pip install 'softmargin[table]', or give "
            "the rows as LIBSVM text or .npz."
        ) from problem
    buffered = peekable(file, source)
    magic = buffered.peek(8)[:8]
    try:
        if magic.startswith(_PARQUET):
            return parquet.read_table(_seekable(buffered)), []
        if magic.startswith(_FEATHER):
            return feather.read_table(_seekable(buffered)), []
        text: Any = decompressed(buffered)
        start = text.peek(_PEEKED)
        if not start.strip():
            raise DataError(f"{source}: the file is empty.")
        if source.lower().endswith(BINARY_SUFFIXES):
            raise DataError(f"{source}: by its first bytes this is neither a Parquet nor a Feather file.")
        if start.startswith(_UTF16):
            raise DataError(f"{source}: the text is UTF-16. Save it as UTF-8.")
        separator = _separator(start)
        has_commas = separator != "," and _has_decimal_commas(start, separator)
        table = csv.read_csv(
            text,
            read_options=csv.ReadOptions(autogenerate_column_names=not has_header),
            parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                null_values=_NO_VALUES, strings_can_be_null=True, decimal_point="," if has_commas else "."
            ),
        )
        notes = [f"{source}: numbers are read with decimal commas, as in 1,5."] if has_commas else []
        fields = [(i, field) for i, field in enumerate(table.schema) if field.name or field.type != pyarrow.null()]
        table = table.select([i for i, _ in fields])  # without what follows a separator at the ends of lines
        return table.rename_columns([field.name for _, field in fields]), notes  # names that are no text are found here
    except (pyarrow.ArrowException, UnicodeDecodeError, *READ_ERRORS) as problem:
        cause = str(problem) or type(problem).__name__
        raise DataError(f"{source}: not a table that can be read ({cause[:300].rstrip('.')}).") from problem


def _seekable(file: Any) -> Any:
    return file if file.seekable() else io.BytesIO(file.read())


def _separator(start: bytes) -> str:
    """Return the character that separates columns: the one of which the first line has most."""
    line = start.lstrip(b"\r\n").splitlines()[0].decode("utf-8", "replace")
    line = re.sub(r'"[^"]*"', "", line)
    return max(_SEPARATORS, key=line.count)


def _has_decimal_commas(start: bytes, separator: str) -> bool:
    """Say whether a line of the text has a number such as 1,5 between its separators."""
    other = re.escape(separator.encode())
    return re.search(_DECIMAL_COMMA % (other, other), start, re.MULTILINE) is not None


def values_of(column: Any, name: str, source: str) -> Any:
    """Return numbers as float64 with NaN, text as a list with None."""
    from pyarrow import compute, types

    kind = column.type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    column = column.cast(kind) if column.type != kind else column
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_boolean(kind):
        column = column.cast("int8")
    elif types.is_string(kind) or types.is_large_string(kind):
        return column.to_pylist()
    elif types.is_binary(kind):
        raise DataError(f"{source}: column {name!r} holds text that is not UTF-8. Save the file as UTF-8.")
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise DataError(
            f"{source}: column {name!r} holds {kind}; numbers, bools and text become features. Turn it into one of "
            f"these, or leave it out: --ignore {name}."
        )
    numbers = np.asarray(compute.cast(column, "float64", safe=False).to_numpy(), dtype=np.float64)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise DataError(f"{source}: column {name!r} is infinite in row {row} (counted from 0). Drop such rows.")
    return numbers
