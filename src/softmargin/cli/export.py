"""`softmargin export`: a model as a file of another format."""

import os
from argparse import Namespace
from typing import Any

from softmargin.cli import rows
from softmargin.cli.choices import EXPORTS
from softmargin.cli.show import check_writable, note, print_json, print_table
from softmargin.core.errors import IncompatibleError
from softmargin.features.scaling import scaling_of
from softmargin.models import (
    LinearModel,
    LinearOneVsOne,
    LinearRegressor,
    write_json_model,
    write_liblinear,
    write_libsvm_model,
)

_TEXT_FORMATS = {"liblinear": write_liblinear, "libsvm": write_libsvm_model}


def run(args: Namespace) -> int:
    """Read the model, write the other file, and say what it holds."""
    kind = _format(args)
    if args.float32 and kind != "onnx":
        raise IncompatibleError(f"--float32 is an option of onnx; {kind} was asked for. Leave it out.")
    check_writable(args.output, [args.model_file])
    model = rows.read_model(args.model_file)
    if kind == "onnx":
        from softmargin.export import to_onnx

        to_onnx(model, args.output, compute="float32" if args.float32 else "float64")
    elif kind == "json":
        write_json_model(model, args.output)
    else:
        _write_text(args, model, kind)
    if (model.info.get("columns") or {}).get("categories"):
        note(args, f"it takes the {model.n_features} columns of numbers that the table became, not its text.")
    fields = {
        "model_file": args.model_file,
        "output": args.output,
        "format": kind,
        "kind": type(model).__name__,
        "features": model.n_features,
        "classes": None if isinstance(model, LinearRegressor) else len(model.classes),
        "bytes": os.path.getsize(args.output) if os.path.isfile(args.output) else None,
    }
    if args.json:
        print_json(fields)
    elif not args.quiet:
        print_table((), [(name, str(value)) for name, value in fields.items() if value is not None])
    return 0


def _format(args: Namespace) -> str:
    """Return the format that was asked for, or that the suffix of the output names."""
    suffix = os.path.splitext(args.output)[1].removeprefix(".").lower()
    kind = args.format or suffix
    if kind not in EXPORTS:
        known = f"{', '.join(EXPORTS[:-1])} or {EXPORTS[-1]}"
        raise IncompatibleError(f"the suffix of {args.output!r} names no format. Add --format {known}.")
    return str(kind)


def _write_text(args: Namespace, model: Any, kind: str) -> None:
    """Write a file of LIBLINEAR or LIBSVM, whose programs take rows as they are and know labels only."""
    scaling = scaling_of(model)
    # Without an intercept, the length of a row does not change which linear score is the largest.
    is_needless = isinstance(model, LinearModel | LinearOneVsOne) and not model.intercept.any()
    if scaling.how != "none" and not (scaling.how == "rows" and is_needless):
        raise IncompatibleError(
            f"{args.model_file!r} was trained with --normalize {scaling.how}, and a {kind} file cannot say so. Export "
            "it as onnx or json, or train on rows that are scaled already."
        )
    _TEXT_FORMATS[kind](model, args.output)
    if model.has_probabilities:
        note(args, f"a {kind} file gives the labels of this model, and not always its probabilities.")
