"""`softmargin train 'part-*.libsvm.gz' --dask WHERE`: a model of files that no machine need hold, by Dask's workers.

WHERE is the address of a scheduler, ``local`` for a process on each core here, or ``threads`` of this process. The
files are read by ``data.read_dask``, a partition at a time; every pass sums over the partitions, and the certificate is
that of all rows.
"""

import os
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import softmargin as sm
from softmargin.cli import models, rows, saving
from softmargin.cli.choices import REGRESSORS
from softmargin.cli.estimators import ESTIMATORS, settings
from softmargin.cli.exit_codes import INTERRUPTED, NOT_CERTIFIED
from softmargin.cli.outcome import accuracy_line, score_name
from softmargin.cli.show import print_json, print_table, problem_name, status_line, wants_progress
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import read_dask
from softmargin.data.table import STDIN
from softmargin.run import Status
from softmargin.run.watchers import Checkpoint

_PATIENCE = "10s"  # for a scheduler's first answer


def run(args: Namespace) -> int:
    """Train as asked and return the exit code."""
    models.fill_defaults(args)
    _check(args)
    saving.check_outputs(args)
    with _workers(args.dask) as where:
        X, y = read_dask(args.data, labels=args.label)
        labels = _labels(y) if isinstance(args.class_weight, dict) else np.empty(0)
        how = {"radius": args.radius} if "ball" in args.model else {"C": args.C}
        estimator = ESTIMATORS[args.model][0](**settings(args, labels), **how, verbose=int(wants_progress(args)))
        began = time.perf_counter()
        _fit(args, estimator, X, y)
        seconds = time.perf_counter() - began
        score = _score(args, estimator, X, y)
    model = estimator.model()
    parts = int(getattr(X, "npartitions", 1))
    data = {"name": os.fspath(args.data), "rows": estimator._n_samples, "features": estimator.n_features_in_}
    model.info.update(normalize="none", float32=False, data={**data, "test_size": None, "seed": args.seed})
    saved, trouble = saving.save(args, model, estimator.trace_)
    test = which = None
    if args.test is not None:
        measured = rows.measured_numbers if args.model in REGRESSORS else rows.measured
        X, y, which = rows.load_test_rows(args, is_number=args.model in REGRESSORS)
        test = measured(model, X, y, str(args.test))
    found = {
        "data": data["name"],
        "partitions": parts,
        "workers": where,
        "rows": data["rows"],
        "features": data["features"],
        **({} if args.model in REGRESSORS else {"classes": len(estimator.classes_)}),
        "model": args.model,
        **how,
        "tol": args.tol,
        "status": estimator.status_,
        "n_iter": estimator.n_iter_,
        "seconds": seconds,
        "certificate": estimator.certificate_._asdict(),
        f"train_{score_name(args)}": score,
        score_name(args): None if test is None else test.accuracy,
        "tested_on": which,
        "model_file": saved,
    }
    _report(args, found, model, test)
    if trouble is not None:
        raise trouble
    status = Status(estimator.status_)
    if status is Status.INTERRUPTED:
        return INTERRUPTED
    return 0 if status is Status.CONVERGED else NOT_CERTIFIED


def _check(args: Namespace) -> None:
    """Refuse what a sum over partitions cannot do."""
    if args.data == STDIN:
        raise IncompatibleError("--dask reads files, which the workers open by their names; stdin has none.")
    if args.stream:
        raise IncompatibleError("--stream and --dask were asked for. Leave out one of the two.")
    names = ("cv", "search", "probabilities", "holdout", "float32", "pinned", "decay")
    asked = next((f"--{name}" for name in names if getattr(args, name, None)), None)
    if asked is None and args.normalize != "none":
        asked = f"--normalize {args.normalize}"
    if asked is None and args.multiclass == "one_vs_one":
        asked = "--multiclass one_vs_one"
    if asked is not None:
        raise IncompatibleError(
            f"{asked} needs all rows here; --dask leaves them in partitions. Leave out one of the two."
        )
    if args.resume not in (None, args.checkpoint):
        raise IncompatibleError(
            "with --dask, a run goes on from its --checkpoint where there is one; leave out --resume."
        )


@contextmanager
def _workers(where: str) -> Iterator[str]:
    """Let Dask's tasks run where they were asked to; yield that place in words."""
    try:
        import dask
    except ImportError as problem:
        raise IncompatibleError("--dask needs Dask: pip install 'softmargin[dask]'.") from problem
    if where == "threads":
        with dask.config.set(scheduler="threads"):
            yield "threads of this process"
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as problem:
        raise IncompatibleError(
            "workers need Dask's scheduler: pip install 'softmargin[dask]', or give --dask threads."
        ) from problem
    if where == "local":
        n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        how = {"n_workers": n, "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(**how) as cluster, Client(cluster):
            yield f"{n} processes of this machine"
        return
    try:
        client = Client(where, timeout=_PATIENCE)
    except (OSError, ValueError) as problem:
        raise DataError(
            f"--dask {where}: no scheduler answers there within {_PATIENCE} ({problem}). Give the address that "
            "`dask scheduler` prints, tcp://HOST:PORT, or local, or threads."
        ) from problem
    with client:
        yield f"{len(client.scheduler_info(n_workers=-1)['workers'])} workers of {where}"


def _labels(y: Any) -> Any:
    """Return the different labels: one pass."""
    import dask

    parts = np.ravel(y.to_delayed())
    return np.unique(np.concatenate(dask.compute(*[dask.delayed(np.unique)(part) for part in parts])))


def _fit(args: Namespace, estimator: Any, X: Any, y: Any) -> None:
    """Fit; a run that is interrupted keeps its point, where it has one."""
    checkpoint = None if args.checkpoint is None else Checkpoint(args.checkpoint, every=args.checkpoint_every)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sm.NotCertifiedWarning)  # the status says it
            estimator.fit(X, y, checkpoint=checkpoint)
    except KeyboardInterrupt:
        if not hasattr(estimator, "trace_"):
            raise


def _score(args: Namespace, estimator: Any, X: Any, y: Any) -> float | None:
    """Return the accuracy, or R^2, on the rows trained on: one pass; None of a run that was interrupted."""
    if estimator.status_ == Status.INTERRUPTED.value:
        return None
    target = y.to_dask_array() if hasattr(y, "to_dask_array") else y
    predicted = estimator.predict(X)
    if args.model not in REGRESSORS:
        return float((predicted == target).mean().compute())
    import dask

    error, spread = dask.compute(((predicted - target) ** 2).mean(), target.var())
    return 1.0 - float(error) / float(spread) if spread > 0.0 else 0.0


def _report(args: Namespace, found: dict[str, Any], model: Any, test: rows.Measured | None) -> None:
    if args.json:
        print_json(found)
        return
    certificate, score = found["certificate"], found[f"train_{score_name(args)}"]
    sign = "<=" if certificate["residual"] <= args.tol else ">"
    what = f"{found['rows']} rows of {found['data']} in {found['partitions']} partitions, {found['features']} features"
    classes = f", {found['classes']} classes" if "classes" in found else ""
    fields = [
        ("trained on", what + classes),
        ("workers", found["workers"]),
        ("problem", problem_name(model.info)),
        ("status", status_line(Status(found["status"]))),
        ("passes", str(found["n_iter"])),
        ("seconds", f"{found['seconds']:.3g}"),
        ("primal", f"{certificate['primal']:.10g}"),
        ("bound", f"{certificate['bound']:.10g}"),
        ("relative gap", f"{certificate['residual']:.2e} {sign} tol {args.tol:g}, of the objective on all rows"),
        *([] if score is None else [(f"train {score_name(args)}", f"{score:.4f} on the {found['rows']} rows")]),
        *([] if test is None else [(f"test {score_name(args)}", accuracy_line(test, found["tested_on"]))]),
    ]
    print_table((), fields if found["model_file"] is None else [*fields, ("model saved as", found["model_file"])])
