"""`softmargin certify`: prove how far from optimal a model is, whoever trained it."""

import math
from argparse import Namespace
from typing import Any

import numpy as np

from softmargin.cli import rows
from softmargin.cli.exit_codes import INTERRUPTED, NOT_CERTIFIED
from softmargin.cli.show import note, percent, print_fields, print_json, problem_name, wants_progress
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators.certify import certify
from softmargin.models import LinearModel
from softmargin.run import Result, Status

__all__ = ["run"]


class _Listener:
    """Keeps how the run for the bound ended."""

    status = Status.CONVERGED
    seconds = 0.0

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Nothing to prepare."""

    def watch(self, progress: Any) -> None:
        """Nothing to see."""

    def end(self, result: Result) -> None:
        """Remember."""
        self.status, self.seconds = result.status, result.seconds


def run(args: Namespace) -> int:
    """Certify as asked and return the exit code."""
    model = rows.read_model(args.model_file)
    multiclass, C = _problem(args, model)
    dataset = rows.load_rows(args.data, args.data_dir)
    how = rows.held_out(args, model, dataset.name)
    part = args.part or ("train" if how is not None or dataset.X_test is not None else "all")
    X, y, which = rows.pick(dataset, part, how)
    known = rows.trained_on(model, dataset.name).get("rows")
    if known is not None and known != len(y):
        note(args, f"the model was trained on {known} rows of {dataset.name}; these are {len(y)}.")
    rows.check_labels_match(model, y, dataset.name)
    X, model = _as_trained(model, _widened(X, model.n_features), dataset.name)
    listener = _Listener()
    watchers: list[Any] = [listener]
    if wants_progress(args):
        from softmargin.run.watchers import ProgressBar

        watchers.append(ProgressBar())
    # Overflow ends in a bound that is no number, which is reported below.
    with np.errstate(over="ignore", invalid="ignore"):
        certificate = certify(
            model,
            X,
            y,
            C=C,
            multiclass=multiclass,
            class_weight=rows.class_weights(args.class_weight, model.classes),
            bound_tol=args.bound_tol,
            max_seconds=math.inf if args.max_seconds is None else args.max_seconds,
            watchers=watchers,
        )
    if not math.isfinite(certificate.primal):
        raise DataError(f"{dataset.name}: {Status.FAILED.sentence}")
    sentence = _sentence(certificate)
    if args.json:
        print_json(
            {
                "model_file": args.model_file,
                "data": dataset.name,
                "rows_used": which,
                "rows": len(y),
                "multiclass": multiclass,
                "C": C,
                **certificate._asdict(),
                "certificate": certificate._asdict(),
                "gap": certificate.gap,
                "bound_tol": args.bound_tol,
                "bound_status": listener.status.value,
                "seconds": listener.seconds,
                "sentence": sentence,
            }
        )
    else:
        print_fields(
            [
                ("model", args.model_file),
                ("rows used", which),
                ("problem", problem_name(multiclass, C)),
                ("primal", f"{certificate.primal:.10g}"),
                ("proven bound", f"{certificate.bound:.10g}"),
                ("relative gap", f"{certificate.residual:.2e}"),
                ("verdict", sentence),
            ]
        )
    if listener.status is Status.INTERRUPTED:
        return INTERRUPTED
    if listener.status is not Status.CONVERGED:
        note(args, "the budget ran out before the bound was tight: the true gap may be smaller. Raise --max-seconds.")
        return NOT_CERTIFIED
    return 0


def _problem(args: Namespace, model: LinearModel) -> tuple[str, float]:
    multiclass = args.multiclass or model.info.get("multiclass")
    if multiclass not in ("weston_watkins", "crammer_singer"):
        raise IncompatibleError(
            f"{args.model_file!r} was trained as {multiclass or 'an unknown problem'}; "
            "gaps are proven for weston_watkins and crammer_singer. Give --multiclass to measure it by one of these."
        )
    C = model.info.get("C") if args.C is None else args.C
    if C is None:
        raise DataError(f"{args.model_file!r} does not say which C it was trained with. Give -C (LIBLINEAR's -c).")
    return str(multiclass), float(C)


def _widened(X: Any, d: int) -> Any:
    """Pad rows of a LIBSVM file that ends early; a wider one is not the training data, and `certify` says so."""
    if isinstance(X, np.ndarray) or X.shape[1] >= d:
        return X
    return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], d))


def _as_trained(model: LinearModel, X: Any, source: str) -> tuple[Any, LinearModel]:
    """Return rows and weights as the training problem had them: scaled, and in its precision."""
    info = model.info
    if info.get("normalize") == "rows":
        X = rows.unit_rows(X, source)
    elif info.get("normalize") == "maxabs" and X.shape[1] == model.n_features:
        scales = np.asarray(info["column_scales"], dtype=np.float64)
        X = rows.scaled_columns(X, scales)
        model = LinearModel(model.classes, model.coef * scales, model.intercept, info)
    return (X.astype(np.float32) if info.get("float32") else X), model


def _sentence(certificate: Certificate) -> str:
    if certificate.residual == 0.0:
        return "Proven optimal to the last digit."
    if not math.isfinite(certificate.bound):
        return "Nothing was proven."
    return f"Proven: no weights have an objective more than {percent(certificate.residual)} below this model's."
