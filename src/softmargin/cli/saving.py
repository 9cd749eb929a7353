"""What `train` writes: the model, rescued where its folder has gone, and the trace."""

import os
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.cli.show import check_writable, json_line
from softmargin.core.errors import IncompatibleError, SoftmarginError
from softmargin.core.files import atomic_write
from softmargin.data import source_files
from softmargin.models import LinearModel, write_liblinear
from softmargin.run import Trace


def check_outputs(args: Namespace) -> None:
    """Refuse files that cannot be written before training, not after."""
    outputs = [path for path in (args.output, args.checkpoint, args.trace) if path is not None]
    inputs = source_files(args.data, data_dir=args.data_dir)
    inputs += [] if args.test is None else source_files(args.test, data_dir=args.data_dir)
    for path in outputs:
        # A run may go on in the checkpoint that it came from.
        is_resumed = args.resume is not None and path != args.checkpoint
        check_writable(path, [*inputs, Path(args.resume)] if is_resumed else inputs)
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise IncompatibleError("-o, --checkpoint and --trace name the same file. Give each its own.")
    if _is_liblinear(args) and args.probabilities is not None:
        raise IncompatibleError("a LIBLINEAR file has no place for --probabilities. Leave out one of the two.")
    if _is_liblinear(args) and args.model != "linear-svc":
        whys = {"kernel-svc": "is its support vectors", "softmax": "has probabilities, which LIBLINEAR would get wrong"}
        why = whys.get(args.model, "is none")
        raise IncompatibleError(
            f"a LIBLINEAR file holds one weight per column of an SVM; a {args.model} model {why}. "
            "Leave out --format, or train --model linear-svc."
        )


def check_format(args: Namespace, classes: NDArray[np.generic]) -> None:
    """Refuse what a LIBLINEAR file cannot hold before training, not after."""
    if not _is_liblinear(args):
        return
    if args.multiclass == "one_vs_one" and len(classes) > 2:
        raise IncompatibleError(
            "a LIBLINEAR file holds weights for every class, and one_vs_one has some for every pair of classes. "
            "Leave out --format, or add --multiclass one_vs_rest."
        )
    if args.normalize == "rows" and not args.no_intercept:
        raise IncompatibleError(
            "a LIBLINEAR file cannot say that rows are to be normalised, and the intercept depends on it. "
            "Add --no-intercept, or leave out --format or --normalize rows."
        )
    write_liblinear(blank_model(classes, 1), os.devnull)


def blank_model(classes: NDArray[np.generic], n_features: int) -> LinearModel:
    """Return a model of these labels without weights, to ask before training what it could hold or label."""
    k = 1 if len(classes) == 2 else len(classes)
    return LinearModel(classes, np.zeros((k, n_features)), np.zeros(k))


def _is_liblinear(args: Namespace) -> bool:
    return args.output is not None and args.format == "liblinear"


def save(args: Namespace, model: Any, trace: Trace) -> tuple[str | None, SoftmarginError | None]:
    """Write model and trace; where that fails, rescue the model and return the trouble."""
    saved = trouble = None
    if args.output is not None:
        try:
            _write_model(args, model, args.output)
            saved = args.output
        except SoftmarginError as problem:
            saved = _rescued(args, model)
            trouble = (
                problem if saved is None else type(problem)(f"{problem} The model was saved as {saved!r} instead.")
            )
    if args.trace is not None:
        try:
            _write_trace(args.trace, trace)
        except SoftmarginError as problem:
            trouble = trouble or problem
    return saved, trouble


def _rescued(args: Namespace, model: Any) -> str | None:
    """Write the model to a fresh private file in the temporary folder, and return its name; None where that fails."""
    try:
        # A name that could be guessed might be there already, as somebody else's link to another file.
        descriptor, path = tempfile.mkstemp(prefix="softmargin-", suffix=".model")
    except OSError:
        return None
    os.close(descriptor)
    try:
        _write_model(args, model, path)
    except SoftmarginError:
        os.unlink(path)
        return None
    return path


def _write_model(args: Namespace, model: Any, path: str) -> None:
    if isinstance(model, LinearModel) and args.format == "liblinear":
        write_liblinear(model, path)
    else:
        model.save(path)


def _write_trace(path: str, trace: Trace) -> None:
    columns = trace.columns()
    lines: list[dict[str, Any]] = [columns]
    if path.endswith(".jsonl"):
        lines = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    with atomic_write(path) as file:
        file.writelines(json_line(line).encode() for line in lines)
