"""``check_solver``: an honest certificate, the same bits from the same seed, restarts, and runs in two pieces."""

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from softmargin.run import Result, Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint

__all__ = ["check_run", "check_solver"]

ROUNDING = 1e-7  # relative: the accuracy of an optimum that another solver computed
FALL = 1e-10  # relative: by how much a value that never falls may fall by rounding
HANDED_OUT_AFTER = 3  # steps


def check_solver(
    solver: Any,
    make_problem: Callable[[], Any],
    *,
    tol: float = 1e-6,
    max_iter: int = 50_000,
    optimum: float | None = None,
    can_restart: bool = True,
    steps: int = 12,
    seed: int = 0,
) -> None:
    """Hold a solver to the contract of ``softmargin.core.protocols.Solver`` on one problem.

    certificate     the run converges, and its certificate is honest: see ``check_run``
    status          "converged" exactly where the certificate meets the tolerance, whatever the budget
    seed            the same seed gives the same bits
    restart         a run that starts at the point returned ends without a step
    split run       a run that is stopped, written to a file, read and continued gives the bits of a whole run; one
                    that had ended stays as it is
    memory          further steps do not change a point handed out before; the starting point is left alone

    Parameters
    ----------
    solver : Solver
        What to check.
    make_problem : callable
        Makes the problem, each time anew: a continued run must not rely on what a problem caches.
    tol : float, default=1e-6
        A relative gap that the solver reaches within ``max_iter`` steps.
    max_iter : int, default=50000
        Steps of the longest run.
    optimum : float, optional
        The least objective, by another solver.
    can_restart : bool, default=True
        False for a solver that looks at samples, which cannot start at a given point.
    steps : int, default=12
        Of the runs that are compared bit by bit.
    seed : int, default=0
        Of the runs.

    Raises
    ------
    AssertionError
        With a sentence on the first broken promise.
    """
    problem = make_problem()
    result = check_run(solver, problem, tol=tol, max_iter=max_iter, optimum=optimum, seed=seed)
    _check_status(solver, problem, result, tol, seed)
    if can_restart:
        _check_restart(solver, make_problem(), result, tol)
    _check_bits(solver, make_problem, steps, seed)
    _check_memory(solver, make_problem(), seed)


def check_run(
    solver: Any,
    problem: Any,
    *,
    tol: float = 1e-6,
    max_iter: int = 50_000,
    optimum: float | None = None,
    seed: int = 0,
    **more: Any,
) -> Result:
    """Run a solver to the tolerance; the certificate is that of the point returned, and no bound exceeds the optimum.

    Returns the result; ``more`` goes to ``solve``.
    """
    result = solve(problem, solver, stop=Stop(tol, max_iter), rng=seed, **more)
    last = result.certificate
    if result.status is not Status.CONVERGED:
        _fail(solver, f"ends as {result.status.value!r} with residual {last.residual} after {result.n_iter} steps")
    if not last.meets(tol):
        _fail(solver, f"converged, but the residual {last.residual} exceeds the tolerance {tol}")
    if last != problem.certificate(result.point):
        _fail(solver, "the certificate returned is not that of the point returned")
    if optimum is not None:
        slack = ROUNDING * (1.0 + abs(optimum))
        worst = max(row.certificate.bound for row in result.trace)
        if not worst <= optimum + slack:
            _fail(solver, f"a bound of {worst} exceeds the optimum {optimum}")
        if not last.primal >= optimum - slack or not last.primal - optimum <= 1.1 * tol * abs(last.primal) + slack:
            _fail(solver, f"the objective {last.primal} is not within {tol} of the optimum {optimum}")
    # On another sample, another problem is bounded.
    proven = [row.certificate for row in result.trace if row.certificate.kind == "duality gap"]
    least = min((each.primal for each in proven), default=math.inf)
    for each in proven:
        if not each.bound <= least + FALL * (1.0 + abs(least)):
            _fail(solver, f"a bound of {each.bound} exceeds the objective {least} of a point that was visited")
    return result


def _fail(solver: Any, sentence: str) -> None:
    raise AssertionError(f"{solver!r}: {sentence}.")


def _leaves(point: Any) -> Iterator[Any]:
    """Yield the arrays and numbers of a point: a tuple, or a list of tuples."""
    if isinstance(point, tuple | list):
        for part in point:
            yield from _leaves(part)
    elif point is not None:
        yield np.asarray(point)


def _is_same(one: Any, other: Any) -> bool:
    pairs = zip(_leaves(one), _leaves(other), strict=True)
    return all(np.array_equal(left, right, equal_nan=left.dtype.kind == "f") for left, right in pairs)


def _copied(point: Any) -> list[Any]:
    return [leaf.copy() for leaf in _leaves(point)]


def _check_status(solver: Any, problem: Any, whole: Result, tol: float, seed: int) -> None:
    for max_iter in sorted({0, 1, 2, whole.n_iter // 2, max(whole.n_iter - 1, 0)}):
        result = solve(problem, solver, stop=Stop(tol, max_iter), rng=seed)
        if (result.status is Status.CONVERGED) != result.certificate.meets(tol):
            _fail(solver, f"status {result.status.value!r} with residual {result.certificate.residual}, tol {tol}")
        if result.n_iter > max_iter:
            _fail(solver, f"made {result.n_iter} steps where {max_iter} were allowed")


def _check_restart(solver: Any, problem: Any, result: Result, tol: float) -> None:
    kept = _copied(result.point)
    again = solve(problem, solver, stop=Stop(2.0 * tol, 5), rng=1, init=result.point)
    solve(problem, solver, stop=Stop(0.0, 3), rng=1, init=result.point)
    if not _is_same(kept, list(_leaves(result.point))):
        _fail(solver, "a run changes the point it starts at")
    if (again.n_iter, again.status) != (0, Status.CONVERGED):
        residual = again.trace[0].certificate.residual
        _fail(solver, f"a restart at the point returned does not end at once: its residual is {residual}")


def _check_bits(solver: Any, make_problem: Callable[[], Any], steps: int, seed: int) -> None:
    def run(max_iter: int, **more: Any) -> Result:
        return solve(make_problem(), solver, stop=Stop(0.0, max_iter), **{"rng": seed, **more})

    whole = run(steps)
    if not _is_same(whole.point, run(steps).point):
        _fail(solver, "the same seed gives other bits")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run"
        for cut in sorted({1, steps // 2, whole.n_iter} & set(range(whole.n_iter + 1))):
            run(cut, watchers=[Checkpoint(file, every=0.0)])
            rest = run(steps, rng=seed + 1, resume=load_checkpoint(file, solver))
            if rest.n_iter != whole.n_iter:
                _fail(solver, f"continued after {cut} steps it makes {rest.n_iter} in all, a whole run {whole.n_iter}")
            if not _is_same(rest.point, whole.point) or rest.certificate != whole.certificate:
                _fail(solver, f"continued from a checkpoint after {cut} of {steps} steps it gives other bits")


def _check_memory(solver: Any, problem: Any, seed: int) -> None:
    state = solver.start(problem, None, np.random.default_rng(seed))
    for _ in range(HANDED_OUT_AFTER):
        state = solver.step(problem, state)
        point = solver.point(problem, state)
        kept = _copied(point)
        state = solver.step(problem, state)
        if not _is_same(kept, list(_leaves(point))):
            _fail(solver, "a further step changes a point that was handed out before")
