"""The estimators behind `path`, `train --cv` and `train --search`, with the settings that were asked for."""

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import softmargin as sm
from softmargin.cli import models, rows
from softmargin.cli.choices import BALLS, KERNEL_DEFAULTS, REGRESSORS

Array = NDArray[Any]
# The estimator of a model, and the one that chooses settings of it.
ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "softmax": (sm.SoftmaxRegression, sm.SoftmaxRegressionCV),
    "linear-svc": (sm.LinearSVC, sm.LinearSVCCV),
    "kernel-svc": (sm.KernelSVC, sm.KernelSVCCV),
    "l1-ball": (sm.L1BallClassifier, sm.L1BallClassifierCV),
    "trace-ball": (sm.TraceBallClassifier, sm.TraceBallClassifierCV),
    "l1-ball-regressor": (sm.L1BallRegressor, sm.L1BallRegressorCV),
    "trace-ball-regressor": (sm.TraceBallRegressor, sm.TraceBallRegressorCV),
}


def settings(args: Namespace, y: Array) -> dict[str, Any]:
    """Return the settings of an estimator beside C or the radius."""
    own: dict[str, Any] = {"solver": args.solver, "tol": args.tol, "max_iter": args.max_iter}
    own |= {"max_seconds": args.max_seconds, "random_state": args.seed, "fit_intercept": models.fit_intercept(args)}
    if args.model in REGRESSORS:
        return {**own, "l2": args.l2}
    classes = np.unique(y)
    own["class_weight"] = rows.class_weights(args.class_weight, classes)
    if args.model in BALLS:
        return {**own, "l2": args.l2, "loss": args.loss}
    if args.model == "softmax":
        models.softmax_penalty(args, classes)  # refuses what does not go together
        pinned = None if args.pinned is None else rows.find_label(args.pinned, classes, "--pinned")
        return {**own, "l1_ratio": args.l1_ratio, "penalty": models.asked_penalty(args), "pinned": pinned}
    own |= {"multiclass": args.multiclass, "loss": args.loss, "intercept_scaling": args.intercept_scaling}
    if args.model == "linear-svc":
        return own
    kernel = {name: getattr(args, name) for name in KERNEL_DEFAULTS}
    return {**own, **kernel, "approximation": None if args.approximation == "none" else args.approximation}
