"""`softmargin train FILE --stream`: a kernel SVM of a file that need not fit in memory, a chunk of rows at a time.

The file is read twice: once for its labels and columns, so that a damaged line is reported before training, and once to
learn from. Of every chunk a share is held out; a random few of these rows are kept, and measure the model in the end.
"""

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.cli import models, rows, saving
from softmargin.cli.exit_codes import INTERRUPTED
from softmargin.cli.show import print_fields, print_json, problem_name, wants_progress
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data.libsvm import read_libsvm_chunks
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.stream import Stream
from softmargin.estimators.posing.svm import kernel_claim, kernel_of
from softmargin.models import KernelExpansion
from softmargin.run import Status, Trace

__all__ = ["run"]

Array = NDArray[Any]
CHUNK_ROWS = 10_000
HELD_ROWS = 10_000  # held-out rows that are kept to measure the model


class _Scan(NamedTuple):
    """What the first reading finds."""

    n: int
    d: int
    classes: Array


class _Held:
    """A random few of the rows that were held out: those with the smallest of random keys."""

    def __init__(self) -> None:
        self.X: Any = None
        self.y: Array = np.empty(0)
        self.keys: Array = np.empty(0)

    def add(self, X: Any, y: Array, rng: np.random.Generator) -> None:
        """Take some of these rows, in the place of others where there is no room."""
        from scipy.sparse import vstack

        keys = np.concatenate([self.keys, rng.random(len(y))])
        if self.X is not None:
            X, y = vstack([self.X, X], format="csr"), np.concatenate([self.y, y])
        kept = np.sort(np.argsort(keys)[:HELD_ROWS])
        self.X, self.y, self.keys = X[kept], y[kept], keys[kept]


def run(args: Namespace) -> int:
    """Train as asked and return the exit code."""
    if not models.is_kernel(args):
        raise IncompatibleError(f"--stream trains kernel models; {args.model} has none. Add --model kernel-svc.")
    args.multiclass = args.multiclass or "one_vs_rest"
    models.fill_defaults(args)
    _check(args)
    saving.check_outputs(args)
    scan = _scan(args)
    class_weight = rows.class_weights(args.class_weight, scan.classes)
    began = time.perf_counter()
    stream, held, certificate, status = _learn(args, scan, class_weight)
    seconds = time.perf_counter() - began
    data = {"name": str(args.data), "rows": stream.n_seen, "features": scan.d, "test_size": None}
    info = models.train_info(args, class_weight, status, certificate, data)
    model = stream.model(scan.classes, {**info, **kernel_claim(stream.kernel)})
    saved, trouble = saving.save(args, model, Trace())
    X_test, y_test = _test_rows(args, held)
    accuracy = None if X_test is None else rows.measured(model, X_test, y_test, str(args.test or args.data)).accuracy
    _report(args, _Streamed(scan, stream, model, certificate, status, seconds, accuracy, len(y_test), saved))
    if trouble is not None:
        raise trouble
    return INTERRUPTED if status is Status.INTERRUPTED else 0


def _test_rows(args: Namespace, held: _Held) -> tuple[Any, Any]:
    if args.test is None:
        return held.X, held.y
    other = rows.load_rows(args.test, args.data_dir)
    return (other.X, other.y) if other.X_test is None else (other.X_test, other.y_test)


def _check(args: Namespace) -> None:
    """Refuse what a stream cannot do."""
    for name in ("checkpoint", "resume", "trace"):
        if getattr(args, name) is not None:
            raise IncompatibleError(
                f"--{name} needs a run with certificates that can be resumed; leave it out of --stream."
            )
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


def _scan(args: Namespace) -> _Scan:
    n, d, classes = 0, 0, np.empty(0, dtype=np.int64)
    for X, y in _chunks(args):
        n, d, classes = n + len(y), X.shape[1], np.union1d(classes, y)
    if len(classes) < 2:
        raise DataError(f"{args.data}: {n} rows have 1 class ({classes[0]!s}); a classifier needs at least 2.")
    return _Scan(n, d, classes)


def _learn(args: Namespace, scan: _Scan, class_weight: Any) -> tuple[Stream, _Held, Any, Status]:
    """Read the file again, and learn from every chunk what is not held out."""
    rng, held, stream = np.random.default_rng(args.seed), _Held(), None
    certificate, status = None, Status.MAX_ITER
    bias = models.svm_settings(args).bias
    try:
        with _progress(args, scan.n) as advance:
            for X, y in _chunks(args, scan.d):
                is_held = rng.random(len(y)) < (0.0 if args.test is not None else args.test_size)
                if is_held.any():
                    held.add(X[is_held], y[is_held], rng)
                X, y, n = X[~is_held], y[~is_held], len(y)
                if len(y):
                    X = rows.unit_rows(X, str(args.data)) if args.normalize == "rows" else X
                    rows.check_lengths(X, str(args.data))
                    if stream is None:
                        kernel = kernel_of(args.kernel, args.gamma, args.degree, args.coef0, X)
                        stream = Stream(kernel, len(scan.classes), bias)
                    codes = np.searchsorted(scan.classes, y)
                    prices = loss_prices(codes, scan.classes, args.C, class_weight)
                    certificate, status = stream.take(
                        X, codes, prices, budget=args.n_components, tol=args.tol, seed=args.seed
                    )
                advance(n, certificate)
    except KeyboardInterrupt:
        if certificate is None:
            raise
        status = Status.INTERRUPTED
    if stream is None or certificate is None:
        raise DataError(f"{args.data}: all {scan.n} rows were held out. Give a smaller --test-size.")
    return stream, held, certificate, status


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


class _Streamed(NamedTuple):
    """What is left of the run."""

    scan: _Scan
    stream: Stream
    model: KernelExpansion
    certificate: Certificate
    status: Status
    seconds: float
    accuracy: float | None
    n_test: int
    saved: str | None


def _report(args: Namespace, outcome: _Streamed) -> None:
    scan, stream, model, certificate = outcome.scan, outcome.stream, outcome.model, outcome.certificate
    n_classes, n_support = len(scan.classes), len(model.support)
    if args.json:
        print_json(
            {
                "data": str(args.data),
                "rows": stream.n_seen,
                "features": scan.d,
                "classes": n_classes,
                "test_rows": outcome.n_test,
                "model": args.model,
                **kernel_claim(model.kernel),
                **{name: getattr(args, name) for name in ("multiclass", "loss", "C", "n_components", "seed")},
                "status": outcome.status.value,
                "n_iter": stream.n_steps,
                "seconds": outcome.seconds,
                "certificate": certificate._asdict(),
                "support_vectors": n_support,
                "accuracy": outcome.accuracy,
                "model_file": outcome.saved,
            }
        )
        return
    is_measured = outcome.accuracy is not None
    fields = [
        ("data", f"{args.data}: {stream.n_seen} rows, {scan.d} features, {n_classes} classes, streamed"),
        ("problem", problem_name(model.info)),
        ("steps", str(stream.n_steps)),
        ("seconds", f"{outcome.seconds:.3g}"),
        ("sample gap", f"{certificate.residual:.2e} on the last chunk"),
        ("vectors kept", f"{n_support} of {stream.n_seen} rows"),
        (
            "test accuracy",
            f"{outcome.accuracy:.4f} ({outcome.n_test} rows)" if is_measured else "not measured: no rows were held out",
        ),
    ]
    print_fields(fields if outcome.saved is None else [*fields, ("model saved as", outcome.saved)])
