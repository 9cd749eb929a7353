"""`softmargin train --probabilities`: what gives an SVM probabilities, fitted to the scores of held-out rows."""

import math
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.cli import models
from softmargin.estimators.frame.calibration import TUNING, fitted_calibration, held_out_scores
from softmargin.estimators.posing.fit import fit_problem
from softmargin.estimators.posing.kernels import KernelTask, looks_at_samples
from softmargin.features.scaling import Scaling
from softmargin.run import Result, Stop

Array = NDArray[Any]


def calibration_of(
    args: Namespace, X: Any, codes: Array, classes: Array, class_weight: Any, fit: tuple[Any, KernelTask | None, Any]
) -> dict[str, Any]:
    """Fit models to parts of the rows, from the dual variables of the fit (problem, task, point), and calibrate."""
    problem, task, point = fit
    is_exact = task is None or (task.landmarks is None and not looks_at_samples(args.solver))
    dual = problem.dual_columns(point) if is_exact else None
    own = Namespace(**vars(args))
    if task is not None:
        own.gamma = getattr(task.expansion(point).kernel, "gamma", args.gamma)  # "scale" of all rows
    seconds = math.inf if args.max_seconds is None else args.max_seconds
    stop = Stop(max(args.tol, TUNING.coarse_tol), args.max_iter, seconds)

    def scores_by(train: Array, test: Array) -> tuple[Array, Result]:
        gram = problem.gram.part(train) if task is not None and is_exact else None
        part, part_task = models.build_problem(own, X[train], codes[train], classes, class_weight, gram)
        init = None if dual is None else part.warm_point(dual[train])
        result = fit_problem(part, solver=args.solver, stop=stop, seed=args.seed, init=init)
        model = models.build_model(part, part_task, result.point, classes, {}, Scaling("none"))
        return np.reshape(model.decision_function(X[test]), (len(test), -1)), result

    return fitted_calibration(args.probabilities, held_out_scores(codes, scores_by).scores, codes, None)
