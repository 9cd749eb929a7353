"""Every protocol on one page: read this first.

A *problem* is data + loss + penalty. It owns the objective and is the only judge: ``certificate(point)``.
A *solver* is a frozen dataclass of settings with ``start / step / point``; it never decides when to stop.
A *watcher* looks on while ``run.solve`` drives the solver, and may ask it to stop.
``run.solve(problem, solver, stop=...)`` is the only loop.
"""

from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from softmargin.core.certificate import Certificate

__all__ = [
    "BlockDualProblem",
    "FreeBiasProblem",
    "KernelBlockProblem",
    "ManyProblems",
    "Problem",
    "Progress",
    "Solver",
    "Watcher",
]

P_contra = TypeVar("P_contra", contravariant=True)
Point = TypeVar("Point")
State = TypeVar("State")


@runtime_checkable
class Problem(Protocol):
    """Something with an optimum, and a proof of how near a point is to it."""

    def certificate(self, point: Any) -> Certificate:
        """Judge a point from scratch: primal value, proven bound, residual."""
        ...

    def fingerprint(self) -> str:
        """Name the problem by a hash of all that defines it, so that a checkpoint goes on only where it began."""
        ...


@runtime_checkable
class BlockDualProblem(Problem, Protocol):
    """A linear problem whose dual has one small block of variables for every sample (rows of ``alpha``)."""

    X: Any
    multiclass: str

    def point(self, alpha: Any) -> Any:
        """Pair dual variables with the weights they imply."""
        ...


@runtime_checkable
class KernelBlockProblem(Problem, Protocol):
    """A problem on a kernel matrix, with one small block of dual variables for every sample (rows of ``alpha``)."""

    gram: Any
    multiclass: str
    loss: Any

    def gaps(self, alpha: Any, scores: Any) -> Any:
        """Return the gap of every row, given scores = K alpha."""
        ...


@runtime_checkable
class FreeBiasProblem(Problem, Protocol):
    """A binary problem on a kernel matrix with one dual variable a sample, and a bias that nobody penalises."""

    gram: Any
    has_bias: bool

    def best_bias(self, scores: Any) -> float:
        """Return the bias that minimises the primal for given scores."""
        ...


@runtime_checkable
class ManyProblems(Problem, Protocol):
    """Independent problems under one judge."""

    parts: list[Any]


class Solver(Protocol[P_contra, Point, State]):
    """Settings plus three verbs. ``step`` is about one pass over the data: coarse enough that Python costs nothing."""

    needs: ClassVar[tuple[type, ...]]

    def start(self, problem: P_contra, init: Point | None, rng: np.random.Generator) -> State:
        """Allocate everything, from a first point or from nothing."""
        ...

    def step(self, problem: P_contra, state: State) -> State:
        """Go on by about one pass over the data."""
        ...

    def point(self, problem: P_contra, state: State) -> Point:
        """Return where the solver stands, ready to be judged."""
        ...

    def estimate(self, problem: P_contra, state: State) -> float:
        """Guess the residual for nothing; it only tells the loop when asking the judge is worth while."""
        ...


class Progress(Protocol):
    """What a watcher sees after every step."""

    problem: Any
    solver: Any
    state: Any
    iteration: int
    seconds: float
    certificate: Certificate | None
    estimate: float
    schedule: Any


class Watcher(Protocol):
    """Looks on: a progress bar, an early stop, a checkpoint."""

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Get ready; called once before the first step."""
        ...

    def watch(self, progress: Any) -> bool | None:
        """Look at the state after a step; return True to stop."""
        ...

    def end(self, result: Any) -> None:
        """Tidy up; called once, also after an interrupt; with None where the run raised."""
        ...
