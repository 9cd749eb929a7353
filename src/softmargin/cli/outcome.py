"""What `train` tells: one line of JSON, or names and values for people."""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np

from softmargin.cli.machines import is_kernel, kernel_settings
from softmargin.cli.show import print_fields, print_json, problem_name, status_line
from softmargin.data import Dataset
from softmargin.estimators._problems import dual_columns
from softmargin.run import Result

__all__ = ["Accuracy", "Outcome", "report"]


class Accuracy(NamedTuple):
    """Shares of rows labelled right."""

    train: float
    test: float | None  # None: no rows were held out


class Outcome(NamedTuple):
    """What is left of a training run."""

    dataset: Dataset
    problem: Any
    model: Any
    result: Result
    is_proof: bool  # False: the kernel is indefinite, and the certificate proves nothing
    accuracy: Accuracy
    saved: str | None
    prepare_seconds: float


def report(args: Namespace, outcome: Outcome) -> None:
    """Print it."""
    if args.json:
        print_json(_for_machines(args, outcome))
    else:
        print_fields(_for_people(args, outcome))


def _n_support(outcome: Outcome) -> int:
    return int(np.count_nonzero(dual_columns(outcome.problem, outcome.result.point).any(axis=1)))


def _n_test(dataset: Dataset) -> int:
    return 0 if dataset.y_test is None else len(dataset.y_test)


def _for_machines(args: Namespace, outcome: Outcome) -> dict[str, Any]:
    (n, d), info, result = outcome.dataset.X.shape, outcome.model.info, outcome.result
    kernel = {**kernel_settings(outcome.model.kernel), "cache_size": args.cache_size} if is_kernel(args) else {}
    return {
        "data": outcome.dataset.name,
        "rows": n,
        "features": d,
        "classes": len(outcome.model.classes),
        "test_rows": _n_test(outcome.dataset),
        "model": args.model,
        **kernel,
        "multiclass": info["multiclass"],
        "loss": args.loss,
        "C": args.C,
        "class_weight": info["class_weight"],
        "fit_intercept": not args.no_intercept,
        "intercept_scaling": args.intercept_scaling,
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
        "support_vectors": _n_support(outcome),
        "train_accuracy": outcome.accuracy.train,
        "accuracy": outcome.accuracy.test,
        "model_file": outcome.saved,
    }


def _for_people(args: Namespace, outcome: Outcome) -> list[tuple[str, str]]:
    (n, d), result, accuracy = outcome.dataset.X.shape, outcome.result, outcome.accuracy
    certificate = result.certificate
    sign = "<=" if certificate.meets(args.tol) else ">"
    doubt = "" if outcome.is_proof else " (no proof: the kernel is indefinite)"
    test = "not measured: no rows were held out"
    if accuracy.test is not None:
        test = f"{accuracy.test:.4f} ({_n_test(outcome.dataset)} rows)"
    fields = [
        ("data", f"{outcome.dataset.name}: {n} rows, {d} features, {len(outcome.model.classes)} classes"),
        ("problem", problem_name(outcome.model.info)),
        ("status", status_line(result.status)),
        ("passes", str(result.n_iter)),
        ("seconds", f"{result.seconds:.3g} (and {result.judge_seconds:.2g} for certificates)"),
        ("primal", f"{certificate.primal:.10g}"),
        ("bound", f"{certificate.bound:.10g}"),
        ("relative gap", f"{certificate.residual:.2e} {sign} tol {args.tol:g}{doubt}"),
        ("support vectors", f"{_n_support(outcome)} of {n} rows"),
        ("train accuracy", f"{accuracy.train:.4f}"),
        ("test accuracy", test),
    ]
    if outcome.saved is not None:
        fields.append(("model saved as", outcome.saved))
    return fields
