"""What `train` tells: one line of JSON, or names and values for people."""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np

from softmargin.cli.choices import BALLS, REGRESSORS
from softmargin.cli.fit_rows import Rows
from softmargin.cli.rows import Measured
from softmargin.cli.show import print_json, print_table, problem_name, status_line
from softmargin.estimators.posing.kernels import kernel_claim
from softmargin.run import Result, Trace
from softmargin.sets import LowRank


class Outcome(NamedTuple):
    """What is left of a training run."""

    rows: Rows
    problem: Any
    model: Any
    result: Result
    is_proof: bool  # False: the kernel is indefinite, and the certificate proves nothing
    train: Measured
    test: Measured | None  # None: there are no test rows
    saved: str | None
    prepare_seconds: float
    scored: Any = None  # what cross-validation found
    advice: str = ""  # what would help a run that ended without its certificate


def report(args: Namespace, outcome: Outcome) -> None:
    """Print it."""
    if args.json:
        print_json(_for_machines(args, outcome))
    else:
        print_table((), _for_people(args, outcome))


def _problem_fields(args: Namespace, outcome: Outcome) -> dict[str, Any]:
    """Return what was asked for, in the words of the model."""
    if args.model == "softmax":
        info = outcome.model.info
        return {"penalty": info["penalty"], "l1_ratio": info.get("l1_ratio"), "C": args.C, "pinned": args.pinned}
    if args.model in (*BALLS, *REGRESSORS):
        return {name: outcome.model.info[name] for name in ("loss", "radius", "l2")}
    kernel = {**kernel_claim(outcome.model.kernel), "cache_size": args.cache_size} if args.model == "kernel-svc" else {}
    fields = {"multiclass": outcome.model.info["multiclass"], "loss": args.loss, "C": args.C}
    return {**kernel, **fields, "intercept_scaling": args.intercept_scaling}


def _size(args: Namespace, outcome: Outcome) -> tuple[dict[str, int], tuple[str, str]]:
    """Return how large the model is, for machines and for people."""
    n, d = outcome.rows.dataset.X.shape
    if args.model == "softmax":
        coef = outcome.model.coef
        entries, features = int(np.count_nonzero(coef)), int(np.count_nonzero(coef.any(axis=0)))
        line = ("nonzero weights", f"{entries} of {coef.size}, in {features} of {d} features")
        return {"nonzero_weights": entries, "features_used": features}, line
    if args.model in (*BALLS, *REGRESSORS):
        return _ball_size(outcome)
    support = int(np.count_nonzero(outcome.problem.dual_columns(outcome.result.point).any(axis=1)))
    return {"support_vectors": support}, ("support vectors", f"{support} of the {n} training rows")


def _ball_size(outcome: Outcome) -> tuple[dict[str, Any], tuple[str, str]]:
    """Return how many weights, or which rank, a ball leaves, and whether its boundary is touched."""
    coef, is_inside = outcome.model.coef, outcome.problem.is_inactive(outcome.result.point)
    where = "inside the ball: a larger radius changes nothing" if is_inside else "on the boundary of the ball"
    own: dict[str, Any] = {"is_on_boundary": not is_inside}
    if isinstance(coef, LowRank):
        return {**own, "rank": len(coef.s)}, ("rank", f"{len(coef.s)} of {min(coef.shape)}, {where}")
    used = int(np.count_nonzero(coef))
    return {**own, "nonzero_weights": used}, ("nonzero weights", f"{used} of {coef.size}, {where}")


def _for_machines(args: Namespace, outcome: Outcome) -> dict[str, Any]:
    (n, d), result, train, test = outcome.rows.dataset.X.shape, outcome.result, outcome.train, outcome.test
    log_losses = {"train_log_loss": train.log_loss, "log_loss": None if test is None else test.log_loss}
    return {
        "data": outcome.rows.dataset.name,
        "trained_on": outcome.rows.trained_on,
        "tested_on": outcome.rows.tested_on,
        "rows": n,
        "features": d,
        **({"classes": len(outcome.model.classes)} if hasattr(outcome.model, "classes") else {}),
        "test_rows": 0 if test is None else test.n,
        "model": args.model,
        **_problem_fields(args, outcome),
        "class_weight": outcome.model.info["class_weight"],
        "fit_intercept": outcome.model.info["fit_intercept"],
        **{name: getattr(args, name) for name in ("normalize", "solver", "seed", "tol")},
        "status": result.status.value,
        "advice": outcome.advice,
        "solvers": list(dict.fromkeys(row.solver for row in result.trace)),
        "n_iter": result.n_iter,
        "seconds": result.seconds,
        "judge_seconds": result.certificate_seconds,
        "prepare_seconds": outcome.prepare_seconds,
        "certificate": result.certificate._asdict(),
        "is_proof": outcome.is_proof,
        **_size(args, outcome)[0],
        **(log_losses if args.model == "softmax" or args.probabilities else {}),
        f"train_{score_name(args)}": train.accuracy,
        score_name(args): None if test is None else test.accuracy,
        **({} if outcome.scored is None else {"cv": outcome.scored._asdict()}),
        "model_file": outcome.saved,
    }


def _for_people(args: Namespace, outcome: Outcome) -> list[tuple[str, str]]:
    parts, result, test = outcome.rows, outcome.result, outcome.test
    d = parts.dataset.X.shape[1]
    certificate = result.certificate
    sign = "<=" if certificate.meets(args.tol) else ">"
    doubt = "" if outcome.is_proof else " (no proof: the kernel is indefinite)"
    fields = [
        ("trained on", f"{parts.trained_on}, {d} features{_classes(outcome)}"),
        ("problem", problem_name(outcome.model.info)),
        ("status", status_line(result.status)),
        *([("advice", outcome.advice)] if outcome.advice else []),
        *([("solvers", _who_worked(result.trace))] if len({row.solver for row in result.trace}) > 1 else []),
        ("passes", str(result.n_iter)),
        ("seconds", f"{result.seconds:.3g} (and {result.certificate_seconds:.2g} for certificates)"),
        ("primal", f"{certificate.primal:.10g}"),
        ("bound", f"{certificate.bound:.10g}"),
        (
            "violation" if certificate.kind == "stationarity" else "relative gap",
            f"{certificate.residual:.2e} {sign} tol {args.tol:g}, of the objective on the training rows{doubt}",
        ),
        _size(args, outcome)[1],
        (f"train {score_name(args)}", f"{outcome.train.accuracy:.4f} on the {outcome.train.n} training rows"),
    ]
    if test is not None or outcome.scored is None:
        fields.append((f"test {score_name(args)}", accuracy_line(test, parts.tested_on)))
    if test is not None and test.log_loss is not None:
        fields.append(("test log loss", f"{test.log_loss:.4f} on the same {test.n} rows"))
    if outcome.scored is not None:
        fields.append((f"{score_name(args)} by folds", outcome.scored.in_words))
        if outcome.scored.chosen:
            fields.append(("chosen by folds", outcome.scored.choice_in_words))
    if outcome.saved is not None:
        fields.append(("model saved as", outcome.saved))
    return fields


def _who_worked(trace: Trace) -> str:
    """Name the solvers in turn, with the last pass that each was judged at."""
    last = {row.solver: row.iteration for row in trace}
    return ", then ".join(f"{name} up to pass {iteration}" for name, iteration in last.items())


def score_name(args: Namespace) -> str:
    """Name the score of a model: of a classifier the accuracy, of a regressor R^2."""
    return "r2" if args.model in REGRESSORS else "accuracy"


def _classes(outcome: Outcome) -> str:
    return f", {len(outcome.model.classes)} classes" if hasattr(outcome.model, "classes") else ""


def accuracy_line(test: Measured | None, tested_on: str | None) -> str:
    """Say how many of the test rows were labelled right, or which R^2 a regressor has there."""
    if test is None:
        return "not measured: there are no test rows (--holdout 0.25, --test FILE, or --cv 5)"
    return f"{test.accuracy:.4f} on {tested_on}"
