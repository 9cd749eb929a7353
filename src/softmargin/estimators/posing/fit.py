"""What every fit does without scikit-learn: the price of every sample's loss, the solver by its name, the run.

A penalty that is not convex has many stationary points: the run starts at a solution of its convex relative (maths:
softmax, section 4).
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from softmargin import solvers
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.parameters import (
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    SOLVER_OBJECT,
    Given,
    OneOf,
    as_numbers,
    checked,
    shown,
)
from softmargin.core.protocols import ManyProblems, PairsProblem
from softmargin.core.threads import n_threads, shared_interruption
from softmargin.estimators.posing.finishers import finisher_of
from softmargin.estimators.posing.softmax import convex_relative
from softmargin.losses.observed import Observed
from softmargin.matrices.operator import SCATTERED, row_squares
from softmargin.problems import Composite, EveryPair, KernelOneVsOne, OneVsRest
from softmargin.run import Result, Stop, solve
from softmargin.run.asked import check_needs
from softmargin.sets import L1Ball
from softmargin.solvers.names import SAMPLING, SOLVERS, choices

__all__ = [
    "CLASS_WEIGHT",
    "LARGEST_SQUARES",
    "SOLVER",
    "AutoTuning",
    "class_weights",
    "codes_of",
    "demand_modest",
    "find_solver",
    "fit_problem",
    "loss_prices",
    "model_info",
    "sample_weights",
    "sum_of_squares",
]

Array = NDArray[Any]


class AutoTuning(NamedTuple):
    """The thresholds by which ``solver="auto"`` chooses, found on the data sets of docs/results."""

    many_features: int = 3000  # above, a sparse ridge problem goes to its dual: docs/results/softmax.md
    most_multiplied: float = 5.5e7  # multiplications up to which a whole Hessian is fastest: docs/results/softmax.md
    most_modelled: float = 2e7  # the same for one column in a trace ball: as fast on wdbc and splice, not on a1a
    # Mean C_i |x_i|^2 / ridge from which on primal-dual steps go further, and the features up to which newton_cg is as
    # good, as it has a matrix per class; by hand, on mnist and isolet, avila and poker.
    steep: float = 5e4
    few_features: int = 50
    # The same up to which dual descent is faster than both, with three and more classes; three to ten times on mnist,
    # isolet and smoothed digits at C = 0.01 .. 1.
    gentle: float = 1e3
    scattered: float = SCATTERED  # BLAS multiplications in the time of one that scatters its result
    heavy: float = 3.0  # largest p_i |x_i|^2 / l2 at which dual coordinates are the fastest: docs/results/balls.md
    loose_tol: float = 1e-2  # tolerance of the convex relative, where a run starts; by hand


TUNING = AutoTuning()
# Beyond these, products and squares of data, prices and weights overflow.
LARGEST_SQUARES: dict[Any, float] = {np.float64: 1e200, np.float32: 1e36}
LARGEST_PRICES = 1e100
NAME = Given("a name ('auto' is the fastest)", lambda value: isinstance(value, str))
SOLVER = (NAME, SOLVER_OBJECT)
CLASS_WEIGHT = (NONE, OneOf("balanced"), Given("a mapping from label to weight", lambda v: isinstance(v, Mapping)))


def loss_prices(
    codes: Array, classes: Array, C: float, class_weight: Any = None, sample_weight: Array | None = None
) -> Array:
    """Return C_i = C * class_weight[y_i] * sample_weight_i; shape (n,). A weight of 2 is the sample given twice.

    ``class_weight`` is None, "balanced" (n / (k * count)), or a mapping from label to weight.
    """
    C = checked("C", C, POSITIVE)
    weights = np.ones(len(codes)) if sample_weight is None else sample_weights(sample_weight)
    if weights.shape not in ((), (len(codes),)):
        raise DataError(f"sample_weight has shape {weights.shape} for {len(codes)} samples; give one per sample.")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("sample_weight must be finite and not negative; found a NaN, infinite or negative weight.")
    if not weights.any():
        raise DataError("sample_weight is zero for every sample; at least one must be positive.")
    with np.errstate(over="ignore", invalid="ignore"):
        prices: Array = C * weights * class_weights(classes, codes, weights, class_weight)[codes]
        total = float(prices.sum())
    if not total <= LARGEST_PRICES:
        raise DataError(
            f"C times the weights of samples and classes sums to {total:.3g}; above {LARGEST_PRICES:g} their squares "
            "leave the range of float64. Lower C or the weights."
        )
    return prices


def sum_of_squares(values: Any) -> float:
    """Return the sum of the squares, by BLAS; NaN or infinity where there is one, or where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vdot(values, values))


def demand_modest(X: Any, name: str = "X") -> None:
    """Refuse numbers so large that sums of their squares leave the range of their type, or come near it."""
    values = X.data if issparse(X) else X
    square, most = sum_of_squares(values), LARGEST_SQUARES[values.dtype.type]
    if square > most:
        largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        raise DataError(
            f"{name} holds values up to {largest:.3g}, and its squares sum to {square:.3g}: sums above {most:g} leave "
            f"the range of {values.dtype}. Scale {'the features' if name == 'X' else name} to values near 1."
        )


def sample_weights(sample_weight: Any) -> Array:
    """Return weights as a float64 array; refuse what are no numbers."""
    weights = as_numbers(sample_weight)
    if weights is None:
        raise DataError(f"sample_weight must be one number >= 0 per sample; found {shown(sample_weight)}.")
    return weights


def class_weights(classes: Array, codes: Array, sample_weight: Array, class_weight: Any) -> Array:
    """Return the weight of every class, "balanced" by the weights of samples with these codes; (k,)."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(checked("class_weight", class_weight, *CLASS_WEIGHT), str):
        mass = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        return np.where(mass > 0, mass.sum() / (len(classes) * np.where(mass > 0, mass, 1.0)), 0.0)
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise DataError(f"class_weight names {shown(unknown)}, which are not among the labels {labels[:10]}.")
    given = {label: class_weight.get(label, 1.0) for label in labels}
    return np.array([checked(f"class_weight[{label!r}]", weight, NOT_NEGATIVE) for label, weight in given.items()])


def codes_of(classes: Array, y: Any) -> Array:
    """Return the class code of every label; refuse labels the model does not know."""
    y = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    strange = classes[codes] != y
    if np.any(strange):
        label = y[strange][:1].tolist()[0]
        raise DataError(
            f"y holds the label {label!r}, which the model does not know: it is none of its classes. Pass the data it "
            "was trained on."
        )
    return codes


def model_info(
    claim: Mapping[str, Any], *, fit_intercept: bool | str, class_weight: Any, tol: float, status: str, certificate: Any
) -> dict[str, Any]:
    """Return what every model remembers: its problem (``claim``), and how far it was solved."""
    return {
        **claim,
        "fit_intercept": fit_intercept if isinstance(fit_intercept, str) else bool(fit_intercept),
        "class_weight": class_weight,
        "tol": float(tol),
        "status": status,
        "certificate": certificate._asdict(),
    }


def fit_problem(
    problem: Any,
    *,
    solver: Any = "auto",
    stop: Stop,
    seed: Any = None,
    init: Any = None,
    watchers: Sequence[Any] = (),
    resume: Any = None,
) -> Result:
    """Solve a problem by the solver of that name (or a solver object); one-vs-rest problems class by class."""
    chosen = find_solver(solver, problem)
    with shared_interruption():
        if init is None and resume is None and isinstance(problem, Composite) and not problem.penalty.is_convex:
            began = time.perf_counter()
            init = _convex_start(problem, stop, seed)
            if math.isfinite(stop.max_seconds):
                stop = stop._replace(max_seconds=max(stop.max_seconds - (time.perf_counter() - began), 0.0))
        return solve(problem, chosen, stop=stop, rng=seed, init=init, watchers=watchers, resume=resume)


def _convex_start(problem: Composite, stop: Stop, seed: Any) -> Any:
    """Solve the problem with the convex relative of its penalty, loosely; None where the penalty has none."""
    penalty = convex_relative(problem.penalty)
    if penalty is None:
        return None
    relative = problem.with_penalty(penalty)
    loose = stop.checked()._replace(tol=max(stop.tol, TUNING.loose_tol))
    return solve(relative, find_solver("auto", relative), stop=loose, rng=seed).point


def find_solver(solver: Any, problem: Any) -> Any:
    """Return the solver of that name, or the solver object itself, made ready for ``problem``.

    The parts of a one-vs-rest problem are solved one by one; where a model is made of dual variables, a solver that
    finds weights is certified at its dual variables. "auto" hands over to another one where the fastest stalls.
    """
    checked("solver", solver, *SOLVER)
    if isinstance(problem, KernelOneVsOne) and isinstance(solver, str) and solver in choices(problem.kind):
        return _by_name(_name_of_fastest(problem) if solver == "auto" else solver, problem)
    part, n_parts = (problem.parts[0], len(problem.parts)) if isinstance(problem, OneVsRest) else (problem, 1)
    if not isinstance(solver, str):
        return _made_ready(solver, problem, part)
    is_auto = solver == "auto"
    name = _name_of_fastest(part) if is_auto else solver
    first = _made_ready(_by_name(name, part), problem, part)
    if is_auto and part is not problem and part.kind == "linear hinge" and is_wide(part.X):
        first = solvers.OneVsRestDescent()  # on rows of text, one pass for all classes takes less than block steps
    finisher = finisher_of(part, name, n_parts) if is_auto else None
    if finisher is None:
        return first
    then = _made_ready(_by_name(finisher.name, part), problem, part)
    return then if finisher.is_hopeless else solvers.HandOver(first, then, patience=finisher.patience)


def _made_ready(chosen: Any, problem: Any, part: Any) -> Any:
    """Return a solver for all parts of a problem."""
    if part is problem or ManyProblems in chosen.needs or PairsProblem in chosen.needs:
        return chosen
    if hasattr(chosen, "all_classes") and not isinstance(problem, EveryPair):
        together = chosen.all_classes()
        n_groups = min(n_threads(), len(problem.parts))
        return together if n_groups == 1 else solvers.EachGroup(together, n_groups=n_groups)
    check_needs(part, chosen, f"It is a part of a one-vs-rest problem. Choose one of {', '.join(choices(part.kind))}.")
    has_weights = part.kind == "linear squared_hinge" and part.is_expansion
    return solvers.EachClass(solvers.AtDualPoint(chosen) if has_weights else chosen)


def _solvers_of(problem: Any) -> Mapping[str, Any]:
    table = SOLVERS.get(problem.kind)
    if table is None:
        raise IncompatibleError(f"no solver here solves {problem.kind} problems; pass a solver object of your own.")
    return table


def _name_of_fastest(problem: Any) -> str:
    rule = RULES.get(problem.kind)
    return next(iter(_solvers_of(problem))) if rule is None else rule(problem)


def _by_name(name: str, problem: Any) -> Any:
    kind, table = problem.kind, _solvers_of(problem)
    if name not in table:
        fits = [other for other, names in SOLVERS.items() if name in names]
        near = [other for other in fits if ("hinge" in other) == ("hinge" in kind)] or fits
        found = f"solves {' and '.join(near)} problems, not {kind} ones" if fits else "is unknown"
        more = SOLVERS[SAMPLING] if kind == "kernel hinge" else ()
        raise IncompatibleError(f"solver={name!r} {found}; choose one of {', '.join([*choices(kind), *more])}.")
    home, settings = table[name]
    return getattr(solvers, home)(**settings)


def fastest_ridge(problem: Any, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for a ridge: Newton's method, with the whole Hessian where it is small; the dual where X is wide.

    Dense features go to the dual as well where C is modest, as passes over it then are few.
    Raw features and large C, which make Newton's method stall, go to primal and dual together (mnist as 0..255: 1e7,
    where standardised sets have 10 to 1e4 at C = 1). The Hessian takes n unknowns^2 multiplications, or with two
    classes and sparse rows n times their nonzero numbers squared; solving takes unknowns^3 / 3. There are no more
    unknowns per class than samples.
    """
    n, d = problem.X.shape
    is_sparse = not isinstance(problem.X, np.ndarray)
    unknowns = problem.n_columns * (min(n, d) + 1.0)
    making = n * unknowns**2
    if is_sparse and problem.is_pinned and d <= n:
        making = min(making, tuning.scattered * problem.X.nnz**2 / max(n, 1))
    if problem.ridge > 0.0 and making + unknowns**3 / 3.0 <= tuning.most_multiplied:
        return "newton"
    if is_sparse and d > tuning.many_features and problem.ridge > 0.0:
        return "dual_descent"
    if min(n, d) <= tuning.few_features or problem.ridge == 0.0:
        return "newton_cg"
    steepness = problem.C @ row_squares(problem.X) / (problem.ridge * n)
    if steepness <= tuning.gentle and not (is_sparse or problem.is_pinned):
        return "dual_descent"
    return "primal_dual_newton" if steepness >= tuning.steep else "newton_cg"


def fastest_kernel_hinge(problem: Any) -> str:
    """Name the solver for a kernel hinge: by pairs of samples where each has one variable, else by blocks.

    Both are compiled loops over single rows; on a device whole arrays are fast.
    """
    if problem.gram.is_on_device:
        return "splitting"
    return "pair_descent" if problem.n_classes == 2 else "block_descent"


def fastest_in_l1_ball(problem: Any, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for an l1 ball: on the dual where the ridge outweighs every sample, else on a working set."""
    if not isinstance(problem.ball, L1Ball):
        return "accelerated_gradient"
    is_smooth = problem.l2 > 0.0 and not (problem.fit_intercept or problem.loss.is_joint)
    is_smooth = is_smooth and not isinstance(problem.loss, Observed)
    if is_smooth and (problem.weights * row_squares(problem.X)).max() <= tuning.heavy * problem.l2:
        return "dual_descent"
    return "working_set"


def fastest_in_trace_ball(problem: Any, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for a trace ball: Newton's method where there is one column and a small Hessian."""
    from softmargin.solvers.ball.newton import step_work

    is_small = problem.shape[1] == 1 and step_work(*problem.X.shape) <= tuning.most_modelled
    return "newton" if is_small else "accelerated_gradient"


def fastest_squared_hinge(problem: Any, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for a linear squared hinge: on the dual where X is sparse and wide, else Newton's method."""
    return "dual_descent" if is_wide(problem.gram.X, tuning) else "newton"


def is_wide(X: Any, tuning: AutoTuning = TUNING) -> bool:
    """Say whether X is sparse and has many features."""
    return not isinstance(X, np.ndarray) and X.shape[1] > tuning.many_features


def fastest_kernel_squared_hinge(problem: Any) -> str:
    """Name the solver for a squared hinge with a kernel: by pairs of samples, by whole arrays on a device."""
    return "dual_prox_gradient" if problem.gram.is_on_device else "smo"


RULES: dict[str, Callable[[Any], str]] = {
    "softmax ridge": fastest_ridge,
    "linear squared_hinge": fastest_squared_hinge,
    "kernel hinge": fastest_kernel_hinge,
    "kernel squared_hinge": fastest_kernel_squared_hinge,
    "l1 ball": fastest_in_l1_ball,
    "trace ball": fastest_in_trace_ball,
}
