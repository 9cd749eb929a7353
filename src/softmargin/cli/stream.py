"""`softmargin train FILE --stream`: a kernel SVM of a file that need not fit in memory, a chunk of rows at a time.

The file is read twice: once for its labels and columns, so that a damaged line is reported before training, and once to
learn from. Of every chunk a share is held out; a random few of these rows are kept, and measure the model in the end.
"""

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from softmargin.cli import models, rows, saving
from softmargin.cli.exit_codes import INTERRUPTED
from softmargin.cli.outcome import accuracy_line
from softmargin.cli.show import print_json, print_table, problem_name, wants_progress
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data.libsvm import read_libsvm_chunks
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.stream import Stream
from softmargin.estimators.posing.svm import kernel_claim, kernel_of
from softmargin.models import KernelExpansion
from softmargin.run import Result, Status, Trace

Array = NDArray[Any]
CHUNK_ROWS = 10_000
HELD_ROWS = 10_000  # held-out rows that are kept to measure the model


class _Held:
    """A random few of the rows that were held out: those with the smallest of random keys."""

    def __init__(self) -> None:
        self.X: Any = None
        self.y: Array = np.empty(0)
        self.keys: Array = np.empty(0)

    def add(self, X: Any, y: Array, rng: np.random.Generator) -> None:
        """Take some of these rows, in the place of others where there is no room."""
        keys = np.concatenate([self.keys, rng.random(len(y))])
        if self.X is not None:
            X, y = vstack([self.X, X], format="csr"), np.concatenate([self.y, y])
        kept = np.sort(np.argsort(keys)[:HELD_ROWS])
        self.X, self.y, self.keys = X[kept], y[kept], keys[kept]


def run(args: Namespace) -> int:
    """Train as asked and return the exit code."""
    if args.model != "kernel-svc":
        raise IncompatibleError(f"--stream trains kernel models; {args.model} has none. Add --model kernel-svc.")
    args.multiclass = args.multiclass or "one_vs_rest"
    models.fill_defaults(args)
    _check(args)
    saving.check_outputs(args)
    n, d, classes = _scan(args)
    class_weight = rows.class_weights(args.class_weight, classes)
    stream, held, result = _learn(args, n, d, classes, class_weight)
    data = {"name": str(args.data), "rows": stream.n_seen, "features": d, "test_size": None}
    info = models.train_info(args, class_weight, result.status, result.certificate, data)
    model = stream.model(classes, {**info, **kernel_claim(stream.kernel)})
    saved, trouble = saving.save(args, model, result.trace)
    X, y = (held.X, held.y) if args.test is None else rows.load_test_rows(args)
    test = None if X is None else rows.measured(model, X, y, str(args.test or args.data))
    _report(args, stream, model, result, test, saved)
    if trouble is not None:
        raise trouble
    return INTERRUPTED if result.status is Status.INTERRUPTED else 0


def _check(args: Namespace) -> None:
    """Refuse what a stream cannot do."""
    for name in ("checkpoint", "resume", "trace"):
        if getattr(args, name) is not None:
            why = "needs a run with certificates that can be resumed"
            raise IncompatibleError(f"--{name} {why}; leave it out of --stream.")
    if args.multiclass != "one_vs_rest":
        raise IncompatibleError(
            f"--stream trains one class against the others; found --multiclass {args.multiclass}. Leave it out."
        )
    if args.loss != "hinge" or args.solver not in ("auto", "pegasos"):
        raise IncompatibleError(
            f"--stream makes Pegasos steps on the hinge; found --loss {args.loss}, --solver "
            f"{args.solver}. Leave both out."
        )
    if args.normalize == "maxabs" or args.class_weight == "balanced":
        asked = "--normalize maxabs" if args.normalize == "maxabs" else "--class-weight balanced"
        raise IncompatibleError(f"{asked} looks at all rows at once; --stream sees a chunk. Leave one of them out.")


def _chunks(args: Namespace, d: int | None = None) -> Iterator[tuple[Any, Array]]:
    dtype = np.float32 if args.float32 else np.float64
    for X, y in read_libsvm_chunks(args.data, n_rows=CHUNK_ROWS, n_features=d, dtype=dtype):
        if y.dtype.kind == "f":
            row = int(np.argmax(np.floor(y) != y))
            raise DataError(f"{args.data}: a label is {y[row]}, which names no class. Give whole numbers.")
        yield X, y


def _scan(args: Namespace) -> tuple[int, int, Array]:
    """Return the numbers of rows and columns, and the labels."""
    n, d, classes = 0, 0, np.empty(0, dtype=np.int64)
    for X, y in _chunks(args):
        n, d, classes = n + len(y), X.shape[1], np.union1d(classes, y)
    if len(classes) < 2:
        raise DataError(f"{args.data}: {n} rows have 1 class ({classes[0]!s}); a classifier needs at least 2.")
    return n, d, classes


def _learn(args: Namespace, n_rows: int, d: int, classes: Array, class_weight: Any) -> tuple[Stream, _Held, Result]:
    """Read the file again, and learn from every chunk what is not held out."""
    began = time.perf_counter()
    rng, held, stream = np.random.default_rng(args.seed), _Held(), None
    certificate, status = None, Status.MAX_ITER
    bias = models.svm_settings(args).bias
    try:
        with _progress(args, n_rows) as advance:
            for X, y in _chunks(args, d):
                is_held = rng.random(len(y)) < (0.0 if args.test is not None else args.test_size)
                if is_held.any():
                    held.add(X[is_held], y[is_held], rng)
                X, y, n = X[~is_held], y[~is_held], len(y)
                if len(y):
                    X = rows.unit_rows(X, str(args.data)) if args.normalize == "rows" else X
                    rows.check_lengths(X, str(args.data))
                    if stream is None:
                        kernel = kernel_of(args.kernel, args.gamma, args.degree, args.coef0, X)
                        stream = Stream(kernel, len(classes), bias)
                    codes = np.searchsorted(classes, y)
                    prices = loss_prices(codes, classes, args.C, class_weight)
                    certificate, status = stream.take(
                        X, codes, prices, budget=args.n_components, tol=args.tol, seed=args.seed
                    )
                advance(n, certificate)
    except KeyboardInterrupt:
        if certificate is None:
            raise
        status = Status.INTERRUPTED
    if stream is None or certificate is None:
        raise DataError(f"{args.data}: all {n_rows} rows were held out. Give a smaller --test-size.")
    seconds = time.perf_counter() - began
    return stream, held, Result(None, certificate, status, Trace(), stream.n_steps, seconds, 0.0)


@contextmanager
def _progress(args: Namespace, total: int) -> Iterator[Any]:
    """Yield a function that tells how many rows more were read."""
    if not wants_progress(args):
        yield lambda n, certificate: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[gap]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, gap="")
        yield lambda n, certificate: bar.update(
            task, advance=n, gap="" if certificate is None else f"sample gap {certificate.residual:.1e}"
        )


def _report(
    args: Namespace, stream: Stream, model: KernelExpansion, result: Result, test: rows.Measured | None, saved: Any
) -> None:
    d, n_classes, n_support = model.n_features, len(model.classes), len(model.support)
    if args.json:
        print_json(
            {
                "data": str(args.data),
                "rows": stream.n_seen,
                "features": d,
                "classes": n_classes,
                "test_rows": 0 if test is None else test.n,
                "model": args.model,
                **kernel_claim(model.kernel),
                **{name: getattr(args, name) for name in ("multiclass", "loss", "C", "n_components", "seed")},
                "status": result.status.value,
                "n_iter": result.n_iter,
                "seconds": result.seconds,
                "certificate": result.certificate._asdict(),
                "support_vectors": n_support,
                "accuracy": None if test is None else test.accuracy,
                "model_file": saved,
            }
        )
        return
    fields = [
        ("data", f"{args.data}: {stream.n_seen} rows, {d} features, {n_classes} classes, streamed"),
        ("problem", problem_name(model.info)),
        ("steps", str(result.n_iter)),
        ("seconds", f"{result.seconds:.3g}"),
        ("sample gap", f"{result.certificate.residual:.2e} on the last chunk"),
        ("vectors kept", f"{n_support} of {stream.n_seen} rows"),
        ("test accuracy", accuracy_line(test)),
    ]
    print_table((), fields if saved is None else [*fields, ("model saved as", saved)])
