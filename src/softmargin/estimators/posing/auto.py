"""The solver by its name, and "auto": the fastest for a problem, by thresholds that were measured."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin import solvers
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import (
    SOLVER_OBJECT,
    Given,
    checked,
)
from softmargin.core.protocols import ManyProblems, PairsProblem
from softmargin.core.threads import n_threads
from softmargin.estimators.posing.finishers import Finisher, finisher_of
from softmargin.losses.observed import Observed
from softmargin.matrices.operator import SCATTERED, mean_square, row_squares
from softmargin.problems import EveryPair, KernelOneVsOne, OneVsRest
from softmargin.run.asked import check_needs
from softmargin.sets import L1Ball
from softmargin.solvers.names import SAMPLING, SOLVERS, choices

__all__ = ["SOLVER", "TUNING", "AutoTuning", "find_solver"]

Array = NDArray[Any]


class AutoTuning(NamedTuple):
    """The thresholds by which ``solver="auto"`` chooses, found on the data sets of docs/results."""

    many_features: int = 3000  # above, a sparse ridge problem goes to its dual: docs/results/softmax.md
    # But with two classes, as many rows for a feature as a squared hinge needs, and this mean C_i |x_i|^2 / ridge: made
    # codes and texts of 20,000 rows, newton_cg 0.1 to 0.9 of the time; with eight classes 0.8 to 5.3 times.
    steep_of_wide: float = 12.0
    # Multiplications up to which a whole Hessian is fastest: docs/results/softmax.md. With three and more classes
    # from 2.3e7 on it takes 1.3 to 2 times as long on ARM (segment, avila), and 0.5 to 0.8 times on x86.
    most_multiplied: float = 5.5e7
    most_modelled: float = 2e7  # the same for one column in a trace ball: as fast on wdbc and splice, not on a1a
    # Mean C_i |x_i|^2 / ridge from which on primal-dual steps go further, with two classes and with more, and the
    # features up to which newton_cg is as good, as it has a matrix per class; on mnist, isolet, avila, poker and data
    # that were drawn: leaves100 at C = 100 takes 0.3 s where newton_cg takes 1.8, codes of categories 0.1 to 0.9 of it.
    steep: float = 5e4
    steep_of_many: float = 500.0
    few_features: int = 50
    # Of so few features, three and more classes go to the dual from this many features on, and up to so many rows for
    # each feature and class, which lie apart then, and so steep: six drawn sets of blobs, 2.6 to 6 times as fast. With
    # more rows most blobs were faster still, and five of six sets of Gaussian classes took 1.7 to 270 times as long.
    least_of_dual: int = 32
    rows_of_few: float = 1.0
    steepest_of_few: float = 5e3
    # Three and more classes: rows for each feature and class from which on newton_cg is the fastest whatever C is, and
    # where C is not the gentlest; so many rows do not lie apart. 52 drawn sets of 1500 to 20,000 rows take 0.15 to 1.5
    # times as long as by the rules that follow, 0.70 in the geometric mean, and large ones down to 0.08. Rows of more
    # features than ``features_of_dual`` of which more than ``most_stored`` are not zero are left to those: mnist, as an
    # array or as sparse rows, whose pixels are nearly dependent.
    rows_of_newton: float = 4.0
    rows_of_steep: float = 1.2
    # Three and more classes: rows for each feature, and steepness, up to which dual descent is the fastest (isolet at
    # C = 1 to 1000: 0.3 s, the others 1 to 2), and the same of many features whatever the rows are (mnist: three to ten
    # times as fast up to C = 1). Of more rows and fewer features it took up to 27 times as long as the others.
    rows_of_dual: float = 4.0
    rows_of_class: float = 0.25  # the same where C is modest, for each class: leaves100 at C = 1, 0.17 s and 0.54
    steepest_of_dual: float = 3e5
    features_of_dual: int = 500
    gentle: float = 1e3
    gentlest: float = 30.0  # the same of fewer features: optdigits, 64 features, at C = 0.01 and 0.1
    # A squared hinge of sparse rows: rows for each feature, and mean C |x_i|^2, below which passes over the dual are
    # few; on drawn texts and codes of categories, where Newton's method took 0.4 to 13 times as long below the first,
    # 0.8 to 3.3 below the second, and 0.03 to 1.6 times above both (one of 18: 3.5, at a loose tol). A pass serves all
    # classes, each of which has a Newton matrix: with several the second is higher, and a third bounds its product with
    # the rows for a feature and class. 21 drawn sets between these bounds take 0.74 of their time with the dual.
    rows_of_sparse: float = 2.0
    least_steep: float = 2.5
    least_steep_of_many: float = 4.5  # rows of length 1 and a constant, at C = 1, have 4, as squares count twice
    steep_rows: float = 8.0
    # Hinges of several classes, sparse rows of so many features at least: mean C |x_i|^2 up to which passes for all
    # classes take less time than block descent one by one. 17 drawn texts with up to 3000 words, C |x|^2 = 0.2 and 2,
    # take 0.78 of the time; codes of categories, most of fewer features, took 0.6 to 1.8 times as long.
    gentle_passes: float = 2.5
    least_words: int = 300
    # Squared hinges of arrays, whatever C is: 0.9 to 6 times below, 0.01 to 1 above 4; and the rows or features that
    # there are at least, as a Newton step on fewer takes no longer than a few passes: colon-cancer, duke, leukemia.
    rows_of_dense: float = 2.0
    least_of_dense: int = 120
    most_stored: float = 0.1  # share of the entries: of mnist, 0.19, Newton's method takes 4.6 s and the dual 11.4
    scattered: float = SCATTERED  # BLAS multiplications in the time of one that scatters its result
    heavy: float = 3.0  # largest p_i |x_i|^2 / l2 at which dual coordinates are the fastest: docs/results/balls.md
    loose_tol: float = 1e-2  # tolerance of the convex relative, where a run starts; by hand


TUNING = AutoTuning()
NAME = Given("a name ('auto' is the fastest)", lambda value: isinstance(value, str))
SOLVER = (NAME, SOLVER_OBJECT)


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
    name = _name_of_fastest(part, n_parts) if is_auto else solver
    first = _made_ready(_by_name(name, part), problem, part)
    if is_auto and part is not problem and part.kind == "linear hinge" and is_for_passes(part, n_parts):
        first = solvers.OneVsRestDescent()  # on rows of text, one pass for all classes takes less than block steps
    finisher = finisher_of(part, name, n_parts) if is_auto else None
    if finisher is None:
        return first
    return _handing_over(first, finisher, problem, part)


def _handing_over(first: Any, finisher: Finisher, problem: Any, part: Any) -> Any:
    """Return the pair of a solver and its finisher, which may have one, too."""
    then = _made_ready(_by_name(finisher.name, part), problem, part)
    if finisher.then is not None:
        then = _handing_over(then, finisher.then, problem, part)
    if finisher.is_hopeless:
        return then
    settings = {name: getattr(finisher, name) for name in ("patience", "unit", "support", "guess")}
    return solvers.HandOver(first, then, **settings)


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


def _name_of_fastest(problem: Any, n_parts: int = 1) -> str:
    rule = RULES.get(problem.kind)
    return next(iter(_solvers_of(problem))) if rule is None else rule(problem, n_parts)


def _by_name(name: str, problem: Any) -> Any:
    kind, table = problem.kind, _solvers_of(problem)
    if name not in table:
        fits = [other for other, names in SOLVERS.items() if name in names]
        near = [
            other for other in fits if all((word in other) == (word in kind) for word in ("hinge", "summed"))
        ] or fits
        found = f"solves {' and '.join(near)} problems, not {kind} ones" if fits else "is unknown"
        more = SOLVERS[SAMPLING] if kind == "kernel hinge" else ()
        raise IncompatibleError(f"solver={name!r} {found}; choose one of {', '.join([*choices(kind), *more])}.")
    home, settings = table[name]
    return getattr(solvers, home)(**settings)


def fastest_ridge(problem: Any, n_parts: int = 1, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for a ridge: Newton's method, with the whole Hessian where it is small; the dual where X is wide.

    Three and more classes go to the dual as well where rows are few for their features, as classes then are apart, or
    features many and C modest: passes over it then are few. With many rows for each feature and class they overlap, and
    Newton's method by products takes few steps. Raw features and large C, which make Newton's method stall,
    go to primal and dual together (mnist as 0..255: 1e7, where standardised sets have 10 to 1e4 at C = 1). The Hessian
    takes n unknowns^2 multiplications, or with two classes and sparse rows n times their nonzero numbers squared;
    solving takes unknowns^3 / 3. There are no more unknowns per class than samples.
    """
    n, d = problem.X.shape
    is_sparse = not isinstance(problem.X, np.ndarray)
    unknowns = problem.n_columns * (min(n, d) + 1.0)
    making = n * unknowns**2
    if is_sparse and problem.is_pinned and d <= n:
        making = min(making, tuning.scattered * problem.X.nnz**2 / max(n, 1))
    if problem.ridge > 0.0 and making + unknowns**3 / 3.0 <= tuning.most_multiplied:
        return "newton"
    if problem.ridge == 0.0:
        return "newton_cg"
    steepness = problem.C @ row_squares(problem.X) / (problem.ridge * n)
    has_rows = problem.is_pinned and n >= tuning.rows_of_sparse * d and steepness >= tuning.steep_of_wide
    if is_sparse and d > tuning.many_features and not has_rows:
        return "dual_descent"
    if min(n, d) <= tuning.few_features:
        is_roomy = d >= tuning.least_of_dual and n <= tuning.rows_of_few * problem.n_columns * d
        is_separate = is_roomy and not problem.is_pinned and steepness <= tuning.steepest_of_few
        return "dual_descent" if is_separate else "newton_cg"
    if problem.is_pinned:
        return "primal_dual_newton" if steepness >= tuning.steep else "newton_cg"
    rows = n / (problem.n_columns * d)
    has_rows = rows >= (tuning.rows_of_steep if steepness > tuning.gentlest else tuning.rows_of_newton)
    is_thin = is_sparse and problem.X.nnz <= tuning.most_stored * n * d
    if has_rows and (is_thin or d < tuning.features_of_dual):
        return "newton_cg"
    if n <= tuning.rows_of_dual * d and steepness <= tuning.steepest_of_dual:
        return "dual_descent"
    if steepness <= (tuning.gentle if d >= tuning.features_of_dual else tuning.gentlest):
        return "dual_descent"
    if steepness >= tuning.steep_of_many:
        return "primal_dual_newton"
    return "dual_descent" if n <= tuning.rows_of_class * problem.n_columns * d else "newton_cg"


def fastest_kernel_hinge(problem: Any, n_parts: int = 1) -> str:
    """Name the solver for a kernel hinge: by pairs of samples where each has one variable, else by blocks.

    Both are compiled loops over single rows; on a device whole arrays are fast.
    """
    if problem.gram.is_on_device:
        return "splitting"
    return "pair_descent" if problem.n_classes == 2 else "block_descent"


def fastest_in_l1_ball(problem: Any, n_parts: int = 1, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for an l1 ball: on the dual where the ridge outweighs every sample, else on a working set."""
    if not isinstance(problem.ball, L1Ball):
        return "accelerated_gradient"
    is_smooth = problem.l2 > 0.0 and not (problem.fit_intercept or problem.loss.is_joint)
    is_smooth = is_smooth and not isinstance(problem.loss, Observed)
    if is_smooth and (problem.weights * row_squares(problem.X)).max() <= tuning.heavy * problem.l2:
        return "dual_descent"
    return "working_set"


def fastest_in_trace_ball(problem: Any, n_parts: int = 1, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for a trace ball: Newton's method where there is one column and a small Hessian."""
    from softmargin.solvers.ball.newton import step_work

    is_small = problem.shape[1] == 1 and step_work(*problem.X.shape) <= tuning.most_modelled
    return "newton" if is_small else "accelerated_gradient"


def fastest_squared_hinge(problem: Any, n_parts: int = 1, tuning: AutoTuning = TUNING) -> str:
    """Name the solver for linear squared hinges: Newton's method, or the dual where features are many for the rows.

    Where X is sparse, it is the dual where C is small, too, and the more so the more classes there are.
    """
    X = problem.gram.X
    n, d = X.shape
    if isinstance(X, np.ndarray) or X.nnz > tuning.most_stored * n * d:
        return "dual_descent" if n <= tuning.rows_of_dense * d and min(n, d) >= tuning.least_of_dense else "newton"
    steepness = float(problem.C.mean()) * mean_square(X)
    least = tuning.least_steep if n_parts == 1 else tuning.least_steep_of_many
    is_gentle = steepness <= least or steepness * n <= tuning.steep_rows * d * n_parts
    return "dual_descent" if is_gentle or n < tuning.rows_of_sparse * d else "newton"


def is_for_passes(problem: Any, n_parts: int, tuning: AutoTuning = TUNING) -> bool:
    """Say whether passes over rows for all classes suit linear hinges: X is sparse, and wide, or few passes will do."""
    X = problem.X
    if isinstance(X, np.ndarray):
        return False
    steepness = 2.0 * float(problem.C.mean()) * (mean_square(X) + problem.bias**2)
    has_words = n_parts > 1 and X.shape[1] >= tuning.least_words
    return X.shape[1] > tuning.many_features or (has_words and steepness <= tuning.gentle_passes)


def fastest_kernel_squared_hinge(problem: Any, n_parts: int = 1) -> str:
    """Name the solver for a squared hinge with a kernel: by pairs of samples, by whole arrays on a device."""
    return "dual_prox_gradient" if problem.gram.is_on_device else "smo"


RULES: dict[str, Callable[[Any, int], str]] = {
    "softmax ridge": fastest_ridge,
    "linear squared_hinge": fastest_squared_hinge,
    "kernel hinge": fastest_kernel_hinge,
    "kernel squared_hinge": fastest_kernel_squared_hinge,
    "l1 ball": fastest_in_l1_ball,
    "trace ball": fastest_in_trace_ball,
}
