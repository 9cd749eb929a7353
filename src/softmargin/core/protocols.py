"""Every protocol of problems, solvers and watchers on one page: read this first. ``core.pieces`` has those of pieces.

A *problem* is data + loss + penalty. It owns the objective and evaluates every certificate: ``certificate(point)``.
A *solver* is a frozen dataclass of settings with ``start / step / point / estimate``; it never decides when to stop.
A *watcher* observes the solver while ``run.solve`` drives it, and may ask to stop.
``run.solve(problem, solver, stop=...)`` is the only loop.

A family of solvers names the protocol of the problems it solves in ``needs``. The protocol lists exactly what those
solvers use of a problem. n is the number of samples, d of features, k of classes.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.pieces import Array, ConvexSet, EntrywiseLoss, Penalty

__all__ = [
    "Array",
    "BlockDualProblem",
    "CompositeProblem",
    "ConstrainedProblem",
    "DualProblem",
    "FreeBiasProblem",
    "FreeHingeProblem",
    "KernelBlockProblem",
    "ManyProblems",
    "MarginProblem",
    "PairsProblem",
    "PenalizedProblem",
    "Problem",
    "Progress",
    "RidgeProblem",
    "SampledProblem",
    "Solver",
    "SquaredHingeProblem",
    "SummedProblem",
    "Watcher",
]

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
    as long as a certificate, 0 where that is not known; point is None for zero. ``can_skip_bound = True`` says that a
    certificate needs only the primal value by the deadline of its thread (``core.deadline``): a bound that takes longer
    is the trivial one.
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

    def screened(self, point: Any) -> tuple[Array, Array]:
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

    def relative_gap(self, alpha: Array, scores: Array, gaps: Array | None = None, *, scale: float = 1.0) -> float:
        """Return the relative gap between the model scale alpha and a feasible alpha, given scores = K alpha.

        The gaps of all rows may be known.
        """

    def at_prices(self, share: float) -> "KernelBlockProblem":
        """Return the problem of the same samples with this share of the prices C."""

    def room(self, alpha: Array) -> float:
        """Return the largest multiple of alpha that keeps its upper bounds."""

    def best_scale(self, alpha: Array, scores: Array, rows: Any = ...) -> tuple[float, float]:
        """Return the multiple of alpha with the least gap, and that gap, given scores = K alpha.

        All are of all rows, or of some.
        """


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

    def primal_point(self, weights: Array, bias: float, scores: Array) -> Any:
        """Pair linear weights and a bias with the dual point that their losses imply; scores are about X w + bias."""


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
class PairsProblem(ManyProblems, Protocol):
    """One-vs-one: a kernel problem for every pair of classes, with one dual variable for each sample of the pair."""

    gram: Any  # a PairGram
    entries: Any  # the samples of all pairs, one pair after the other
    whole: Any  # the FreeBiasProblem of all entries
    C: Array  # (n,)

    def feasible(self, alpha: Array) -> Array:
        """Return feasible dual variables of all entries near these."""

    def scores(self, u: Array) -> Array:
        """Return the scores of all entries, given dual variables with their signs."""

    def points_at(self, alpha: Array, biases: Array) -> list[Any]:
        """Return one point per pair, given the dual variables of all entries and the bias of every pair."""


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


@runtime_checkable
class L1Problem(CompositeProblem, Protocol):
    """Softmax regression with the penalty strength |W|_1."""

    strength: float

    def with_penalty(self, penalty: Any) -> Any:
        """Return the problem of the same data with another penalty."""


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

    def best_intercept(self, scores: Array, start: Array | None = None) -> Array:
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

    def best_intercept(self, scores: Array, start: Array | None = None) -> Array:
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


@runtime_checkable
class SummedProblem(Problem, Protocol):
    """A loss of linear scores over blocks of rows, and a function of the weights: all that is known are sums.

    Weights are (d + 1, k), the last row those of the constant feature. Every method that takes a width is one pass over
    the data; the width is that of the rounded corners of a hinge, 0 for a smooth loss.
    """

    form: Any  # the loss, its columns and the constant feature
    ridge: float  # strength of a penalty ridge / 2 |W|^2; 0 where it is another
    is_smooth: bool
    takes_scales: bool  # ``prox`` takes one t per row
    is_entrywise: bool  # the function of the weights is a sum over their entries
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """(d + 1, k)."""

    def checked_point(self, init: Any) -> Any:
        """Return where to start: (weights, width)."""

    def value(self, W: Array) -> float:
        """Return the function of the weights that is added to the losses."""

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of that function plus |W - V|^2 / (2 t); t is a number, or (d + 1, 1)."""

    def sampled(self, every: int) -> "SummedProblem":
        """Return the problem of one in so many rows, which come here."""

    def scored(self, W: Array, width: float) -> Any:
        """Return the losses (4 sums) and their gradient."""

    def curvature(self, W: Array, width: float, entries: Array | None = None) -> Any:
        """Return the losses, their gradient and their Hessian, or its part for some entries of W, ascending.

        These are positions j k + c; those of the constant are among them, and the loss is smooth.
        """

    def hessian_times(self, W: Array, V: Array, width: float) -> Array:
        """Return the Hessian at W times V."""

    def metric(self, W: Array, width: float, n_grams: int, spare: float = 0.0) -> Array:
        """Return k Gram matrices or 1, (n_grams, d + 1, d + 1), or a diagonal (d + 1, k) like the Hessian.

        The trace of each may be less than that of the Hessian by ``spare``.
        """

    def inverse(self, factors: Sequence[Array]) -> Callable[[Array], Array]:
        """Return what solves with L L' for each of some lower triangles L, every one for its share of the columns."""

    def largest_curvature(self) -> Array:
        """Bound the diagonal of the Hessian of a smooth loss anywhere; (d + 1, 1)."""

    def along(self, W: Array, D: Array, lengths: Array, width: float) -> Array:
        """Return the losses at W + t D for several lengths t."""

    def rough_residual(self, W: Array, values: Array, gradient: Array, width: float) -> float:
        """Estimate the residual from what a pass returns."""


class Solver(Protocol[P_contra, Point, State]):
    """Settings and methods. ``step`` is about one pass over the data: coarse enough that Python costs nothing.

    A solver may have a stopping rule of its own, ``is_over(problem, state) -> bool``: the run then ends as stopped.

    ``runs_on_device = True`` says that it needs no more of a kernel matrix than ``scores``, ``add_change``, ``rows``
    and working sets (``kernel_svm._dual_rows.working_rows``): then X may lie on a device.

    One that runs others in turn (``HandOver``) has more: ``wants_certificate(state) -> bool`` asks for the certificate
    of a state, ``told(problem, state, certificate, tol) -> bool`` sees each one before the next step and says whether
    another solver is at work from then on, ``at_work(state)`` is that solver, ``fresh(problem, state)`` a first state
    of it, and ``has_finisher(state) -> bool`` says whether one waits still: then a run that stands still goes on. A
    solver whose steps are not alike counts its own work for it, ``work_done(state) -> float``, in multiplications.
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
    at_work: str = ""  # the class of the solver at work
    best: Any = None  # the best point that was judged, and its certificate, unless it is that of this step


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
