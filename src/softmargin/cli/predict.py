"""`softmargin predict`: one label per line."""

import sys
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.cli import rows
from softmargin.cli.show import check_writable, note, print_json
from softmargin.core.errors import IncompatibleError, visible
from softmargin.core.files import atomic_write
from softmargin.data import source_files
from softmargin.models import LinearRegressor

Array = NDArray[Any]


def run(args: Namespace) -> int:
    """Label the rows, write the labels, and report the accuracy."""
    if args.output is not None:
        check_writable(args.output, [args.model_file, *source_files(args.data, data_dir=args.data_dir)])
    model = rows.read_model(args.model_file)
    if isinstance(model, LinearRegressor):
        return _numbers(args, model)
    if args.probabilities and not model.has_probabilities:
        raise IncompatibleError(
            f"{args.model_file!r} has no probabilities: it is no softmax model, and no SVM that was trained with "
            "--probabilities. Give --scores, or train one."
        )
    dataset = rows.load_rows(args, args.data, model=model, needs_labels=False)
    part = args.part or ("all" if dataset.X_test is None else "test")
    X, y, which = rows.pick(dataset, part, rows.held_out(args, model, dataset.name))
    scores = rows.scores_of(model, X, dataset.name)
    labels = rows.labels_of(model, scores)
    beside = scores if args.scores else None
    if args.probabilities:
        beside = np.exp(rows.log_probabilities(model, X, scores, dataset.name))

    if args.output is not None:
        with atomic_write(args.output) as file:
            file.write(_text(args, model, labels, beside).encode())
    elif not args.json:
        sys.stdout.write(_text(args, model, labels, beside))
    n, right, n_unknown = len(y), 0, len(y)
    if dataset.has_labels and rows.is_same_kind(model.classes, y):
        right, n_unknown = int((labels == y).sum()), int((~np.isin(y, model.classes)).sum())
    share = right / n if n_unknown < n else None
    if args.json:
        fields: dict[str, Any] = {
            "data": dataset.name,
            "rows_used": which,
            "rows": n,
            "model_file": args.model_file,
            "accuracy": share,
            "right": None if share is None else right,
            "unknown_labels": n_unknown if dataset.has_labels else None,
            "output": args.output,
        }
        if args.output is None:
            fields["labels"] = labels
            if beside is not None:
                fields |= {"classes": model.classes, "scores" if args.scores else "probabilities": beside}
        print_json(fields)
    elif share is not None and not args.quiet:
        sys.stderr.write(f"accuracy {share:.4f} ({right} of {n}) on {which}\n")
    if share is None and dataset.has_labels:
        note(args, f"no label of {dataset.name} is known to the model, so there is no accuracy to tell.")
    elif share is not None and n_unknown:
        note(args, f"{n_unknown} rows carry labels the model does not know; they count as errors.")
    if part == "all" and rows.trained_on(model, dataset.name):
        is_split = rows.held_out(args, model, dataset.name) is not None
        others = "; --part test takes those held out" if is_split else ""
        note(args, f"the model was trained on rows of {dataset.name}{others}.")
    return 0


def _numbers(args: Namespace, model: LinearRegressor) -> int:
    """Write one prediction per line, the targets of a row with tabs between them; tell R^2."""
    if args.scores or args.probabilities:
        raise IncompatibleError(f"{args.model_file!r} holds a regressor: it has numbers only. Leave out the option.")
    dataset = rows.load_rows(args, args.data, is_number=True, model=model, needs_labels=False)
    how = rows.held_out(args, model, dataset.name)
    part = args.part or ("all" if dataset.X_test is None else "test")
    X, y, which = rows.pick(dataset, part, how, by_class=False)
    found = rows.numbers_of(model, X, dataset.name)
    table = found[:, np.newaxis] if found.ndim == 1 else found
    text = "".join("\t".join(map(repr, row)) + "\n" for row in table.tolist())
    if args.output is not None:
        with atomic_write(args.output) as file:
            file.write(text.encode())
    elif not args.json:
        sys.stdout.write(text)
    r2 = rows.measured_numbers(model, X, y, dataset.name).accuracy if dataset.has_labels else None
    if args.json:
        fields = {"data": dataset.name, "rows_used": which, "rows": len(y), "model_file": args.model_file, "r2": r2}
        print_json({**fields, "output": args.output, **({"numbers": found} if args.output is None else {})})
    elif r2 is not None and not args.quiet:
        sys.stderr.write(f"r2 {r2:.4f} on {which}\n")
    return 0


def _text(args: Namespace, model: rows.Model, labels: Array, beside: Array | None) -> str:
    lines = [_name(label) for label in labels.tolist()]
    if beside is not None:
        name = "score" if args.scores else "probability"
        table = beside[:, np.newaxis] if beside.ndim == 1 else beside
        # Two classes have one score; above zero it means the second.
        columns = model.classes[-table.shape[1] :].tolist()
        lines = ["\t".join([line, *map(repr, row)]) for line, row in zip(lines, table.tolist(), strict=True)]
        lines.insert(0, "\t".join(["label", *(f"{name}:{_name(label)}" for label in columns)]))
    return "".join(f"{line}\n" for line in lines)


def _name(label: Any) -> str:
    text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
    # Bytes that were no text when they became one stay as they are named; commands for terminals are written out.
    return visible(text.encode("utf-8", "backslashreplace").decode())
