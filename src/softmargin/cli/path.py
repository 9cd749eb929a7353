"""`softmargin path`: a model for every C or radius of a grid, each from the last; and the choice of one by folds.

model           what varies      by                 score
softmax         C                softmax_path       share of rows labelled right
an SVM          C                svm_path           the same
a ball          the radius       radius_path        the same; R^2 of a regressor
"""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

import softmargin as sm
from softmargin.cli import fit_rows, models, rows
from softmargin.cli.choices import BALLS, KERNEL_DEFAULTS, POINTS, REGRESSORS
from softmargin.cli.exit_codes import NOT_CERTIFIED
from softmargin.cli.show import print_json, print_table
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.models import LinearModel
from softmargin.run import Status

Array = NDArray[Any]
# The estimator of a model, and the one that chooses what varies.
ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "softmax": (sm.SoftmaxRegression, sm.SoftmaxRegressionCV),
    "linear-svc": (sm.LinearSVC, sm.LinearSVCCV),
    "kernel-svc": (sm.KernelSVC, sm.KernelSVCCV),
    "l1-ball": (sm.L1BallClassifier, sm.L1BallClassifierCV),
    "trace-ball": (sm.TraceBallClassifier, sm.TraceBallClassifierCV),
    "l1-ball-regressor": (sm.L1BallRegressor, sm.L1BallRegressorCV),
    "trace-ball-regressor": (sm.TraceBallRegressor, sm.TraceBallRegressorCV),
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
        """How many weights are not zero, of which rank they are, or how many support vectors there are."""
        if hasattr(self.predictor, "support_"):
            return f"{len(self.predictor.support_)} vectors"
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
    scores: list[float]  # mean over the folds; NaN where it could not be the best


def what_varies(args: Namespace) -> str:
    """Name what a path of the model varies."""
    return "radius" if args.model in (*BALLS, *REGRESSORS) else "C"


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


def path_points(args: Namespace, X: Any, y: Array) -> list[Point]:
    """Return the models of the path."""
    asked, own = args.grid or args.points or POINTS, _settings(args, y)
    if args.model == "softmax":
        if args.penalty is not None:
            del own["l1_ratio"]
        found = sm.softmax_path(X, y, Cs=asked, **own)
        predictors = [LinearModel(found.classes, *each) for each in zip(found.coefs, found.intercepts, strict=True)]
        columns = (found.Cs.tolist(), predictors, found.certificates, found.statuses, found.n_iters)
        return [Point(*each) for each in zip(*columns, strict=True)]
    if args.model in ("linear-svc", "kernel-svc"):
        fitted = sm.svm_path(ESTIMATORS[args.model][0](**own), X, y, Cs=asked).estimators
    else:
        estimator = ESTIMATORS[args.model][0](radius=args.radius, **own)
        fitted = sm.radius_path(estimator, X, y, radii=asked).estimators
    name = what_varies(args)
    return [Point(getattr(each, name), each, each.certificate_, each.status_, each.n_iter_) for each in fitted]


def _settings(args: Namespace, y: Array) -> dict[str, Any]:
    """Return the settings of an estimator beside what varies."""
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


def choose(args: Namespace, X: Any, y: Array) -> Chosen:
    """Score every point of the grid on rows that its model has not seen, and take the best; of equals the first."""
    own = _settings(args, y)
    own |= {f"{name}s": [own.pop(name)] for name in ("gamma", "l1_ratio") if name in own}
    try:
        folds = list(check_cv(args.cv, y, classifier=args.model not in REGRESSORS).split(X, y))
    except ValueError as problem:
        raise DataError(f"{args.cv} folds cannot be made of {len(y)} rows: {problem}") from problem
    kind, grid = ESTIMATORS[args.model][1], args.grid or args.points or POINTS
    search = kind(grid, cv=folds, **own, refit=False).fit(X, y)
    found = np.ravel(search.Cs_ if what_varies(args) == "C" else search.radii_).tolist()
    means = search.scores_.mean(axis=0).ravel()
    return Chosen(found[int(np.nanargmax(means))], found, means.tolist())
