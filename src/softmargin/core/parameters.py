"""What a parameter may be, and the one error for what it is not.

A parameter has one or several kinds. ``checked(name, value, *kinds)`` returns the value as the first kind that takes it
reads it, or raises an error with the parameter, its value and all that is allowed.

    kind                      takes                                                                 read as
    Number(above=0.0)         Python's and NumPy's real numbers, 0-d arrays of them; neither        float
                              bool nor NaN, and infinity only where ``is_finite=False``
    Whole(least=1)            the same without a fraction by type: int, not 3.0                     int
    Numbers(above=0.0)        arrays and sequences of such numbers                                  float64 array
    Truth()                   True, False, NumPy's, 0 and 1                                         bool
    OneOf("a", "b")           these names                                                           str
    Given(words, is_fine)     anything else, by a function                                          itself
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.core.errors import IncompatibleError

__all__ = [
    "NAME",
    "NONE",
    "NOT_NEGATIVE",
    "POSITIVE",
    "RANDOM_STATE",
    "SOLVER_OBJECT",
    "CheckedFields",
    "Given",
    "Number",
    "Numbers",
    "OneOf",
    "Truth",
    "Whole",
    "as_numbers",
    "check_all",
    "checked",
    "is_instance",
    "shown",
]

_NO: Any = object()  # what a kind returns for a value that it does not take
_LONGEST = 80  # characters of a value in a message


def _interval(noun: str, above: float, least: float, below: float, most: float) -> str:
    """Say in words which numbers are meant."""
    if above == -math.inf and below == math.inf and -math.inf < least and most < math.inf:
        return f"{noun} from {least:g} to {most:g}"
    ends = [f"> {above:g}"] * (above > -math.inf) + [f">= {least:g}"] * (least > -math.inf)
    ends += [f"< {below:g}"] * (below < math.inf) + [f"<= {most:g}"] * (most < math.inf)
    return " ".join([noun, " and ".join(ends)]).strip()


def _scalar(value: Any) -> Any:
    """Return the Python number that a value is, of Python or NumPy, or in an array without axes; else None."""
    if type(value) in (float, int):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.integer):
        return int(value)
    return value if isinstance(value, float | int) and not isinstance(value, bool) else None


class Number(NamedTuple):
    """A real number of an interval."""

    above: float = -math.inf
    least: float = -math.inf
    below: float = math.inf
    most: float = math.inf
    is_finite: bool = True

    @property
    def words(self) -> str:
        """What is allowed."""
        is_open = self.is_finite and self.below == self.most == math.inf
        return _interval("a finite number" if is_open else "a number", *self[:4])

    def has(self, number: float) -> bool:
        """Say whether a number lies in the interval; NaN does not."""
        if math.isinf(number) and self.is_finite:
            return False
        is_below = number < self.below or self.below == math.inf
        is_above = number > self.above or self.above == -math.inf
        return is_above and self.least <= number <= self.most and is_below

    def read(self, value: Any) -> Any:
        """Return a float."""
        number = _scalar(value)
        try:
            number = math.nan if number is None else float(number)
        except OverflowError:  # an int beyond all floats
            return _NO
        return number if self.has(number) else _NO


class Whole(NamedTuple):
    """An integer of an interval."""

    least: int = 0
    most: float = 2**63 - 1

    @property
    def words(self) -> str:
        """What is allowed."""
        return f"an integer >= {self.least}" + ("" if self.most == 2**63 - 1 else f" and <= {self.most}")

    def read(self, value: Any) -> Any:
        """Return an int."""
        number = _scalar(value)
        return number if isinstance(number, int) and self.least <= number <= self.most else _NO


class Numbers(NamedTuple):
    """An array of numbers of an interval, or what becomes one; not empty."""

    above: float = -math.inf
    least: float = -math.inf
    most: float = math.inf
    is_finite: bool = True

    @property
    def words(self) -> str:
        """What is allowed."""
        is_open = self.is_finite and self.most == math.inf
        return _interval("finite numbers" if is_open else "numbers", self.above, self.least, math.inf, self.most)

    def read(self, value: Any) -> Any:
        """Return a float64 array of any shape."""
        array = as_numbers(value)
        if array is None or array.size == 0 or not (array > self.above).all():
            return _NO
        is_inside = (self.least <= array).all() and (array <= self.most).all()
        return array if is_inside and not (self.is_finite and not np.isfinite(array).all()) else _NO


def as_numbers(value: Any) -> Any:
    """Return a float64 array of numbers, or of what becomes one; None of anything else."""
    if isinstance(value, str | bytes | Mapping):
        return None
    try:
        array = np.asarray(value)
        return np.asarray(array, dtype=np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):  # of objects that are no numbers, and of rows of unequal lengths
        return None


class Truth:
    """True or False."""

    words = "True or False"

    def read(self, value: Any) -> Any:
        """Return a bool."""
        if isinstance(value, bool | np.bool_):
            return bool(value)
        number = _scalar(value)
        return bool(number) if isinstance(number, int) and number in (0, 1) else _NO


class OneOf:
    """One of some names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @property
    def words(self) -> str:
        """What is allowed."""
        return f"one of {', '.join(self.names)}" if len(self.names) > 1 else repr(self.names[0])

    def read(self, value: Any) -> Any:
        """Return the name."""
        return value if isinstance(value, str) and value in self.names else _NO


class Given(NamedTuple):
    """What a function says is fine."""

    words: str
    is_fine: Callable[[Any], Any]

    def read(self, value: Any) -> Any:
        """Return the value."""
        return value if self.is_fine(value) else _NO


def is_instance(kind: type) -> Given:
    """Return the kind of all instances of a class."""
    return Given(f"a {kind.__name__}", lambda value: isinstance(value, kind))


NONE = Given("None", lambda value: value is None)
NAME = Given("a name", lambda value: isinstance(value, str))
POSITIVE = Number(above=0.0)
RANDOM_STATE = (
    NONE,
    Whole(0, 2**32 - 1),
    Given("a RandomState", lambda value: isinstance(value, np.random.RandomState) or value is np.random),
)
NOT_NEGATIVE = Number(least=0.0)


def _is_solver(value: Any) -> bool:
    """Say whether a value has what the loop calls; a class is no solver."""
    called = ("needs", "start", "step", "point", "estimate")
    return not isinstance(value, type) and all(hasattr(value, name) for name in called)


SOLVER_OBJECT = Given("a solver object such as softmargin.solvers.Smo()", _is_solver)


def checked(name: str, value: Any, *kinds: Any) -> Any:
    """Return a value as the first kind that takes it reads it; refuse what no kind takes."""
    for kind in kinds:
        found = kind.read(value)
        if found is not _NO:
            return found
    names = [name for kind in kinds if isinstance(kind, OneOf) for name in kind.names]
    if isinstance(value, str) and names:
        others = [kind.words for kind in kinds if not isinstance(kind, OneOf)]
        more = "".join(f", or {words}" for words in others)
        raise IncompatibleError(f"{name}={shown(value)} is unknown; choose one of {', '.join(names)}{more}.")
    allowed = [kind.words for kind in kinds]
    words = ", or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
    raise IncompatibleError(f"{name} must be {words}; found {shown(value)}.")


def check_all(values: Mapping[str, Any], *tables: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse values that make no sense, by the first table that has the name; other names are left alone."""
    for name, value in values.items():
        for table in tables:
            if name in table:
                checked(name, value, *table[name])
                break


def shown(value: Any) -> str:
    """Return the repr of a value for a message, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a huge int has none, and others' objects may have none
        return f"{type(value).__name__} that cannot be printed"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


class CheckedFields:
    """A dataclass of settings, which are checked when it is made.

    ``allowed`` has the kinds of a field; switches and tunings need none there, as their default tells.
    """

    allowed: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        for name, default, kinds in _checked_fields(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is not default:
                # A plain number, also where the class is frozen.
                object.__setattr__(self, name, checked(name, value, *kinds))


@functools.cache
def _checked_fields(settings: Any) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return the fields of a class of settings that have kinds: names, defaults and kinds."""
    found = []
    for field in dataclasses.fields(settings):
        kinds = settings.allowed.get(field.name, ())
        if isinstance(field.default, bool):
            kinds = (Truth(),)
        elif hasattr(type(field.default), "_fields"):
            kinds = (is_instance(type(field.default)),)
        if kinds:
            found.append((field.name, field.default, kinds))
    return found
