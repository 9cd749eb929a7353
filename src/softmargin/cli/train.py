"""`softmargin train`: load, fit to the tolerance, save, and say what is proven."""

import math
import time
from argparse import Namespace
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.cli import fit_rows, models, rows, saving
from softmargin.cli.choices import REGRESSORS
from softmargin.cli.exit_codes import INTERRUPTED, NOT_CERTIFIED
from softmargin.cli.outcome import Outcome, report
from softmargin.cli.show import in_options, note, wants_progress, warn
from softmargin.core.errors import DataError
from softmargin.data import Dataset
from softmargin.estimators.posing.advice import advice_for, meaning_of
from softmargin.estimators.posing.auto import find_solver
from softmargin.estimators.posing.fit import fit_problem
from softmargin.estimators.posing.kernels import KernelTask
from softmargin.models import LinearRegressor
from softmargin.run import Result, Status, Stop
from softmargin.run.progress import ProgressBar
from softmargin.run.watchers import Checkpoint, load_checkpoint

Array = NDArray[Any]


def run(args: Namespace) -> int:
    """Train as asked and return the exit code."""
    if args.dask is not None:
        from softmargin.cli import cluster

        return cluster.run(args)
    if args.stream:
        from softmargin.cli import stream

        return stream.run(args)
    models.fill_defaults(args)
    saving.check_outputs(args)
    parts = fit_rows.load(args)
    dataset = parts.dataset
    classes, codes = _labels(args, dataset)
    class_weight = rows.class_weights(args.class_weight, classes)
    X, scaling = fit_rows.prepared(dataset.X, args, dataset.name)
    scored = _scored(args, X, dataset.y)
    problem, task = models.build_problem(args, X, codes, classes, class_weight)
    solver = find_solver(args.solver, problem)
    is_proof = task is None or _is_convex(task)
    resume = None if args.resume is None else load_checkpoint(args.resume, solver)
    result, prepare_seconds = _fit(args, problem, solver, resume)
    if result.status is Status.FAILED:
        raise DataError(
            f"{dataset.name}: training failed. {in_options(meaning_of(result, problem))} --normalize maxabs scales the "
            "features."
        )
    if task is not None:
        result = result._replace(certificate=task.named(result.certificate))
    info = models.train_info(args, class_weight, result.status, result.certificate, parts.info(args), problem)
    if dataset.columns is not None:
        info["columns"] = dataset.columns.as_info()
    if args.probabilities is not None and result.status is not Status.INTERRUPTED:
        from softmargin.cli.calibration import calibration_of

        fit = problem, task, result.point
        info["calibration"] = calibration_of(args, X, codes, classes, class_weight, fit)
    model = models.build_model(problem, task, result.point, classes, {**info, **scaling.as_info()}, scaling)
    saved, trouble = saving.save(args, model, result.trace)
    train, test = _measured(args, model, dataset)
    advice = in_options(advice_for(result, args.tol, problem))
    found = Outcome(parts, problem, model, result, is_proof, train, test, saved, prepare_seconds, scored, advice)
    report(args, found)
    if trouble is not None:
        raise trouble
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return 0 if result.status in (Status.CONVERGED, Status.DECAYED) else NOT_CERTIFIED


def _labels(args: Namespace, dataset: Dataset) -> tuple[Any, Array]:
    """Return the classes and the code of every label, checked; None and the numbers of a regressor."""
    if args.model in REGRESSORS:
        return None, dataset.y
    classes, codes = np.unique(dataset.y, return_inverse=True)
    if len(classes) < 2:
        found = f"{len(dataset.y)} training rows have 1 class ({classes[0]!s})"
        raise DataError(f"{dataset.name}: {found}; a classifier needs at least 2.")
    fit_rows.check_test_rows(args, dataset, classes)
    saving.check_format(args, classes)
    return classes, codes


def _scored(args: Namespace, X: Any, y: Array) -> Any:
    """Score settings by cross-validation, and choose from them, where that was asked for; return what was found."""
    if args.cv is None and not args.search:
        return None
    from softmargin.cli import search

    return search.score(args, X, y)


def _is_convex(task: KernelTask) -> bool:
    """Look for a negative eigenvalue of the kernel matrix, and warn where there is one."""
    eigenvalue = task.negative_eigenvalue()
    if eigenvalue < 0:
        warn(
            f"the {task.problem.gram.kernel.name} kernel is not positive semi-definite on these rows: an eigenvalue is "
            f"at most {eigenvalue:.2g}. The objective is then not convex, and the certificate is no proof. Use "
            "--kernel rbf, laplacian or linear, or polynomial with --coef0 of 0 or more."
        )
    return eigenvalue == 0.0


def _fit(args: Namespace, problem: Any, solver: Any, resume: Any) -> tuple[Result, float]:
    """Solve; return the result and the seconds it took to get the compiled loops ready."""
    watchers: list[Any] = []
    if args.checkpoint is not None:
        every = args.checkpoint_every
        watchers.append(Checkpoint(args.checkpoint, every=every, report=lambda text: note(args, text)))
    seconds = math.inf if args.max_seconds is None else args.max_seconds
    stop = Stop(args.tol, args.max_iter, seconds, args.decay)
    console = None
    if wants_progress(args):
        from rich.console import Console

        console = Console(stderr=True)
        watchers.append(ProgressBar(console))
    started = time.perf_counter()
    with console.status("getting the compiled loops ready") if console else nullcontext():
        # On two rows: neither clock nor budget of the fit includes it.
        small = problem.small_problem()
        if small is not None:
            solver.step(small, solver.start(small, None, np.random.default_rng(0)))
    prepare_seconds = time.perf_counter() - started
    try:
        # Overflow ends in the status FAILED, which says what to do.
        with np.errstate(over="ignore", invalid="ignore"):
            result = fit_problem(problem, solver=solver, stop=stop, seed=args.seed, watchers=watchers, resume=resume)
    finally:
        if console is not None:
            console.show_cursor(True)
    return result, prepare_seconds


def _measured(args: Namespace, model: Any, dataset: Dataset) -> tuple[rows.Measured, rows.Measured | None]:
    """Measure the model as it is saved, on the raw rows for training and, where there are any, for testing."""
    measured = rows.measured_numbers if isinstance(model, LinearRegressor) else rows.measured
    train = measured(model, dataset.X, dataset.y, dataset.name)
    if dataset.X_test is None or dataset.y_test is None:
        return train, None
    test = measured(model, dataset.X_test, dataset.y_test, fit_rows.test_name(args, dataset))
    if test.n_unknown:
        note(args, f"{test.n_unknown} test rows carry labels that training never saw; they count as errors.")
    return train, test
