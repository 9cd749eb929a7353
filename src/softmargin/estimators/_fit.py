"""The one fit path, shared by estimators and command line; it never imports scikit-learn, which takes a second.

``SOLVER_TABLES`` holds the solvers users may ask for by name, a table a kind of problem. Classes are named, not
imported: a fit loads the solver it runs and no other. Where the fastest depends on the problem, "auto" is a function
from the problem to a name of its table.

A penalty that is not convex has many stationary points: the run starts at a solution of its convex relative, as spec
3.4 asks.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softmargin import solvers
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import (
    BlockDualProblem,
    CompositeProblem,
    ConstrainedProblem,
    FreeBiasProblem,
    RidgeProblem,
    SampledProblem,
)
from softmargin.estimators._penalties import convex_relative
from softmargin.losses.observed import Observed
from softmargin.matrices.operator import row_squares
from softmargin.problems import softmax_problem
from softmargin.run import Result, Stop, solve
from softmargin.run.solve import speaks
from softmargin.sets import L1Ball, TraceBall

__all__ = ["SOLVER_TABLES", "find_solver", "fit_problem", "is_sampling"]

Recipe = tuple[str, dict[str, Any]]
MANY_FEATURES = 3000
MOST_MULTIPLIED = 5.5e7  # multiplications by BLAS, up to which a whole Hessian is worth while
SCATTERED = 8.5  # of them take as long as one whose result goes to where the columns of a sparse row say
HEAVY = 3.0  # p_i |x_i|^2 / l2 of a sample, up to which one dual coordinate after the other is the fastest
LOOSE = 1e-2  # tolerance of the convex relative, where a run starts


def fastest_ridge(problem: Any) -> str:
    """Name the solver for a ridge: Newton's method, with the whole Hessian where it is small; the dual where X is wide.

    Making a Hessian takes n unknowns^2 multiplications, or of two classes and sparse rows n times their nonzero numbers
    squared; solving takes unknowns^3 / 3. There are no more unknowns a class than samples.
    """
    n, d = problem.X.shape
    is_sparse = not isinstance(problem.X, np.ndarray)
    unknowns = problem.n_columns * (min(n, d) + 1.0)
    making = n * unknowns**2
    if is_sparse and problem.is_pinned and d <= n:
        making = min(making, SCATTERED * problem.X.nnz**2 / max(n, 1))
    if problem.ridge > 0.0 and making + unknowns**3 / 3.0 <= MOST_MULTIPLIED:
        return "newton"
    return "dual_descent" if is_sparse and d > MANY_FEATURES and problem.ridge > 0.0 else "newton_cg"


def fastest_kernel_hinge(problem: Any) -> str:
    """Name the solver for a kernel hinge: by pairs of samples where each has one variable, else by blocks."""
    return "pair_descent" if problem.n_classes == 2 else "block_descent"


def fastest_in_l1_ball(problem: Any) -> str:
    """Name the solver for an l1 ball: on the dual where the ridge outweighs every sample, else on a working set."""
    if not isinstance(problem.ball, L1Ball):
        return "accelerated_gradient"
    is_smooth = problem.l2 > 0.0 and not problem.fit_intercept and not isinstance(problem.loss, Observed)
    if is_smooth and (problem.weights * row_squares(problem.X)).max() <= HEAVY * problem.l2:
        return "dual_descent"
    return "working_set"


_ANY_PENALTY: dict[str, Recipe] = {
    "prox_newton": ("ProxNewton", {}),
    "mm_descent": ("MMDescent", {}),
    "accelerated_gradient": ("AcceleratedGradient", {}),
    "block_prox_gradient": ("BlockProxGradient", {}),
    "svrg": ("Svrg", {}),
}
_ANY_BALL: dict[str, Recipe] = {
    "frank_wolfe": ("BallFrankWolfe", {}),
    "block_frank_wolfe": ("BallBlockFrankWolfe", {}),
    "svrg": ("BallSvrg", {}),
    "scgs": ("Scgs", {}),
    "storc": ("Storc", {}),
}
SOLVER_TABLES: dict[str, dict[str, Recipe | Callable[[Any], str]]] = {
    "linear hinge": {
        "auto": ("DualBlockDescent", {}),
        "block_descent": ("DualBlockDescent", {}),
        "walrus": ("DualBlockDescent", {"block": "sort", "working_set": False}),
        "shark": ("DualBlockDescent", {"block": "greedy", "working_set": False}),
    },
    "linear squared_hinge": {
        "auto": ("PrimalNewton", {}),
        "newton": ("PrimalNewton", {}),
        "smo": ("Smo", {}),
        "dual_prox_gradient": ("DualProxGradient", {}),
    },
    "kernel hinge": {
        "auto": fastest_kernel_hinge,
        "block_descent": ("KernelBlockDescent", {}),
        "pair_descent": ("KernelPairDescent", {}),
        "projected_gradient": ("ProjectedGradient", {}),
        "frank_wolfe": ("FrankWolfe", {}),
        "block_frank_wolfe": ("BlockFrankWolfe", {}),
        "pairwise_frank_wolfe": ("PairwiseFrankWolfe", {}),
    },
    "kernel squared_hinge": {
        "auto": ("Smo", {}),
        "smo": ("Smo", {}),
        "dual_prox_gradient": ("DualProxGradient", {}),
    },
    "sampled kernel": {
        "auto": ("ConjugateSubgradient", {}),
        "scs": ("ConjugateSubgradient", {}),
        "wolfe": ("Wolfe", {}),
        "pegasos": ("Pegasos", {}),
    },
    "softmax ridge": {
        "auto": fastest_ridge,
        "lbfgs": ("Lbfgs", {}),
        "newton": ("SoftmaxNewton", {}),
        "newton_cg": ("NewtonCG", {}),
        "trust_newton": ("TrustNewton", {}),
        "dual_descent": ("SoftmaxDualDescent", {}),
        **_ANY_PENALTY,
    },
    "softmax": {"auto": ("ProxNewton", {}), **_ANY_PENALTY},
    "l1 ball": {
        "auto": fastest_in_l1_ball,
        "dual_descent": ("BallDualDescent", {}),
        "working_set": ("BallWorkingSet", {}),
        "accelerated_gradient": ("BallGradient", {}),
        "primal_dual_bfw": ("PrimalDualBFW", {}),
        "pairwise_frank_wolfe": ("BallPairwise", {}),
        **_ANY_BALL,
    },
    "trace ball": {
        "auto": ("LowRankGradient", {}),
        "accelerated_gradient": ("LowRankGradient", {}),
        "primal_dual_bfw": ("LowRankPDBFW", {}),
        **_ANY_BALL,
    },
}


_KINDS: dict[type | None, str] = {
    SampledProblem: "sampled kernel",
    RidgeProblem: "softmax ridge",
    CompositeProblem: "softmax",
    BlockDualProblem: "linear hinge",
    None: "kernel hinge",
}
# A problem may speak several of them; then the first says what it is.
_ASKED = (SampledProblem, ConstrainedProblem, RidgeProblem, CompositeProblem, FreeBiasProblem, BlockDualProblem)


def fit_problem(
    problem: Any,
    *,
    solver: Any = "auto",
    stop: Stop,
    seed: Any = None,
    init: Any = None,
    watchers: Sequence[Any] = (),
    resume: Any = None,
    dual_only: bool = False,
) -> Result:
    """Solve it by the solver of that name (or a solver object); one-vs-rest problems class by class."""
    chosen = find_solver(solver, problem, dual_only=dual_only)
    if init is None and resume is None and not getattr(getattr(problem, "penalty", None), "is_convex", True):
        began = time.perf_counter()
        init = _convex_start(problem, stop, seed)
        if math.isfinite(stop.max_seconds):
            stop = stop._replace(max_seconds=max(stop.max_seconds - (time.perf_counter() - began), 0.0))
    return solve(problem, chosen, stop=stop, rng=seed, init=init, watchers=watchers, resume=resume)


def _convex_start(problem: Any, stop: Stop, seed: Any) -> Any:
    """Solve the problem with the convex relative of its penalty, loosely; None where the penalty has none."""
    penalty = convex_relative(problem.penalty)
    if penalty is None:
        return None
    relative = softmax_problem(
        problem.X,
        problem.y,
        C=problem.C,
        penalty=penalty,
        n_classes=problem.n_classes,
        fit_intercept=problem.fit_intercept,
    )
    loose = stop.checked()._replace(tol=max(stop.tol, LOOSE))
    return solve(relative, find_solver("auto", relative), stop=loose, rng=seed).point


def find_solver(solver: Any, problem: Any = None, *, dual_only: bool = False) -> Any:
    """Return the solver of that name, or the solver object itself, made ready for ``problem``.

    Without a problem, the name is looked up among the solvers of linear hinge problems. With ``dual_only`` a solver of
    weights is judged at its dual variables, as the model will be made of these.
    """
    parts = getattr(problem, "parts", None)
    part = problem if parts is None else parts[0]
    chosen = _by_name(solver, _kind(part), part) if isinstance(solver, str) else solver
    if parts is None or isinstance(chosen, solvers.EachClass):
        return chosen
    for needed in chosen.needs:
        if not speaks(part, needed):
            raise IncompatibleError(
                f"{type(chosen).__name__} needs a {needed.__name__}; the parts of this one-vs-rest problem are of type "
                f"{type(part).__name__}. Choose one of {', '.join(SOLVER_TABLES[_kind(part)])}."
            )
    has_weights = dual_only and _kind(part) == "linear squared_hinge"
    return solvers.EachClass(solvers.AtDualPoint(chosen) if has_weights else chosen)


def is_sampling(solver: Any) -> bool:
    """Say whether a solver, or a name, is of those that look at samples of a kernel problem (spec part 2)."""
    if isinstance(solver, str):
        return solver != "auto" and solver in SOLVER_TABLES["sampled kernel"]
    return SampledProblem in getattr(solver, "needs", ())


def _kind(problem: Any) -> str:
    protocol = _protocol(problem)
    if protocol is ConstrainedProblem:
        return "trace ball" if isinstance(problem.ball, TraceBall) else "l1 ball"
    if protocol is FreeBiasProblem:
        return "linear squared_hinge" if problem.gram.is_linear else "kernel squared_hinge"
    return "linear hinge" if problem is None else _KINDS[protocol]


def _protocol(problem: Any) -> type | None:
    """Return the first protocol that a problem speaks; None where it is none of them, as a kernel hinge is."""
    return next((protocol for protocol in _ASKED if speaks(problem, protocol)), None)


def _by_name(name: str, kind: str, problem: Any) -> Any:
    table = SOLVER_TABLES[kind]
    if name not in table:
        fits = [other for other, names in SOLVER_TABLES.items() if name in names]
        near = [other for other in fits if ("hinge" in other) == ("hinge" in kind)] or fits
        found = f"solves {' and '.join(near)} problems, not {kind} ones" if fits else "is unknown"
        more = list(SOLVER_TABLES["sampled kernel"])[1:] if kind == "kernel hinge" else []
        raise IncompatibleError(f"solver={name!r} {found}; choose one of {', '.join([*table, *more])}.")
    entry = table[name]
    home, settings = table[entry(problem)] if callable(entry) else entry  # type: ignore[misc]
    return getattr(solvers, home)(**settings)
