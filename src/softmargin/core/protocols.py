"""Every protocol on one page: read this first.

A *problem* is data + loss + penalty. It owns the objective and evaluates every certificate: ``certificate(point)``.
A *solver* is a frozen dataclass of settings with ``start / step / point / estimate``; it never decides when to stop.
A *watcher* observes the solver while ``run.solve`` drives it, and may ask to stop.
``run.solve(problem, solver, stop=...)`` is the only loop.

A family of solvers names the protocol of the problems it solves in ``needs``. The protocol lists exactly what those
solvers use of a problem. n is the number of samples, d of features, k of classes.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.parameters import Given
from softmargin.core.rounding import Rounded

__all__ = [
    "Array",
    "Atom",
    "BlockDualProblem",
    "CompositeProblem",
    "ConstrainedProblem",
    "ConvexSet",
    "DualProblem",
    "EntrywiseLoss",
    "FreeBiasProblem",
    "FreeHingeProblem",
    "KernelBlockProblem",
    "ManyProblems",
    "MarginProblem",
    "PenalizedProblem",
    "Penalty",
    "Problem",
    "Progress",
    "RidgeProblem",
    "SampledProblem",
    "Solver",
    "SquaredHingeProblem",
    "Watcher",
]

Array = NDArray[Any]
P_contra = TypeVar("P_contra", contravariant=True)
Point = TypeVar("Point")
State = TypeVar("State")


@runtime_checkable
class Problem(Protocol):
    """An objective with an optimum, and a proof of how far a point is from it.

    Those of an estimator also have ``model(point, classes, info)``, ``warm_point(...)``, a point near what an earlier
    model holds (None where that has another shape), ``zero()``, the point of a run that had no time for a start, and
    ``small_problem()``, two rows that need the same compiled loops (None where there is no such problem); a first point
    must be of their ``point_type``.

    Two more help where seconds are limited. ``certificate_work(point)`` is about how many multiplications of BLAS take
    as long as a certificate; point is None for zero. ``can_skip_bound = True`` says that a certificate needs only the
    primal value by the deadline of its thread (``core.deadline``): a bound that takes longer is the trivial one.
    """

    @property
    def kind(self) -> str:
        """The family of solvers that may solve it: a key of ``solvers.names.SOLVERS``."""

    def certificate(self, point: Any) -> Certificate:
        """Evaluate a point from scratch: primal value, proven bound, residual."""

    def fingerprint(self) -> str:
        """Return a hash of all that defines the problem: a checkpoint continues only on the same problem."""


@runtime_checkable
class MarginProblem(Problem, Protocol):
    """An SVM: a point holds dual variables, one column per column of the model."""

    is_expansion: bool  # a model is made of the dual variables alone (``expansion(point)``), not of weights

    def dual_columns(self, point: Any) -> Any:
        """Return the dual variables with their signs, W = sum_i x_i dual_i'; (n, k), or (n, 1) for two classes."""

    def warm_point(self, dual: Any) -> Any:
        """Return a feasible point near the dual columns of a model; None where they have another shape."""


@runtime_checkable
class DualProblem(Problem, Protocol):
    """A problem with dual variables ``alpha`` for every sample: one, or a row of them."""

    y: Array  # (n,) class codes, or -1 and +1
    C: Array  # (n,)

    def feasible(self, alpha: Array) -> Array:
        """Return a feasible dual point near ``alpha``."""

    def point(self, alpha: Array) -> Any:
        """Make a point of dual variables, with the weights or the best bias that they imply."""


@runtime_checkable
class BlockDualProblem(DualProblem, Protocol):
    """A linear problem whose dual has one small block of variables for every sample (rows of ``alpha``)."""

    X: Any  # (n, d) array or CSR matrix
    n_classes: int
    bias: float  # value of the constant feature
    multiclass: str
    loss: Any

    def settled(self, point: Any) -> tuple[Array, Array]:
        """Return the rows whose optimum is proven, and their optimal dual variables."""


@runtime_checkable
class KernelBlockProblem(DualProblem, Protocol):
    """A problem on a kernel matrix, with one small block of dual variables for every sample (rows of ``alpha``)."""

    gram: Any
    n_classes: int
    multiclass: str
    loss: Any

    def gaps(self, alpha: Array, scores: Array) -> Array:
        """Return the gap of every row, given scores = K alpha."""

    def relative_gap(self, alpha: Array, scores: Array) -> float:
        """Return the relative gap at a feasible alpha, given scores = K alpha."""


@runtime_checkable
class FreeBiasProblem(DualProblem, Protocol):
    """A binary problem on a kernel matrix with one dual variable per sample, and an unpenalised bias."""

    gram: Any
    has_bias: bool
    upper: Array  # (n,) the largest dual variables: C_i of the hinge, infinite for its square
    inverse_C: (
        Array  # (n,) half the price of a squared dual variable: 1 / C_i for the squared hinge (0 where C_i is), else 0
    )

    def best_bias(self, scores: Array) -> float:
        """Return the bias that minimises the primal for given scores."""

    def gaps(self, alpha: Array, scores: Array, bias: float) -> Array:
        """Return each sample's part of the gap at a feasible alpha, given its scores."""

    def relative_gap(self, alpha: Array, scores: Array) -> float:
        """Return the relative gap at a feasible alpha and its best bias, given its scores."""


@runtime_checkable
class SquaredHingeProblem(FreeBiasProblem, Protocol):
    """The one with the squared hinge: the primal is smooth, and dual variables have no upper bounds."""

    def primal_point(self, weights: Array, bias: float) -> Any:
        """Pair linear weights and a bias with the dual point that their losses imply."""


@runtime_checkable
class FreeHingeProblem(FreeBiasProblem, Protocol):
    """The one with the hinge: dual variables fill a bounded set."""

    def corner(self, scores: Array) -> Array:
        """Return the corner of the dual set that a linear model of the dual at these scores points to."""


@runtime_checkable
class ManyProblems(Problem, Protocol):
    """Independent problems with one certificate for all of them."""

    parts: list[Any]  # one problem per class; their points form a list


@runtime_checkable
class Penalty(Protocol):
    """A penalty that is separable by features: g(W) = sum_j g(W_j), with W_j (k,) the weights of feature j.

    It is a ``NamedTuple`` of numbers, compiled by ``@compiled_struct("prox_row")``. W, V and the results are (d, k).
    """

    is_convex: bool
    has_bound: bool  # the conjugate is finite near zero: then a duality gap can be proven, else only stationarity
    is_entrywise: bool  # g(W_j) is a sum over the entries of W_j; ``penalties.checked`` adds it to a class without it

    def value(self, W: Array) -> float:
        """Return g(W); inf where W is not allowed."""

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t), row by row; t > 0 is a number or (d, 1)."""

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Do the same in place for one row, row[first : first + k] of flat memory; compiled."""

    def conjugate(self, V: Array) -> float:
        """Return sup over W of <V, W> - g(W); inf where it is unbounded."""

    def reach(self, V: Array) -> float:
        """Return the largest s in [0, 1] at which the conjugate of s V is finite."""

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row V_j to the subdifferential of g at W_j; shape (d,)."""


@runtime_checkable
class CompositeProblem(Problem, Protocol):
    """Softmax regression: the losses of linear scores plus a separable penalty."""

    X: Any  # (n, d) array or CSR matrix
    y: Array  # (n,) class codes
    C: Array  # (n,) price of each sample's loss
    penalty: Penalty
    n_classes: int
    n_columns: int  # columns of W: 1 for two classes, else n_classes
    is_pinned: bool  # two classes: the score of the first is zero
    target: Array  # (n,) column of each sample's label; -1 where it is the pinned class
    fit_intercept: bool
    bias: float  # value of the constant feature that carries the intercept: 1, or 0 without an intercept

    def checked_point(self, init: Any) -> Any:
        """Return the ``CompositePoint`` at which to start: ``init`` after a check of its shape, or zero if None."""

    def rough_residual(self, weights: Array, primal: float, gradient: Array) -> float:
        """Estimate the residual from the gradient of the losses."""


@runtime_checkable
class RidgeProblem(CompositeProblem, Protocol):
    """Softmax regression with the penalty ridge / 2 |W|^2: smooth."""

    ridge: float

    def scores(self, point: Any) -> Array:
        """Return the scores of all classes at a ``CompositePoint``, the pinned one included; shape (n, n_classes)."""


class EntrywiseLoss(Protocol):
    """A loss f(s, t) of a score and its target, entry by entry; all arguments are arrays, or broadcast to one shape.

    A loss may offer ``compiled``, a struct for compiled loops as in ``losses.compiled_entries``; without it, solvers
    use the methods below, and dual coordinate ascent refuses the loss. A loss of whole rows (``losses.joint``) returns
    values (n, 1), and has ``bend_along(scores, target, move)`` in the place of ``bend``.
    """

    is_joint: ClassVar[bool]  # is it a loss of rows?

    @property
    def curvature(self) -> float:
        """A bound on the second derivative; inf where the loss is not smooth."""

    @property
    def dual_curvature(self) -> float:
        """A bound on the second derivative of the conjugate, inf where there is none; only ``steps="paper"`` asks."""

    @property
    def steepest(self) -> float:
        """A bound on the size of the slope, inf where there is none; the slopes of a margin loss are <= 0 in t s."""

    @property
    def is_margin(self) -> bool:
        """Whether targets are -1 and +1."""

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds."""

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative; any value where it jumps."""

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*(u, t) = sup over s of u s - f(s, t); inf outside its domain. The least loss is 0: f*(0, t) = 0."""

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return argmax over v of s v - f*(v, t) - |v - u|^2 / (2 r); only primal-dual methods need it."""


class Atom(Protocol):
    """A corner of a convex set: a matrix (d, k) that is cheap to multiply and to add."""

    def toarray(self) -> Array:
        """Return it as an array."""

    def times(self, X: Any) -> Array:
        """Return X W."""

    def inner(self, G: Array) -> float:
        """Return <W, G>."""

    def sqnorm(self) -> float:
        """Return |W|^2."""

    def add_to(self, W: Array, step: float) -> None:
        """Add a multiple of it to an array, in place."""


@runtime_checkable
class ConvexSet(Protocol):
    """A closed, bounded, convex set of weights (d, k)."""

    def project(self, V: Array) -> Array:
        """Return the nearest point."""

    def lmo(self, G: Array) -> Atom:
        """Return a corner that minimises <W, G> over the set (linear minimisation oracle)."""

    def least(self, Z: Array, l2: float) -> float:
        """Return the minimum of l2 / 2 |W|^2 + <Z, W> over the set."""

    def size(self, W: Any) -> float:
        """Return how much of the set W uses: at most 1 inside it, 1 on its boundary."""

    def excess(self, W: Any) -> float:
        """Return by which share, at most, W is outside the set: a scaled W is inside; inf beyond rounding."""

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value as ``least`` does, where column c of Z is within errors_c of an exact one; (k,)."""

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""


@runtime_checkable
class ConstrainedProblem(Problem, Protocol):
    """An entrywise loss of linear scores over a convex set: weights (d, k), scores (n, k), intercepts (k,)."""

    X: Any  # (n, d) array or CSR matrix
    target: Array  # (n, k)
    weights: Array  # (n,) of the samples
    loss: EntrywiseLoss
    ball: ConvexSet
    l2: float
    fit_intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """(d, k)."""

    def columns(self) -> Any:
        """Return X by columns: a CSC matrix or a Fortran-ordered array."""

    def checked_point(self, init: Any) -> Any:
        """Return the point of the set nearest to ``init``, or to zero: (weights, intercept, dual variables or None)."""

    def inside(self, weights: Array) -> Array:
        """Return a copy of the weights, or the nearest point of the set where more than rounding led them outside."""

    def scores(self, weights: Any) -> Array:
        """Return X W, without the intercept."""

    def losses(self, scores: Array, intercept: Array) -> float:
        """Return the weighted sum of the losses."""

    def slopes(self, scores: Array, intercept: Array) -> Array:
        """Return the derivatives of the losses times the weights of the samples: X' times them is the gradient."""

    def best_intercept(
        self, scores: Array, start: Array | None = None, sums_at: Callable[[Array], Any] | None = None
    ) -> Array:
        """Return the intercepts that minimise the losses of these scores."""

    def dual_point(self, scores: Array, intercept: Array) -> Array:
        """Return feasible dual variables (n, k) made from the derivatives of the losses."""

    def balanced(self, U: Array) -> Array:
        """Return dual variables near U that are in the domain of the conjugates; with an intercept also balanced."""

    def bound(self, U: Array, Z: Array) -> float:
        """Return the dual value at U, given Z = X' (p U)."""

    def relative_gap(self, W: Array, scores: Array, intercept: Array, Z: Array) -> float:
        """Return the relative duality gap at W, given its scores, the best intercept and Z = X' slopes."""


@runtime_checkable
class PenalizedProblem(Problem, Protocol):
    """An entrywise loss of linear scores with a convex penalty: weights (d, k), scores (n, k), intercepts (k,)."""

    X: Any  # (n, d) array or CSR matrix
    target: Array  # (n, k)
    weights: Array  # (n,) of the samples
    loss: EntrywiseLoss
    penalty: Penalty
    fit_intercept: bool

    def checked_point(self, init: Any) -> Any:
        """Return where to start, ``init`` after a check of its shape, or zero: (weights, intercept, None)."""

    def scores(self, weights: Any) -> Array:
        """Return X W, without the intercept."""

    def best_intercept(
        self, scores: Array, start: Array | None = None, sums_at: Callable[[Array], Any] | None = None
    ) -> Array:
        """Return the intercepts that minimise the losses of these scores."""

    def rough_gap(self, W: Array, losses: float, Z: Array, conjugates: float) -> float:
        """Estimate the relative gap at W and slopes near it, given Z = X' slopes and the conjugates of the losses."""


@runtime_checkable
class SampledProblem(Problem, Protocol):
    """A binary kernel problem with hinge loss that a solver works on through samples of its rows."""

    n: int
    y: Array  # (n,) -1 and +1
    weights: Array  # (n,)
    lam: float
    first_fresh: int  # samples from it on may test a step

    def points(self, index: Array) -> Any:
        """Return some samples in the form that kernels take."""

    def block(self, left: Any, right: Any) -> Array:
        """Return the kernel values of all pairs of two sets of points."""

    def sum_over(self, points: Any, alpha: Array, at: Any) -> Array:
        """Return the scores of an expansion over ``points`` at some samples."""

    def shares(self, index: Array) -> Array:
        """Return the weights of some samples, scaled to sum to one."""

    def value(self, square: float, scores: Array, y: Array, shares: Array) -> float:
        """Return the objective on some samples, given |w|^2 and their scores."""

    def best_bound(self, mass: float, square: float, largest: float) -> float:
        """Return the largest dual value over all multiples of a dual point."""


class Solver(Protocol[P_contra, Point, State]):
    """Settings and methods. ``step`` is about one pass over the data: coarse enough that Python costs nothing.

    A solver may have a stopping rule of its own, ``is_over(problem, state) -> bool``: the run then ends as stopped.
    """

    needs: ClassVar[tuple[type, ...]]

    def start(self, problem: P_contra, init: Point | None, rng: np.random.Generator) -> State:
        """Allocate everything, from a first point or from nothing."""

    def step(self, problem: P_contra, state: State) -> State:
        """Advance by about one pass over the data."""

    def point(self, problem: P_contra, state: State) -> Point:
        """Return the current point, ready for its certificate."""

    def estimate(self, problem: P_contra, state: State) -> float:
        """Estimate the residual at no cost; it decides only when the certificate is evaluated."""

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> State:
        """Rebuild a state from the arrays and the plain numbers that a checkpoint holds."""


def _is_solver(value: Any) -> bool:
    """Say whether a value has what the loop calls; a class is no solver."""
    called = ("needs", "start", "step", "point", "estimate")
    return not isinstance(value, type) and all(hasattr(value, name) for name in called)


SOLVER_OBJECT = Given("a solver object such as softmargin.solvers.Smo()", _is_solver)


class Progress(NamedTuple):
    """What a watcher sees after every step."""

    problem: Any
    solver: Any
    state: Any
    iteration: int
    seconds: float
    certificate: Certificate | None
    estimate: float
    schedule: Any
    moments: Any = ()  # of the kernel matrices, after the step
    is_judged: bool = False  # the certificate is that of this step


class Watcher(Protocol):
    """Observes a run: a progress bar, an early stop, a checkpoint. Inherit from it what you do not need."""

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Prepare; called once before the first step."""
        return

    def watch(self, progress: Progress) -> bool | None:
        """See the state after a step; return True to stop the run."""
        return None

    def end(self, result: Any) -> None:
        """Clean up; called once, also after an interrupt; ``result`` is None where the run raised."""
        return
