"""`softmargin train FILE --stream`: a model of a file that need not fit in memory, a chunk of rows at a time.

The file is read twice: once for its labels and columns, so that a damaged line is reported before training, and once to
learn from. A linear model is then certified in a third pass: its losses on all training rows, less the bound that its
stream has kept. Of every chunk a share is held out; a random few of these rows are kept, and measure the model in the
end.
"""

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from softmargin.cli import models, rows, saving
from softmargin.cli.exit_codes import INTERRUPTED
from softmargin.cli.outcome import accuracy_line
from softmargin.cli.show import print_json, print_table, problem_name, wants_progress
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import Rounded
from softmargin.data.libsvm import read_libsvm_chunks
from softmargin.data.table import STDIN, is_table
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.kernels import kernel_claim, kernel_of
from softmargin.estimators.posing.linear_stream import LinearStream
from softmargin.estimators.posing.scs_stream import stream_of
from softmargin.estimators.posing.stream import KernelStream
from softmargin.features.scaling import Scaling, check_lengths
from softmargin.models import KernelExpansion, LinearModel
from softmargin.run import Result, Status, Trace

Array = NDArray[Any]
CHUNK_ROWS = 10_000
HELD_ROWS = 10_000  # held-out rows that are kept to measure the model
MODELS = ("linear-svc", "softmax", "kernel-svc")
KERNEL_SOLVERS = ("auto", "pegasos", "scs")


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


class _File(NamedTuple):
    """What the first pass found, and how rows count."""

    args: Namespace
    n: int
    d: int
    classes: Array
    class_weight: Any

    def parts(self) -> Iterator[tuple[Any, Array, Any, Array]]:
        """Yield X, y of the training rows of each chunk, as they are trained on, and of the held-out ones, raw."""
        args = self.args
        mask = rows.StreamMask(args.holdout, args.seed)
        for X, y in _chunks(args, self.d):
            is_held = mask.following(len(y))
            own = X[~is_held]
            own = Scaling(args.normalize).apply(own, str(args.data))
            check_lengths(own, str(args.data))
            yield own, y[~is_held], X[is_held], y[is_held]

    def prices(self, codes: Array) -> Array:
        """Return the price of every row."""
        return loss_prices(codes, self.classes, self.args.C, self.class_weight)

    def problem(self, X: Any, y: Array) -> Any:
        """Return the problem of a linear model on some rows."""
        codes = np.searchsorted(self.classes, y)
        return models.build_problem(self.args, X, codes, self.classes, self.class_weight)[0]


class _Kernel:
    """A kernel model that learns."""

    stream: KernelStream | None = None
    problem: Any = None  # there is none apart from the stream

    def take(self, file: _File, X: Any, y: Array) -> tuple[Certificate, Status]:
        """Learn from a chunk."""
        args, codes = file.args, np.searchsorted(file.classes, y)
        if self.stream is None:
            kernel = kernel_of(args.kernel, args.gamma, args.degree, args.coef0, X)
            self.stream = stream_of(args.solver, kernel, len(file.classes), models.svm_settings(args).bias)
        how = {"budget": args.n_components, "tol": args.tol, "seed": args.seed}
        return self.stream.take(X, codes, file.prices(codes), **how)

    def certified(self, file: _File, certificate: Certificate) -> Certificate:
        """Return what the last chunk proved: rows that a kernel model has seen are not looked at again."""
        return certificate

    def model(self, file: _File, info: dict[str, Any]) -> KernelExpansion:
        """Return the model."""
        assert self.stream is not None
        return self.stream.model(file.classes, {**info, **kernel_claim(self.stream.kernel)})


class _Linear:
    """A linear model that learns."""

    stream: LinearStream | None = None
    problem: Any = None  # of the last chunk

    def take(self, file: _File, X: Any, y: Array) -> tuple[Certificate, Status]:
        """Learn from a chunk."""
        self.stream = self.stream or LinearStream()
        self.problem = file.problem(X, y)
        return self.stream.take(self.problem, tol=file.args.tol, seed=file.args.seed)

    def certified(self, file: _File, certificate: Certificate) -> Certificate:
        """Read the file once more, for the losses of the model on all rows that it has seen."""
        assert self.stream is not None
        losses = Rounded(0.0)
        for X, y, _, _ in file.parts():
            losses += self.stream.losses_of(file.problem(X, y)) if len(y) else Rounded(0.0)
        return self.stream.certificate_of(losses)

    def model(self, file: _File, info: dict[str, Any]) -> LinearModel:
        """Return the model."""
        assert self.stream is not None
        return LinearModel(file.classes, self.stream.coef, self.stream.intercept, info)


def run(args: Namespace) -> int:
    """Train as asked and return the exit code."""
    is_kernel = args.model == "kernel-svc"
    if args.model not in MODELS:
        raise IncompatibleError(f"--stream trains {', '.join(MODELS)}; {args.model} needs all rows. Leave it out.")
    if is_kernel:
        args.multiclass = args.multiclass or "one_vs_rest"
    models.fill_defaults(args)
    _check(args, is_kernel=is_kernel)
    saving.check_outputs(args)
    n, d, classes = _scan(args)
    saving.check_format(args, classes)
    file = _File(args, n, d, classes, rows.class_weights(args.class_weight, classes))
    learner = _Kernel() if is_kernel else _Linear()
    held, result = _learn(file, learner)
    name, size = Path(args.data).name, args.holdout or None
    data = {"name": name, "rows": _seen(learner), "features": d, "test_size": size, "seed": args.seed}
    data["is_streamed"] = True
    info = models.train_info(args, file.class_weight, result.status, result.certificate, data, learner.problem)
    model = learner.model(file, info)
    saved, trouble = saving.save(args, model, result.trace)
    which = f"{len(held.y)} rows of {name} of those held out ({100 * args.holdout:g}%, seed {args.seed})"
    X, y, which = (held.X, held.y, which) if args.test is None else rows.load_test_rows(args)
    test = None if X is None else rows.measured(model, X, y, str(args.test or args.data))
    tested_on = None if test is None else which
    _report(args, learner, model, result, test, tested_on, saved)
    if trouble is not None:
        raise trouble
    return INTERRUPTED if result.status is Status.INTERRUPTED else 0


def _seen(learner: _Kernel | _Linear) -> int:
    assert learner.stream is not None
    return learner.stream.n_seen


def _check(args: Namespace, *, is_kernel: bool) -> None:
    """Refuse what a stream cannot do."""
    if args.data == STDIN or is_table(args.data):
        raise IncompatibleError(f"--stream reads LIBSVM files, more than once; {args.data!r} is none. Leave it out.")
    for name in ("checkpoint", "resume", "trace"):
        if getattr(args, name) is not None:
            why = "needs a run with certificates that can be resumed"
            raise IncompatibleError(f"--{name} {why}; leave it out of --stream.")
    names = ("cv", "search", "free_intercept", "probabilities")
    asked = next((f"--{name.replace('_', '-')}" for name in names if getattr(args, name)), None)
    if asked is not None:
        raise IncompatibleError(f"{asked} needs all rows at once; --stream sees a chunk. Leave one of them out.")
    if is_kernel and args.multiclass != "one_vs_rest":
        raise IncompatibleError(
            f"--stream trains one class against the others; found --multiclass {args.multiclass}. Leave it out."
        )
    allowed = KERNEL_SOLVERS if is_kernel else ("auto",)
    if args.loss == "squared_hinge" or args.solver not in allowed:
        raise IncompatibleError(
            f"--stream learns from the hinge{'' if is_kernel else ' or the softmax'}, by --solver "
            f"{' or '.join(allowed)}; found --loss {args.loss}, --solver {args.solver}. Leave both out."
        )
    if args.normalize not in ("none", "rows") or args.class_weight == "balanced":
        asked = "--class-weight balanced" if args.normalize in ("none", "rows") else f"--normalize {args.normalize}"
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
    n, d, classes = 0, 0, None
    for X, y in _chunks(args):
        n, d, classes = n + len(y), X.shape[1], np.unique(y) if classes is None else np.union1d(classes, y)
    assert classes is not None  # a file without rows is refused
    if len(classes) < 2:
        raise DataError(f"{args.data}: {n} rows have 1 class ({classes[0]!s}); a classifier needs at least 2.")
    return n, d, classes


def _learn(file: _File, learner: _Kernel | _Linear) -> tuple[_Held, Result]:
    """Read the file again, and learn from every chunk what is not held out."""
    began, args = time.perf_counter(), file.args
    rng, held = np.random.default_rng([args.seed, 1]), _Held()
    certificate, status = None, Status.MAX_ITER
    try:
        with _progress(args, file.n) as advance:
            for X, y, X_held, y_held in file.parts():
                if len(y_held):
                    held.add(X_held, y_held, rng)
                if len(y):
                    certificate, status = learner.take(file, X, y)
                advance(len(y) + len(y_held), certificate)
        if certificate is not None:
            certificate = learner.certified(file, certificate)
            status = Status.CONVERGED if certificate.meets(args.tol) else Status.MAX_ITER
    except KeyboardInterrupt:
        if certificate is None:
            raise
        status = Status.INTERRUPTED
    if certificate is None:
        raise DataError(f"{args.data}: all {file.n} rows were held out. Give a smaller --holdout.")
    return held, Result(None, certificate, status, Trace(), _seen(learner), time.perf_counter() - began, 0.0)


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
            task, advance=n, gap="" if certificate is None else f"{certificate.kind} {certificate.residual:.1e}"
        )


def _report(
    args: Namespace,
    learner: Any,
    model: Any,
    result: Result,
    test: rows.Measured | None,
    tested_on: str | None,
    saved: Any,
) -> None:
    d, n_classes, n_seen, certificate = model.n_features, len(model.classes), _seen(learner), result.certificate
    is_kernel = isinstance(model, KernelExpansion)
    names = ("l1_ratio", "C", "seed") if args.model == "softmax" else ("multiclass", "loss", "C", "seed")
    if args.json:
        kernel = {**kernel_claim(model.kernel), "n_components": args.n_components} if is_kernel else {}
        print_json(
            {
                "data": str(args.data),
                "tested_on": tested_on,
                "rows": n_seen,
                "features": d,
                "classes": n_classes,
                "test_rows": 0 if test is None else test.n,
                "model": args.model,
                **kernel,
                **{name: getattr(args, name) for name in names},
                "status": result.status.value,
                "n_iter": result.n_iter,
                "seconds": result.seconds,
                "certificate": certificate._asdict(),
                **({"support_vectors": len(model.support)} if is_kernel else {}),
                "accuracy": None if test is None else test.accuracy,
                "model_file": saved,
            }
        )
        return
    where = "on rows of the last chunk, or of the sample" if is_kernel else f"on all {n_seen} training rows"
    fields = [
        ("trained on", f"{n_seen} rows of {args.data}, streamed, {d} features, {n_classes} classes"),
        ("problem", problem_name(model.info)),
        ("seconds", f"{result.seconds:.3g}"),
        (certificate.kind, f"{certificate.residual:.2e} {where}"),
        *([("vectors kept", f"{len(model.support)} of {n_seen} rows")] if is_kernel else []),
        ("test accuracy", accuracy_line(test, tested_on)),
    ]
    print_table((), fields if saved is None else [*fields, ("model saved as", saved)])
