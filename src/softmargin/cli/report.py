"""`softmargin report`: one page about a fit, or several side by side."""

import json
import os
import zipfile
from argparse import Namespace
from typing import Any

import numpy as np

from softmargin.cli import rows
from softmargin.cli.show import check_writable, note, print_json, print_table, problem_name
from softmargin.core.archive import HEADER
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.files import blaming
from softmargin.data import Dataset, source_files
from softmargin.data.columns import Columns
from softmargin.models import LinearRegressor, looks_like_liblinear, looks_like_libsvm_model
from softmargin.models.one_vs_one import Votes
from softmargin.report import build_page, machine_facts
from softmargin.report.fits import Fit, Rows, about, beside, verdict

_COLUMNS = ("iteration", "seconds", "residual")  # that a trace has at least


def run(args: Namespace) -> int:
    """Write the page as asked and return the exit code."""
    fits, data = _things(args.things)
    if data is not None and any(fit.model is None for fit in fits):
        raise IncompatibleError("a trace alone cannot be measured on data: name its model before it.")
    inputs = [name for name in args.things if name != data]
    check_writable(args.output, inputs if data is None else [*inputs, *source_files(data, data_dir=args.data_dir)])
    fits = [_described(args, fit, data) for fit in fits]
    sections = beside(fits) if len(fits) > 1 else []
    for fit in fits:
        own = about(fit)
        sections += own if len(fits) == 1 else [part._replace(heading=f"{fit.name}: {part.heading}") for part in own]
    build_page(args.output, f"softmargin report: {', '.join(fit.name for fit in fits)}", sections, machine_facts())
    told = [(fit.name, "a trace" if fit.model is None else verdict(fit.model.info)) for fit in fits]
    if args.json:
        which = None if fits[0].rows is None else fits[0].rows.which
        print_json(
            {
                "output": args.output,
                "fits": [dict(zip(("name", "verdict"), each, strict=True)) for each in told],
                "rows_used": which,
            }
        )
    elif not args.quiet:
        print_table((), [*told, ("page", args.output)])
    return 0


def _things(names: list[str]) -> tuple[list[Fit], str | None]:
    """Return the models with their traces, and the name of the data."""
    fits: list[Fit] = []
    data: list[str] = []
    for name in names:
        if _is_model(name):
            fits.append(Fit(os.path.basename(name), rows.read_model(name)))
        elif _looks_like_json(name):
            trace = _read_trace(name)
            if fits and fits[-1].trace is None and fits[-1].model is not None:
                fits[-1] = fits[-1]._replace(trace=trace)
            else:
                fits.append(Fit(os.path.basename(name), trace=trace))
        else:
            data.append(name)
    if not fits:
        raise DataError(f"no model and no trace among {', '.join(names)}. Name what `train` wrote with -o or --trace.")
    if len(data) > 1:
        raise IncompatibleError(f"models are measured on one data set; found {', '.join(data)}. Keep one of them.")
    return fits, data[0] if data else None


def _is_model(name: str) -> bool:
    if not os.path.isfile(name):
        return False
    if looks_like_libsvm_model(name) or looks_like_liblinear(name):
        return True
    if not zipfile.is_zipfile(name):
        return False
    with zipfile.ZipFile(name) as file:
        return HEADER in file.namelist()


def _looks_like_json(name: str) -> bool:
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        return file.read(1) == b"{"


def _read_trace(path: str) -> dict[str, Any]:
    """Read what `train --trace` wrote: one object of columns, or one certificate per line."""
    with blaming(path, advice="Name a file that `train --trace` wrote."):
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.strip()]
        found = lines[0]
        if not isinstance(found.get("iteration"), list):
            found = {name: [line[name] for line in lines] for name in found}
        lengths = {len(found[name]) for name in _COLUMNS}
        numbers = [np.asarray([np.inf if v is None else v for v in found[name]], dtype=np.float64) for name in _COLUMNS]
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError("its columns are empty or of different lengths")
        return {**found, **dict(zip(_COLUMNS, (column.tolist() for column in numbers), strict=True))}


def _described(args: Namespace, fit: Fit, data: str | None) -> Fit:
    """Return a fit with its problem in words, names of features, and what it says of the rows."""
    model = fit.model
    if model is None:
        return fit
    info = model.info
    names = None
    if info.get("columns") is not None:
        names = Columns.from_info(info["columns"], model.n_features).feature_names
    fit = fit._replace(problem=problem_name(info), features=names)
    return fit if data is None else fit._replace(rows=_measured(args, model, data))


def _measured(args: Namespace, model: Any, data: str) -> Rows:
    is_number = isinstance(model, LinearRegressor)
    dataset: Dataset = rows.load_rows(args, data, is_number=is_number, model=model)
    how = rows.held_out(args, model, dataset.name)
    part = args.part or ("test" if how is not None or dataset.X_test is not None else "all")
    X, y, which = rows.pick(dataset, part, how, by_class=not is_number)
    if part != "test" and rows.trained_on(model, dataset.name):
        which += ", which the model was trained on"
    if is_number:
        return Rows(which, X, y.astype(np.float64), rows.numbers_of(model, X, dataset.name).reshape(y.shape))
    rows.check_labels_match(model, y, dataset.name)
    scores = rows.scores_of(model, X, dataset.name)
    is_vote = isinstance(model, Votes) and len(model.classes) > 2
    if not np.isin(y, model.classes).all():
        note(args, f"{int((~np.isin(y, model.classes)).sum())} rows have labels that the model does not know: errors.")
    chances = np.exp(rows.log_probabilities(model, X, scores, dataset.name)) if model.has_probabilities else None
    return Rows(which, X, y, rows.labels_of(model, scores), None if is_vote else scores, chances)
