"""Linear SVMs and softmax regression on rows that come in chunks, in memory that does not grow with their number.

A chunk is learnt by ``solvers.dual_stream``. What is proven after it:

    bound      no weights have an objective below it, on all rows seen
    primal     the regulariser of the model, and the losses of the first chunk by the model that came out of it and of
               every later chunk by the model that had not yet learnt from it

After one chunk that is a duality gap; later its kind is "regret". The losses of the last model on all rows need the
rows once more: ``certificate_of`` takes them, and gives a duality gap.
"""

import math
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import Rounded
from softmargin.problems import MulticlassSVM, OneVsRest, RidgeComposite
from softmargin.run import Status
from softmargin.solvers.dual_stream import Stream, stream_for

__all__ = ["LinearStream", "check_streamed"]


def _parts(problem: Any) -> tuple[list[Any], float]:
    """Return the parts of a one-vs-rest problem, or the problem, and by what their objectives are multiplied."""
    return (problem.parts, problem.scale) if isinstance(problem, OneVsRest) else ([problem], 1.0)


def check_streamed(problem: Any) -> None:
    """Refuse problems without a dual that rows can be added to."""
    part = _parts(problem)[0][0]
    if not (isinstance(part, MulticlassSVM) or (isinstance(part, RidgeComposite) and part.ridge > 0.0)):
        raise IncompatibleError(
            "a stream of a linear model needs the hinge, or a softmax with a ridge: each row then has dual variables "
            "of its own. Use loss='hinge' with an intercept that is not 'free', or l1_ratio=0 with a finite C and no "
            "other penalty."
        )


@dataclass
class LinearStream:
    """A linear model that takes one chunk of rows after the other.

    Parameters
    ----------
    init : point, optional
        A model to begin with (``model_point`` of its problem).
    n_seen : int
        Rows that it has seen.
    """

    init: Any = None
    n_seen: int = 0
    n_chunks: int = field(default=0, init=False)
    losses: Rounded = field(default=Rounded(0.0), init=False)
    scale: float = field(default=1.0, init=False)  # of the objectives of the parts
    streams: list[Stream] = field(default_factory=list, init=False)
    coef: Any = field(default=None, init=False)  # (k, d), or (1, d) for two classes
    intercept: Any = field(default=None, init=False)  # (k,) or (1,)

    def take(self, problem: Any, *, tol: float, seed: int) -> tuple[Certificate, Status]:
        """Learn from a chunk, as a problem; return what is proven, and whether it meets the tolerance.

        A chunk that fails, or is interrupted, leaves all as it was.
        """
        later = copy(self)
        later._learn(problem, np.random.default_rng([seed, self.n_seen]))
        certificate = later.certificate_of(later.losses)
        if not math.isfinite(certificate.primal):
            raise DataError(f"learning from rows {self.n_seen}.. of the stream failed. {Status.FAILED.sentence}")
        vars(self).update(vars(later))
        certificate = certificate if self.n_chunks == 1 else certificate._replace(kind="regret")
        return certificate, Status.CONVERGED if certificate.meets(tol) else Status.MAX_ITER

    def _learn(self, problem: Any, rng: np.random.Generator) -> None:
        parts, self.scale = _parts(problem)
        if self.streams:
            self.streams = [replace(stream, seen=copy(stream.seen)) for stream in self.streams]
            self.losses += self.losses_of(problem)
        else:
            check_streamed(problem)
            points = self.init if isinstance(self.init, list) else [self.init] * len(parts)
            own = zip(parts, points, strict=True)
            self.streams = [stream_for(part, point, self.n_seen) for part, point in own]
        for stream, part in zip(self.streams, parts, strict=True):
            stream.learn(part, rng)
        self.losses = self.losses if self.n_chunks else self.losses_of(problem)
        self.n_seen, self.n_chunks = self.n_seen + len(parts[0].y), self.n_chunks + 1
        points = [stream.point() for stream in self.streams]
        self.coef, self.intercept = problem.coef_and_intercept(points if hasattr(problem, "parts") else points[0])

    def losses_of(self, problem: Any) -> Rounded:
        """Return the losses of some rows by the model."""
        each = (stream.losses(part) for stream, part in zip(self.streams, _parts(problem)[0], strict=True))
        return sum(each, Rounded(0.0)).times(self.scale)

    def certificate_of(self, losses: Rounded) -> Certificate:
        """Certify the model by the bound of all rows seen, given its losses on them."""
        size = sum((stream.regulariser() for stream in self.streams), Rounded(0.0))
        bound = sum((stream.seen.bound() for stream in self.streams), Rounded(0.0))
        return duality_gap(size.times(self.scale) + losses, bound.times(self.scale))
