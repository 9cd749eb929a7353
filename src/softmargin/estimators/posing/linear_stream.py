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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import Rounded
from softmargin.problems import MulticlassSVM, OneVsRest, RidgeComposite
from softmargin.run import Status
from softmargin.solvers.dual_stream import Stream, stream_for

__all__ = ["LinearStream", "check_streamed"]


def _whole(problem: Any) -> tuple[Any, float]:
    """Return a problem with all classes of its rows, and by what its objective is multiplied."""
    if isinstance(problem, OneVsRest) and len(problem.parts) == 1:
        return problem.parts[0], problem.scale
    return problem, 1.0


def check_streamed(problem: Any) -> None:
    """Refuse problems without a dual that rows can be added to."""
    whole, _ = _whole(problem)
    if not (isinstance(whole, MulticlassSVM) or (isinstance(whole, RidgeComposite) and whole.ridge > 0.0)):
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
    scale: float = field(default=1.0, init=False)  # of the objective
    stream: Stream | None = field(default=None, init=False)
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
        whole, self.scale = _whole(problem)
        if self.stream is None:
            check_streamed(problem)
            point = self.init[0] if isinstance(self.init, list) else self.init
            self.stream = stream_for(whole, point, self.n_seen)
        else:
            self.stream = copy(self.stream)
            self.stream.seen = copy(self.stream.seen)
            self.losses += self.losses_of(problem)
        self.stream.learn(whole, rng)
        self.losses = self.losses if self.n_chunks else self.losses_of(problem)
        self.n_seen, self.n_chunks = self.n_seen + len(whole.y), self.n_chunks + 1
        self.coef, self.intercept = self.stream.coef_and_intercept(whole)

    def losses_of(self, problem: Any) -> Rounded:
        """Return the losses of some rows by the model."""
        assert self.stream is not None
        return self.stream.losses(_whole(problem)[0]).times(self.scale)

    def certificate_of(self, losses: Rounded) -> Certificate:
        """Certify the model by the bound of all rows seen, given its losses on them."""
        assert self.stream is not None
        size, bound = self.stream.regulariser().times(self.scale), self.stream.seen.bound().times(self.scale)
        return duality_gap(size + losses, bound)
