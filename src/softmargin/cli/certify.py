"""`softmargin certify`: prove how far from optimal a model is, whoever trained it."""

import dataclasses
import math
from argparse import Namespace
from typing import Any

import numpy as np

from softmargin.cli import rows
from softmargin.cli.choices import LOGISTIC, LOSSES, MULTICLASS
from softmargin.cli.exit_codes import INTERRUPTED, NOT_CERTIFIED
from softmargin.cli.show import note, print_json, print_table, problem_name, wants_progress
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.protocols import Watcher
from softmargin.core.threads import shared_interruption
from softmargin.estimators.certify import certified_so_far
from softmargin.estimators.posing.kernels import kernel_claim
from softmargin.features.scaling import Scaling
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion, LinearModel, LinearOneVsOne, LinearRegressor, OneVsOne
from softmargin.run import Result, Status
from softmargin.run.progress import ProgressBar


class _Listener(Watcher):
    """Keeps how the runs for the bound ended, the first that did not converge; a kernel model may need none."""

    status: Status | None = None
    seconds = 0.0

    def end(self, result: Result) -> None:
        """Remember."""
        self.seconds += result.seconds
        if self.status in (None, Status.CONVERGED):
            self.status = result.status


def run(args: Namespace) -> int:
    """Certify as asked and return the exit code."""
    model = rows.read_model(args.model_file)
    asked = _asked(args, model)
    is_number = isinstance(model, LinearRegressor)
    dataset = rows.load_rows(args, args.data, is_number=is_number, model=model)
    how = rows.held_out(args, model, dataset.name)
    part = args.part or ("train" if how is not None or dataset.X_test is not None else "all")
    X, y, which = rows.pick(dataset, part, how, by_class=not is_number)
    known = rows.trained_on(model, dataset.name).get("rows")
    if known is not None and known != len(y):
        note(args, f"the model was trained on {known} rows of {dataset.name}; these are {len(y)}.")
    if not isinstance(model, LinearRegressor):
        rows.check_labels_match(model, y, dataset.name)
    classes = None if isinstance(model, LinearRegressor) else model.classes
    X, model = _as_trained(model, X, dataset.name)
    listener = _Listener()
    watchers = [listener, ProgressBar()] if wants_progress(args) else [listener]
    # Overflow ends in a bound that is no number, which is reported below.
    with np.errstate(over="ignore", invalid="ignore"), shared_interruption():
        certificate = certified_so_far(
            model,
            X,
            y,
            C=asked.get("C"),
            multiclass=args.multiclass,
            loss=args.loss,
            sample_weight=None,
            class_weight=rows.class_weights(args.class_weight, classes),
            bound_tol=args.bound_tol,
            max_seconds=math.inf if args.max_seconds is None else args.max_seconds,
            watchers=watchers,
        )
    if not math.isfinite(certificate.primal):
        raise DataError(f"{dataset.name}: {Status.FAILED.sentence}")
    is_proof = not isinstance(model, KernelExpansion | OneVsOne) or Gram(model.kernel, X).negative_eigenvalue() == 0.0
    sentence = _sentence(certificate, is_proof=is_proof)
    if args.json:
        print_json(
            {
                "model_file": args.model_file,
                "data": dataset.name,
                "rows_used": which,
                "rows": len(y),
                **asked,
                **certificate._asdict(),
                "certificate": certificate._asdict(),
                "is_proof": is_proof,
                "gap": certificate.gap,
                "bound_tol": args.bound_tol,
                "bound_status": None if listener.status is None else listener.status.value,
                "seconds": listener.seconds,
                "sentence": sentence,
            }
        )
    else:
        print_table(
            (),
            [
                ("model", args.model_file),
                ("rows used", which),
                ("problem", problem_name(asked)),
                ("primal", f"{certificate.primal:.10g}"),
                ("proven bound", f"{certificate.bound:.10g}"),
                ("relative gap", f"{certificate.residual:.2e}"),
                ("verdict", sentence),
            ],
        )
    if listener.status is Status.INTERRUPTED:
        return INTERRUPTED
    if listener.status not in (None, Status.CONVERGED):
        note(args, "the budget ran out before the bound was tight: the true gap may be smaller. Raise --max-seconds.")
        return NOT_CERTIFIED
    return 0


def _asked(args: Namespace, model: rows.Model | LinearRegressor) -> dict[str, Any]:
    """Return the problem to measure by, as a model remembers it: the options, else what it was trained for."""
    info = model.info
    if "radius" in info and args.multiclass is None and (args.loss is None or isinstance(model, LinearRegressor)):
        known = {name: info[name] for name in ("problem", "loss", "radius", "l2")}
        return known if args.C is None else {**known, "C": args.C}
    if isinstance(model, LinearRegressor):
        raise IncompatibleError(f"{args.model_file!r} does not say what it was trained for, so that nothing is proven.")
    if model.has_log_odds and args.multiclass is None and args.loss is None:
        C = info["C"] if args.C is None else args.C
        return {"problem": "softmax", "penalty": info["penalty"], "C": float(C)}
    multiclass, penalty = args.multiclass or info.get("multiclass"), info.get("penalty", "l2")
    is_joint = multiclass in MULTICLASS and multiclass not in ("one_vs_rest", "one_vs_one")
    loss = args.loss or ("hinge" if is_joint and isinstance(model, LinearModel) else info.get("loss"))
    is_known = isinstance(model, OneVsOne) or (multiclass in MULTICLASS and loss in (*LOSSES, *LOGISTIC))
    if not (is_known and (args.multiclass or penalty in ("l1", "l2"))):
        trained = f"{multiclass}, {loss} loss" if multiclass else info.get("problem", "an unknown problem")
        raise IncompatibleError(
            f"{args.model_file!r} was trained as {trained}; gaps are proven for {', '.join(MULTICLASS)} with "
            f"{', '.join((*LOSSES, *LOGISTIC))} loss. Give --multiclass and --loss to measure it by one of these."
        )
    C = info.get("C") if args.C is None else args.C
    if C is None:
        raise DataError(f"{args.model_file!r} does not say which C it was trained with. Give -C (theirs is -c).")
    more = {} if isinstance(model, LinearModel | LinearOneVsOne) else kernel_claim(model.kernel)
    if not is_joint and args.multiclass is None and penalty == "l1":
        more = {"penalty": penalty}
    return {**more, "multiclass": str(multiclass), "loss": str(loss), "C": float(C)}


def _as_trained(model: Any, X: Any, source: str) -> tuple[Any, Any]:
    """Return rows and model as the training problem had them: scaled, and in its precision."""
    info = model.info
    if not isinstance(X, np.ndarray) and X.shape[1] < model.n_features:
        X = model.fit_columns(X)  # a LIBSVM file that ends early; a wider one `certify` refuses
    if X.shape[1] == model.n_features:
        scaling = Scaling.from_info(info, model.n_features)
        X = scaling.apply(X, source)
        if scaling.is_affine and not isinstance(model, KernelExpansion | OneVsOne):
            coef, intercept = scaling.unfolded(model.coef, model.intercept)
            if info.get("fit_intercept") is False:
                intercept = np.zeros_like(intercept)  # a shift of columns gave it one for raw rows
            model = dataclasses.replace(model, coef=coef, intercept=intercept)
    return (X.astype(np.float32) if info.get("float32") else X), model


def _sentence(certificate: Certificate, *, is_proof: bool) -> str:
    if not is_proof:
        return "Nothing was proven: the kernel is not positive semi-definite on these rows."
    if certificate.residual == 0.0:
        return "Proven optimal to the last digit."
    if not math.isfinite(certificate.bound):
        return "Nothing was proven."
    return f"Proven: no weights have an objective more than {100 * certificate.residual:.3g}% below this model's."
