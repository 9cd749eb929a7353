"""`softmargin train`: load, hold out rows, fit to the tolerance, save, and say what is proven."""

import json
import math
import os
import tempfile
import time
from argparse import Namespace
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.cli import rows
from softmargin.cli.exit_codes import INTERRUPTED, NOT_CERTIFIED
from softmargin.cli.show import (
    check_writable,
    note,
    print_fields,
    print_json,
    problem_name,
    status_line,
    wants_progress,
)
from softmargin.core.errors import DataError, IncompatibleError, SoftmarginError
from softmargin.core.files import atomic_write
from softmargin.data import Dataset
from softmargin.estimators._fit import find_solver, fit_linear_svm, linear_model, linear_problem, loss_prices
from softmargin.models import LinearModel, write_liblinear
from softmargin.problems import MulticlassSVM
from softmargin.run import Result, Status, Stop, Trace
from softmargin.run.watchers import Checkpoint, load_checkpoint

__all__ = ["run"]

Array = NDArray[Any]


class _Accuracy(NamedTuple):
    train: float
    test: float | None  # None: no rows were held out


def run(args: Namespace) -> int:
    """Train as asked and return the exit code."""
    _check_outputs(args)
    solver = find_solver(args.solver)
    dataset, data_info = _load(args)
    classes, codes = np.unique(dataset.y, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"{dataset.name}: {len(dataset.y)} training rows have 1 class ({classes[0]!s}); "
            "a classifier needs at least 2."
        )
    _check_test_rows(args, dataset, classes)
    _check_format(args, classes)
    class_weight = rows.class_weights(args.class_weight, classes)
    X, scales = _prepared(dataset.X, args, dataset.name)
    problem = linear_problem(
        X,
        codes,
        len(classes),
        loss_prices(codes, classes, args.C, class_weight),
        multiclass=args.multiclass,
        fit_intercept=not args.no_intercept,
        intercept_scaling=args.intercept_scaling,
    )
    resume = None if args.resume is None else load_checkpoint(args.resume, solver)
    result, prepare_seconds = _fit(args, problem, solver, resume)
    if result.status is Status.FAILED:
        raise DataError(
            f"{dataset.name}: training {status_line(result.status)} --normalize maxabs scales the features."
        )
    info = {
        "problem": "multiclass_svm",
        "multiclass": args.multiclass,
        "C": args.C,
        "fit_intercept": not args.no_intercept,
        "intercept_scaling": args.intercept_scaling,
        "class_weight": class_weight,
        "tol": args.tol,
        "status": result.status.value,
        "certificate": result.certificate._asdict(),
        "normalize": args.normalize,
        "float32": args.float32,
        "data": data_info,
    }
    model = linear_model(result.point.weights, problem.bias, classes, info)
    if scales is not None:
        # Folded in, so that the model takes raw columns; kept, so that `certify` finds the problem that was solved.
        model = LinearModel(classes, model.coef / scales, model.intercept, {**info, "column_scales": scales})
    saved, trouble = _save(args, model, result.trace)
    accuracy = _accuracy(args, model, dataset)
    _report(args, dataset, model, result, accuracy, saved, prepare_seconds)
    if trouble is not None:
        raise trouble
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return 0 if result.status is Status.CONVERGED else NOT_CERTIFIED


def _check_outputs(args: Namespace) -> None:
    outputs = [path for path in (args.output, args.checkpoint, args.trace) if path is not None]
    for path in outputs:
        check_writable(path)
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise IncompatibleError("-o, --checkpoint and --trace name the same file. Give each its own.")


def _check_test_rows(args: Namespace, dataset: Dataset, classes: Array) -> None:
    """Refuse test rows that no model of this training part could label before training, not after."""
    if dataset.X_test is None or dataset.y_test is None:
        return
    k = 1 if len(classes) == 2 else len(classes)
    blank = LinearModel(classes, np.zeros((k, dataset.X.shape[1])), np.zeros(k))
    source = _test_name(args, dataset)
    rows.check_labels_match(blank, dataset.y_test, source)
    rows.check_lengths(blank.fit_columns(dataset.X_test), source)


def _test_name(args: Namespace, dataset: Dataset) -> str:
    return f"{dataset.name} (test rows)" if args.test is None else str(args.test)


def _check_format(args: Namespace, classes: Array) -> None:
    """Refuse what a LIBLINEAR file cannot hold before training, not after."""
    if args.output is None or args.format != "liblinear":
        return
    if args.normalize == "rows" and not args.no_intercept:
        raise IncompatibleError(
            "a LIBLINEAR file cannot say that rows are to be normalised, and the intercept depends on it. "
            "Add --no-intercept, or leave out --format or --normalize rows."
        )
    k = 1 if len(classes) == 2 else len(classes)
    write_liblinear(LinearModel(classes, np.zeros((k, 1)), np.zeros(k)), os.devnull)


def _load(args: Namespace) -> tuple[Dataset, dict[str, Any]]:
    """Return training and test rows, and what the model shall remember of them."""
    dataset = rows.load_rows(args.data, args.data_dir)
    test_size = None
    if args.test is not None:
        other = rows.load_rows(args.test, args.data_dir)
        has_test = other.X_test is not None
        test = (other.X_test, other.y_test) if has_test else (other.X, other.y)
        dataset = dataset._replace(X_test=test[0], y_test=test[1])
    elif dataset.X_test is None and args.test_size:
        dataset = rows.hold_out(dataset, rows.HeldOut(args.test_size, args.seed))
        test_size = args.test_size
    info = {
        "name": dataset.name,
        "rows": int(dataset.X.shape[0]),
        "features": int(dataset.X.shape[1]),
        "test_size": test_size,
        "seed": args.seed,
    }
    return dataset, info


def _prepared(X: Any, args: Namespace, source: str) -> tuple[Any, Array | None]:
    """Return X as it is trained on, and the column scales if there are any."""
    scales = None
    if args.normalize == "rows":
        X = rows.unit_rows(X, source)
    elif args.normalize == "maxabs":
        scales = rows.column_scales(X)
        X = rows.scaled_columns(X, scales)
    if args.float32 and X.dtype != np.float32:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
        values = X if isinstance(X, np.ndarray) else X.data
        if not np.isfinite(values).all():
            raise DataError(f"{source}: X holds values too large for --float32. Leave it out, or --normalize maxabs.")
    rows.check_lengths(X, source)
    return X, scales


def _fit(args: Namespace, problem: MulticlassSVM, solver: Any, resume: Any) -> tuple[Result, float]:
    """Solve; return the result and the seconds it took to get the compiled loops ready."""
    watchers: list[Any] = []
    if args.checkpoint is not None:
        every = args.checkpoint_every
        watchers.append(Checkpoint(args.checkpoint, every=every, report=lambda text: note(args, text)))
    stop = Stop(args.tol, args.max_iter, math.inf if args.max_seconds is None else args.max_seconds)
    console = None
    if wants_progress(args):
        from rich.console import Console

        from softmargin.run.watchers import ProgressBar

        console = Console(stderr=True)
        watchers.append(ProgressBar(console))
    started = time.perf_counter()
    with console.status("getting the compiled loops ready") if console else nullcontext():
        _get_ready(problem, solver)
    prepare_seconds = time.perf_counter() - started
    try:
        # Overflow ends in the status FAILED, which says what to do.
        with np.errstate(over="ignore", invalid="ignore"):
            result = fit_linear_svm(problem, solver=solver, stop=stop, seed=args.seed, watchers=watchers, resume=resume)
    finally:
        if console is not None:
            console.show_cursor(True)
    return result, prepare_seconds


def _get_ready(problem: MulticlassSVM, solver: Any) -> None:
    """Compile the loops, or load them from the cache, on one row: the clock and budget of the fit shall not pay."""
    X = problem.X[:1]
    if not isinstance(X, np.ndarray) and X.indices.dtype != problem.X.indices.dtype:
        return  # SciPy narrowed the indices: these loops would not be the ones needed
    one = MulticlassSVM(
        X, problem.y[:1], C=1.0, multiclass=problem.multiclass, n_classes=problem.n_classes, bias=problem.bias
    )
    solver.step(one, solver.start(one, None, np.random.default_rng(0)))


def _save(args: Namespace, model: LinearModel, trace: Trace) -> tuple[str | None, SoftmarginError | None]:
    """Write model and trace; where that fails, rescue the model and return the trouble."""
    trouble = None
    saved = None
    if args.output is not None:
        try:
            _write_model(args, model, args.output)
            saved = args.output
        except SoftmarginError as problem:
            rescue = os.path.join(tempfile.gettempdir(), f"softmargin-{os.getpid()}.model")
            try:
                _write_model(args, model, rescue)
                saved = rescue
                trouble = type(problem)(f"{problem} The model was saved as {rescue!r} instead.")
            except SoftmarginError:
                trouble = problem
    if args.trace is not None:
        try:
            _write_trace(args.trace, trace)
        except SoftmarginError as problem:
            trouble = trouble or problem
    return saved, trouble


def _write_model(args: Namespace, model: LinearModel, path: str) -> None:
    if args.format == "liblinear":
        write_liblinear(model, path)
    else:
        model.save(path)


def _write_trace(path: str, trace: Trace) -> None:
    columns = {
        name: [value if math.isfinite(value) else None for value in values] for name, values in trace.columns().items()
    }
    if path.endswith(".jsonl"):
        lines = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    else:
        lines = [columns]
    with atomic_write(path) as file:
        file.writelines(json.dumps(line, allow_nan=False).encode() + b"\n" for line in lines)


def _accuracy(args: Namespace, model: LinearModel, dataset: Dataset) -> _Accuracy:
    """Measure the model as it is saved, on the raw rows."""
    train, _ = rows.accuracy(model, dataset.X, dataset.y, dataset.name)
    if dataset.X_test is None or dataset.y_test is None:
        return _Accuracy(train, None)
    test, unknown = rows.accuracy(model, dataset.X_test, dataset.y_test, _test_name(args, dataset))
    if unknown:
        note(args, f"{unknown} test rows carry labels that training never saw; they count as errors.")
    return _Accuracy(train, test)


def _report(
    args: Namespace,
    dataset: Dataset,
    model: LinearModel,
    result: Result,
    accuracy: _Accuracy,
    saved: str | None,
    prepare_seconds: float,
) -> None:
    n, d = dataset.X.shape
    n_test = 0 if dataset.y_test is None else len(dataset.y_test)
    n_support = int(result.point.alpha.any(axis=1).sum())
    if args.json:
        print_json(
            {
                "data": dataset.name,
                "rows": n,
                "features": d,
                "classes": len(model.classes),
                "test_rows": n_test,
                "model": args.model,
                "multiclass": args.multiclass,
                "C": args.C,
                "class_weight": model.info["class_weight"],
                "fit_intercept": not args.no_intercept,
                "intercept_scaling": args.intercept_scaling,
                "normalize": args.normalize,
                "solver": args.solver,
                "seed": args.seed,
                "tol": args.tol,
                "status": result.status.value,
                "n_iter": result.n_iter,
                "seconds": result.seconds,
                "judge_seconds": result.judge_seconds,
                "prepare_seconds": prepare_seconds,
                "certificate": result.certificate._asdict(),
                "support_vectors": n_support,
                "train_accuracy": accuracy.train,
                "accuracy": accuracy.test,
                "model_file": saved,
            }
        )
        return
    certificate = result.certificate
    sign = "<=" if certificate.meets(args.tol) else ">"
    test = "not measured: no rows were held out" if accuracy.test is None else f"{accuracy.test:.4f} ({n_test} rows)"
    fields = [
        ("data", f"{dataset.name}: {n} rows, {d} features, {len(model.classes)} classes"),
        ("problem", problem_name(args.multiclass, args.C)),
        ("status", status_line(result.status)),
        ("passes", str(result.n_iter)),
        ("seconds", f"{result.seconds:.3g} (and {result.judge_seconds:.2g} for certificates)"),
        ("primal", f"{certificate.primal:.10g}"),
        ("bound", f"{certificate.bound:.10g}"),
        ("relative gap", f"{certificate.residual:.2e} {sign} tol {args.tol:g}"),
        ("support vectors", f"{n_support} of {n} rows"),
        ("train accuracy", f"{accuracy.train:.4f}"),
        ("test accuracy", test),
    ]
    if saved is not None:
        fields.append(("model saved as", saved))
    print_fields(fields)
