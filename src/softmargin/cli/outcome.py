"""What `train` tells: one line of JSON, or names and values for people."""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np

from softmargin.cli.models import is_kernel, is_softmax
from softmargin.cli.rows import Measured
from softmargin.cli.show import print_fields, print_json, problem_name, status_line
from softmargin.data import Dataset
from softmargin.estimators.posing.svm import kernel_claim
from softmargin.run import Result

__all__ = ["Outcome", "report"]


class Outcome(NamedTuple):
    """What is left of a training run."""

    dataset: Dataset
    problem: Any
    model: Any
    result: Result
    is_proof: bool  # False: the kernel is indefinite, and the certificate proves nothing
    train: Measured
    test: Measured | None  # None: no rows were held out
    saved: str | None
    prepare_seconds: float


def report(args: Namespace, outcome: Outcome) -> None:
    """Print it."""
    if args.json:
        print_json(_for_machines(args, outcome))
    else:
        print_fields(_for_people(args, outcome))


def _n_support(outcome: Outcome) -> int:
    return int(np.count_nonzero(outcome.problem.dual_columns(outcome.result.point).any(axis=1)))


def _n_test(dataset: Dataset) -> int:
    return 0 if dataset.y_test is None else len(dataset.y_test)


def _problem_fields(args: Namespace, outcome: Outcome) -> dict[str, Any]:
    """Return what was asked for, in the words of the model."""
    if is_softmax(args):
        return {"l1_ratio": args.l1_ratio, "C": args.C}
    kernel = {**kernel_claim(outcome.model.kernel), "cache_size": args.cache_size} if is_kernel(args) else {}
    info = outcome.model.info
    fields = {"multiclass": info["multiclass"], "loss": args.loss, "C": args.C}
    return {**kernel, **fields, "intercept_scaling": args.intercept_scaling}


def _size_fields(args: Namespace, outcome: Outcome) -> dict[str, Any]:
    """Return how large the model is, and how good its probabilities are."""
    if not is_softmax(args):
        return {"support_vectors": _n_support(outcome)}
    coef = outcome.model.coef
    return {
        "nonzero_weights": int(np.count_nonzero(coef)),
        "features_used": int(np.count_nonzero(coef.any(axis=0))),
        "train_log_loss": outcome.train.log_loss,
        "log_loss": None if outcome.test is None else outcome.test.log_loss,
    }


def _for_machines(args: Namespace, outcome: Outcome) -> dict[str, Any]:
    (n, d), info, result = outcome.dataset.X.shape, outcome.model.info, outcome.result
    return {
        "data": outcome.dataset.name,
        "rows": n,
        "features": d,
        "classes": len(outcome.model.classes),
        "test_rows": _n_test(outcome.dataset),
        "model": args.model,
        **_problem_fields(args, outcome),
        "class_weight": info["class_weight"],
        "fit_intercept": not args.no_intercept,
        "normalize": args.normalize,
        "solver": args.solver,
        "seed": args.seed,
        "tol": args.tol,
        "status": result.status.value,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
        "judge_seconds": result.judge_seconds,
        "prepare_seconds": outcome.prepare_seconds,
        "certificate": result.certificate._asdict(),
        "is_proof": outcome.is_proof,
        **_size_fields(args, outcome),
        "train_accuracy": outcome.train.accuracy,
        "accuracy": None if outcome.test is None else outcome.test.accuracy,
        "model_file": outcome.saved,
    }


def _for_people(args: Namespace, outcome: Outcome) -> list[tuple[str, str]]:
    (n, d), result = outcome.dataset.X.shape, outcome.result
    certificate = result.certificate
    sign = "<=" if certificate.meets(args.tol) else ">"
    doubt = "" if outcome.is_proof else " (no proof: the kernel is indefinite)"
    if is_softmax(args):
        coef = outcome.model.coef
        used = np.count_nonzero(coef.any(axis=0))
        size = ("nonzero weights", f"{np.count_nonzero(coef)} of {coef.size}, in {used} of {d} features")
    else:
        size = ("support vectors", f"{_n_support(outcome)} of {n} rows")
    fields = [
        ("data", f"{outcome.dataset.name}: {n} rows, {d} features, {len(outcome.model.classes)} classes"),
        ("problem", problem_name(outcome.model.info)),
        ("status", status_line(result.status)),
        ("passes", str(result.n_iter)),
        ("seconds", f"{result.seconds:.3g} (and {result.judge_seconds:.2g} for certificates)"),
        ("primal", f"{certificate.primal:.10g}"),
        ("bound", f"{certificate.bound:.10g}"),
        ("relative gap", f"{certificate.residual:.2e} {sign} tol {args.tol:g}{doubt}"),
        size,
        ("train accuracy", f"{outcome.train.accuracy:.4f}"),
        *_test_lines(outcome),
    ]
    if outcome.saved is not None:
        fields.append(("model saved as", outcome.saved))
    return fields


def _test_lines(outcome: Outcome) -> list[tuple[str, str]]:
    test = outcome.test
    if test is None:
        return [("test accuracy", "not measured: no rows were held out")]
    lines = [("test accuracy", f"{test.accuracy:.4f} ({_n_test(outcome.dataset)} rows)")]
    if test.log_loss is not None:
        lines.append(("test log loss", f"{test.log_loss:.4f}"))
    return lines
