"""From the text of a LIBSVM file to numbers: a fast parser, and one that explains errors.

A line is `label index:value index:value ... # comment`; labels are numbers, or all of them text. `parse` takes whole
lines. `parse_arrays` parses every well-formed block with NumPy alone, many lines at a time; other text goes to
`parse_lines`, plain Python, which defines the format and names the line at fault.

A decimal number of at most 18 characters, without exponent, is m / 10^p with m an integer. Where m <= 2^53, m and 10^p
(p <= 22) are exact floats, and one correctly rounded division gives the nearest float: the same bits as `float(text)`
(Clinger, "How to read floating point numbers accurately", 1990).
"""

from __future__ import annotations

import re
from array import array
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.errors import DataError

__all__ = ["Rows", "checked", "is_text_label", "parse", "parse_arrays", "parse_lines"]

_NEWLINE, _PLUS, _MINUS, _POINT, _COLON = b"\n+-.:"
_WELL_KNOWN = b"0123456789+-.eE: \t\n"
_LONGEST = 18
_PADDING = b"\n" * (_LONGEST + 1)
_LARGEST_EXACT = 2**53  # beyond it not every integer is a float64
_POWERS = 10.0 ** np.arange(_LONGEST + 1)

_COMMENT = re.compile(rb"#[^\n]*")
_QUERY = re.compile(rb"(?<=[ \t])qid:[^\s]*")
_LABEL = re.compile(rb"^([ \t]*)([^\s:,]+)(?=[ \t]|$)", re.MULTILINE)


class Rows(NamedTuple):
    """A block of parsed lines; indices as in the file."""

    labels: np.ndarray  # (n,) float64, or text
    counts: np.ndarray  # (n,) number of entries of each row
    indices: np.ndarray  # (nnz,) int64
    values: np.ndarray  # (nnz,) float64, finite
    lines: np.ndarray  # (n,) line number of each row, from 1 at the top of the file


def parse(text: bytes, *, source: str, first_line: int) -> Rows:
    """Parse whole lines of a LIBSVM file; comments, blank lines and `qid:` tokens are skipped.

    DataError names the file, the line (`first_line` is that of the first), what it holds and what it should hold.
    """
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    if b"qid:" in text:
        text = _QUERY.sub(b"", text)
    rows = parse_arrays(text, first_line=first_line)
    if rows is None:
        rows = _with_text_labels(text, source=source, first_line=first_line)
    return parse_lines(text, source=source, first_line=first_line) if rows is None else rows


def _with_text_labels(text: bytes, *, source: str, first_line: int) -> Rows | None:
    """Parse lines whose labels are all text; None where the first one is a number, or no label."""
    tokens = [token for _, token in _LABEL.findall(text)]
    if not tokens or _float(tokens[0]) is not None:
        return None
    numbered = _LABEL.sub(rb"\g<1>0", text)
    rows = parse_arrays(numbered, first_line=first_line)
    if rows is None:
        rows = parse_lines(numbered, source=source, first_line=first_line)
    number = next((row for row, token in enumerate(tokens) if _float(token) is not None), None)
    if number is not None:
        raise DataError(
            f"{source}, line {rows.lines[number]}: label {_show(tokens[number])} is a number, that of line "
            f"{rows.lines[0]} is {_show(tokens[0])}. Use numbers only, or text only."
        )
    return rows._replace(labels=np.array([token.decode("utf-8", "replace") for token in tokens]))


def is_text_label(label: str) -> bool:
    """Say whether a label can stand as text at the start of a line."""
    token = label.encode()
    return (
        _LABEL.fullmatch(token) is not None and b"#" not in token and token[:1].strip() != b"" and _float(token) is None
    )


def checked(rows: Rows, source: str, n_features: int | None, dtype: Any, zero_based: bool) -> Rows:
    """Return columns from 0, sorted, within range; values in `dtype`; labels that a float holds exactly."""
    first = 0 if zero_based else 1
    columns = rows.indices - first
    row_of = np.repeat(np.arange(len(rows.counts)), rows.counts)

    def line(entry: int) -> int:
        return int(rows.lines[row_of[entry]])

    if (columns < 0).any():
        entry = int(np.argmax(columns < 0))
        index = int(rows.indices[entry])
        advice = "zero-based: read it with read_libsvm(..., zero_based=True), or add 1 to every index"
        raise DataError(
            f"{source}, line {line(entry)}: index {index} is below {first}, the first column. "
            + (f"The file seems to be {advice}." if index == 0 else "An index cannot be negative.")
        )
    if n_features is not None and (columns >= n_features).any():
        entry = int(np.argmax(columns >= n_features))
        raise DataError(
            f"{source}, line {line(entry)}: index {rows.indices[entry]} is out of range; "
            f"n_features={n_features} columns were asked for. Raise n_features, or leave it out."
        )
    with np.errstate(over="ignore"):
        values = rows.values.astype(dtype)
    if values.dtype.itemsize < rows.values.dtype.itemsize and not np.isfinite(values).all():
        entry = int(np.argmin(np.isfinite(values)))
        raise DataError(
            f"{source}, line {line(entry)}: value {rows.values[entry]!r} is too large for {values.dtype}. "
            "Read it with dtype=float64, or scale the features."
        )
    if rows.labels.dtype.kind == "f" and (np.abs(rows.labels) > _LARGEST_EXACT).any():
        row = int(np.argmax(np.abs(rows.labels) > _LARGEST_EXACT))
        raise DataError(
            f"{source}, line {rows.lines[row]}: label {rows.labels[row]:.17g} is beyond 2**53, where whole "
            "numbers run together. Number the classes, 1, 2, 3, ..."
        )
    is_first_of_row = np.ones(len(columns), dtype=bool)
    is_first_of_row[1:] = row_of[1:] != row_of[:-1]
    if not (is_first_of_row[1:] | (columns[1:] > columns[:-1])).all():
        order = np.lexsort((columns, row_of))
        columns, values = columns[order], values[order]
        is_repeated = ~is_first_of_row[1:] & (columns[1:] == columns[:-1])
        if is_repeated.any():
            entry = int(np.argmax(is_repeated)) + 1
            raise DataError(
                f"{source}, line {line(entry)}: index {columns[entry] + first} appears twice in one row. "
                "Keep one of the two."
            )
    if columns.max(initial=0) < np.iinfo(np.int32).max:
        columns = columns.astype(np.int32)
    return rows._replace(indices=columns, values=values)


def parse_arrays(text: bytes, *, first_line: int) -> Rows | None:
    """Parse with NumPy, or return None where the text is not simply well-formed."""
    if text.translate(None, _WELL_KNOWN):
        return None
    text = b"\n" + text + _PADDING
    codes = np.frombuffer(text, dtype=np.uint8)
    is_colon = codes == _COLON
    is_gap = is_colon | (codes <= ord(" "))
    starts = np.flatnonzero(is_gap[:-1] > is_gap[1:]) + 1
    stops = np.flatnonzero(is_gap[:-1] < is_gap[1:]) + 1

    tokens_of_line = np.diff(np.searchsorted(starts, np.flatnonzero(codes == _NEWLINE)))
    lines = np.flatnonzero(tokens_of_line)
    tokens_of_row = tokens_of_line[lines]
    is_label = np.zeros(len(starts), dtype=bool)
    is_label[np.cumsum(tokens_of_row) - tokens_of_row] = True
    is_value = is_colon[starts - 1]
    index_at = np.flatnonzero(~(is_label | is_value))
    value_at = np.flatnonzero(is_value)
    # Every index is followed by a colon and a value; labels are not; no other colon occurs.
    if (
        (is_label & is_value).any()
        or not np.array_equal(index_at + 1, value_at)
        or not is_colon[stops[index_at]].all()
        or np.count_nonzero(is_colon) != len(value_at)
    ):
        return None
    indices = _whole_numbers(codes, starts[index_at], stops[index_at])
    if indices is None:
        return None
    try:
        labels = _decimals(text, codes, starts[is_label], stops[is_label])
        values = _decimals(text, codes, starts[value_at], stops[value_at])
    except ValueError:
        return None
    if not (np.isfinite(values).all() and np.isfinite(labels).all()):
        return None
    return Rows(labels, (tokens_of_row - 1) // 2, indices, values, lines + first_line)


def _whole_numbers(codes: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray | None:
    """Return numbers made of digits only, or None if a token holds anything else."""
    length = stops - starts
    longest = int(length.max(initial=0))
    if longest > _LONGEST:
        return None
    numbers = np.zeros(len(starts), dtype=np.int64)
    for offset in range(longest):
        live = length > offset
        digit = codes[starts + offset] - np.uint8(ord("0"))
        if (live & (digit > 9)).any():
            return None
        numbers = np.where(live, numbers * 10 + digit, numbers)
    return numbers


def _decimals(text: bytes, codes: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Return each token as correctly rounded float64; ValueError where one is no number."""
    is_negative = codes[starts] == _MINUS
    first = starts + (is_negative | (codes[starts] == _PLUS))
    length = stops - first
    mantissa = np.zeros(len(starts), dtype=np.int64)
    places = np.zeros(len(starts), dtype=np.int64)
    digits = np.zeros(len(starts), dtype=np.int64)
    has_point = np.zeros(len(starts), dtype=bool)
    for offset in range(min(int(length.max(initial=0)), _LONGEST)):
        code = codes[first + offset]
        live = length > offset
        digit = code - np.uint8(ord("0"))
        is_digit = live & (digit <= 9)
        mantissa = np.where(is_digit, mantissa * 10 + digit, mantissa)
        digits += is_digit
        places += is_digit & has_point
        has_point |= live & (code == _POINT)
    numbers = mantissa / _POWERS[places]
    np.negative(numbers, out=numbers, where=is_negative)
    is_plain = (digits > 0) & (digits + has_point == length) & (mantissa <= _LARGEST_EXACT)
    for i in np.flatnonzero(~is_plain).tolist():
        numbers[i] = float(text[starts[i] : stops[i]])
    return numbers


def parse_lines(text: bytes, *, source: str, first_line: int) -> Rows:
    """Parse line by line; slow, and exact about what is wrong and where."""
    labels, counts, lines = list[float](), list[int](), list[int]()
    indices, values = array("q"), array("d")  # lists of numbers would take ten times the memory
    for number, line in enumerate(text.split(b"\n"), first_line):
        tokens = line.split()
        if not tokens:
            continue
        where = f"{source}, line {number}"
        labels.append(_label(tokens[0], where))
        for token in tokens[1:]:
            index, value = _entry(token, where)
            indices.append(index)
            values.append(value)
        counts.append(len(tokens) - 1)
        lines.append(number)
    return Rows(
        np.array(labels, dtype=np.float64),
        np.array(counts, dtype=np.int64),
        np.array(indices, dtype=np.int64),
        np.array(values, dtype=np.float64),
        np.array(lines, dtype=np.int64),
    )


def _label(token: bytes, where: str) -> float:
    if b":" in token:
        raise DataError(
            f"{where}: the line starts with {_show(token)}, where its label should be. "
            "Every line must start with a number, the class of that row."
        )
    if b"," in token:
        raise DataError(
            f"{where}: label {_show(token)} is not a number. Rows with several labels, and files separated "
            "by commas, are not read: give one label per row, as in '2 1:0.5 7:1'."
        )
    label = _float(token)
    if label is None:
        raise DataError(f"{where}: label {_show(token)} is not a number, as those before it are. Write them alike.")
    if not np.isfinite(label):
        raise DataError(f"{where}: label {_show(token)} is not finite. Drop the row, or give it a class.")
    return label


def _entry(token: bytes, where: str) -> tuple[int, float]:
    index, colon, value = token.partition(b":")
    if not colon:
        raise DataError(f"{where}: found {_show(token)} without ':'. Entries are written index:value, as in '7:0.5'.")
    digits = index.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _LONGEST:
        raise DataError(
            f"{where}: in {_show(token)} the index {_show(index)} is not a whole number (of at most {_LONGEST} digits)."
        )
    number = _float(value)
    if number is None:
        raise DataError(f"{where}: in {_show(token)} the value {_show(value)} is not a number.")
    if not np.isfinite(number):
        raise DataError(f"{where}: in {_show(token)} the value is not finite. Fill in or drop such values.")
    return int(index), number


def _float(token: bytes) -> float | None:
    # Python's float also reads '1_000'; no other reader of LIBSVM files does.
    if b"_" in token:
        return None
    try:
        return float(token)
    except ValueError:
        return None


def _show(token: bytes) -> str:
    text = token[:40].decode("utf-8", "backslashreplace")
    return repr(text + ("..." if len(token) > 40 else ""))
