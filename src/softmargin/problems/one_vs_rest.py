"""Several binary problems as one: the sum of their objectives, each class against all others.

P = sum_c P_c and D = sum_c D_c, so the gap is the sum of the gaps, and one certificate speaks for all classes.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError

__all__ = ["OneVsRest"]


class OneVsRest:
    """Independent problems under one judge.

    Parameters
    ----------
    parts : sequence of Problem
        One a class.
    scale : float, default=1
        Multiplies the objective (a binary hinge SVM is twice its joint two-class form, spec 2.10).
    """

    def __init__(self, parts: Sequence[Any], *, scale: float = 1.0) -> None:
        if not parts:
            raise DataError("one-vs-rest needs at least one binary problem; found none.")
        self.parts = list(parts)
        self.scale = scale

    def certificate(self, point: Sequence[Any]) -> Certificate:
        """Judge one point a class."""
        judged = [part.certificate(mine) for part, mine in zip(self.parts, point, strict=True)]
        whole = duality_gap(
            self.scale * sum(each.primal for each in judged), self.scale * sum(each.bound for each in judged)
        )
        is_sample = any(each.kind == "sample gap" for each in judged)
        return whole._replace(kind="sample gap") if is_sample else whole

    def fingerprint(self) -> str:
        """Return a hash of all parts."""
        return hashlib.sha256("".join(part.fingerprint() for part in self.parts).encode()).hexdigest()
