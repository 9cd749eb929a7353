"""`softmargin path`: a model for every C or radius of a grid, each from the last; and the choice of one by folds.

model           what varies      by                 score
softmax         C                softmax_path       share of rows labelled right
a ball          the radius       radius_path        the same; R^2 of a regressor
"""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from softmargin import L1BallClassifier, L1BallRegressor, TraceBallClassifier, TraceBallRegressor
from softmargin import radius_path as path_of_radii
from softmargin import softmax_path as path_of_prices
from softmargin.cli import fit_rows, models, rows
from softmargin.cli.choices import POINTS, REGRESSORS
from softmargin.cli.exit_codes import NOT_CERTIFIED
from softmargin.cli.show import note, print_json, print_table
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.models import LinearModel
from softmargin.run import Status

Array = NDArray[Any]
ESTIMATORS: dict[str, Any] = {
    "l1-ball": L1BallClassifier,
    "trace-ball": TraceBallClassifier,
    "l1-ball-regressor": L1BallRegressor,
    "trace-ball-regressor": TraceBallRegressor,
}


class Point(NamedTuple):
    """One model of a path."""

    value: float  # its C or radius
    predictor: Any
    certificate: Certificate
    status: str
    n_iter: int

    @property
    def size(self) -> str:
        """How many weights are not zero, or of which rank they are."""
        factors = getattr(self.predictor, "coef_factors_", None)
        if factors is not None:
            return f"rank {len(factors[1])}"
        coef = self.predictor.coef if isinstance(self.predictor, LinearModel) else self.predictor.coef_
        return f"{np.count_nonzero(coef)} of {np.size(coef)}"

    def score(self, X: Any, y: Array) -> float:
        """Return the share of rows labelled right, or R^2."""
        if isinstance(self.predictor, LinearModel):
            return float(np.mean(self.predictor.predict(X) == y))
        return float(self.predictor.score(X, y))


class Chosen(NamedTuple):
    """What cross-validation found."""

    value: float
    grid: list[float]
    scores: list[float]  # mean over the folds


def what_varies(args: Namespace) -> str:
    """Name what a path of the model varies."""
    return "C" if args.model == "softmax" else "radius"


def run(args: Namespace) -> int:
    """Train along the grid, print a line for every point, and return the exit code."""
    models.fill_defaults(args)
    dataset, _ = fit_rows.load(args)
    X, scaling = fit_rows.prepared(dataset.X, args, dataset.name)
    test = None
    if dataset.X_test is not None:
        source = fit_rows.test_name(args, dataset)
        test = fit_rows.like_training(dataset.X_test, scaling, X.shape[1], source), dataset.y_test
    points = path_points(args, X, dataset.y)
    lines = [_line(point, (X, dataset.y), test) for point in points]
    if args.json:
        print_json({"data": dataset.name, "model": args.model, "varies": what_varies(args), "points": lines})
    else:
        head = (what_varies(args), "status", "passes", "gap", "weights", "train", "test")
        print_table(head, [tuple(_shown(value) for value in line.values()) for line in lines])
    return 0 if all(point.status == Status.CONVERGED.value for point in points) else NOT_CERTIFIED


def _line(point: Point, train: tuple[Any, Any], test: tuple[Any, Any] | None) -> dict[str, Any]:
    return {
        "value": point.value,
        "status": point.status,
        "n_iter": point.n_iter,
        "residual": point.certificate.residual,
        "weights": point.size,
        "train_score": point.score(*train),
        "score": None if test is None else point.score(*test),
    }


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def path_points(args: Namespace, X: Any, y: Array, grid: Any = None) -> list[Point]:
    """Return the models of the path on some rows; ``grid`` overrules the one that was asked for."""
    asked = (args.grid or args.points or POINTS) if grid is None else grid
    effort = {"solver": args.solver, "tol": args.tol, "max_iter": args.max_iter, "max_seconds": args.max_seconds}
    effort |= {"fit_intercept": not args.no_intercept, "random_state": args.seed}
    if args.model != "softmax":
        own = {"radius": args.radius, "l2": args.l2, **effort}
        if args.model not in REGRESSORS:
            own |= {"loss": args.loss, "class_weight": rows.class_weights(args.class_weight, np.unique(y))}
        fitted = path_of_radii(ESTIMATORS[args.model](**own), X, y, radii=asked).estimators
        return [Point(each.radius, each, each.certificate_, each.status_, each.n_iter_) for each in fitted]
    classes = np.unique(y)
    models.softmax_penalty(args, classes)  # refuses what does not go together
    pinned = None if args.pinned is None else rows.find_label(args.pinned, classes, "--pinned")
    found = path_of_prices(
        X,
        y,
        Cs=asked,
        **({"l1_ratio": args.l1_ratio} if args.penalty is None else {}),
        penalty=models.asked_penalty(args),
        pinned=pinned,
        class_weight=rows.class_weights(args.class_weight, classes),
        **effort,
    )
    predictors = [LinearModel(found.classes, *each) for each in zip(found.coefs, found.intercepts, strict=True)]
    columns = (found.Cs.tolist(), predictors, found.certificates, found.statuses, found.n_iters)
    return [Point(*each) for each in zip(*columns, strict=True)]


def choose(args: Namespace, X: Any, y: Array) -> Chosen:
    """Score every point of the grid on rows that its model has not seen, and take the best; of equals the first."""
    grid = [point.value for point in path_points(args, X, y)]
    splitter = check_cv(args.cv, y, classifier=args.model not in REGRESSORS)
    scores: list[list[float]] = []
    try:
        folds = list(splitter.split(X, y))
    except ValueError as problem:
        raise DataError(f"{args.cv} folds cannot be made of {len(y)} rows: {problem}") from problem
    for train, test in folds:
        note(args, f"fold {len(scores) + 1} of {args.cv}")
        points = path_points(args, X[train], y[train], np.array(grid))
        scores.append([point.score(X[test], y[test]) for point in points])
    means = np.mean(scores, axis=0)
    return Chosen(grid[int(np.argmax(means))], grid, means.tolist())
