"""The judged point of the smallest residual: what a run returns where it ends without meeting the tolerance.

A checkpoint holds it by names: "alpha" of a point, "2.alpha" of the third of one-vs-rest, "weights.U" of weights of low
rank.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.sets import LowRank

__all__ = ["Best", "packed_point", "unpacked_point"]

SAMPLED = ("sample gap", "regret")  # certificates of other problems, in turn: the last one says most


class Best(NamedTuple):
    """A point and its certificate."""

    point: Any
    certificate: Certificate
    is_recalled: bool = False  # a checkpoint says so: to be seen again before it is believed

    def beats(self, other: Certificate) -> bool:
        """Say whether it is better than a later point with this certificate of the same kind, by more than rounding.

        NaN is worse than any.
        """
        mine = self.certificate
        is_same = mine.kind == other.kind and mine.kind not in SAMPLED
        return is_same and mine.residual == mine.residual and not mine.residual >= other.residual - other.rounding

    def seen(self, certificate: Certificate) -> "Best":
        """Return itself after another evaluation: other tiles of kernel values change the last digits, no more."""
        mine, error = self.certificate, 2.0 * certificate.rounding * abs(certificate.primal)
        is_so = max(abs(mine.primal - certificate.primal), abs(mine.bound - certificate.bound)) <= error
        return Best(self.point, mine if is_so else certificate)


def packed_point(point: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays and numbers of a point by their names."""
    if hasattr(point, "_fields") or isinstance(point, list):
        names = getattr(point, "_fields", range(len(point)))
        for field, value in zip(names, point, strict=True):
            yield from packed_point(value, f"{name}.{field}")
    elif point is not None:
        yield name.lstrip("."), np.asarray(point)


def unpacked_point(problem: Any, arrays: Mapping[str, Any]) -> Any:
    """Undo ``packed_point`` for a point of this problem."""
    if hasattr(problem, "parts"):
        return [_built(part.point_type, arrays, f"{c}.") for c, part in enumerate(problem.parts)]
    return _built(problem.point_type, arrays, "")


def _built(kind: Any, arrays: Mapping[str, Any], prefix: str) -> Any:
    def value(field: str) -> Any:
        name = prefix + field
        if name in arrays:
            return arrays[name] if arrays[name].ndim else arrays[name].item()
        return _built(LowRank, arrays, name + ".") if any(other.startswith(name + ".") for other in arrays) else None

    return kind(*map(value, kind._fields))
