"""`softmargin path`: a model for every C or radius of a grid, each from the last.

model           what varies      by                 score
softmax         C                softmax_path       share of rows labelled right
an SVM          C                svm_path           the same
a ball          the radius       radius_path        the same; R^2 of a regressor
"""

import sys
from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import softmargin as sm
from softmargin.cli import fit_rows, models
from softmargin.cli.choices import POINTS, REGRESSORS, SEARCHED
from softmargin.cli.estimators import ESTIMATORS, settings
from softmargin.cli.exit_codes import NOT_CERTIFIED
from softmargin.cli.show import print_json, print_table
from softmargin.core.certificate import Certificate
from softmargin.core.errors import visible
from softmargin.models import LinearModel
from softmargin.run import Status

Array = NDArray[Any]


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


def what_varies(args: Namespace) -> str:
    """Name what a path of the model varies."""
    return SEARCHED[args.model][0]


def run(args: Namespace) -> int:
    """Train along the grid, print a line for every point, and return the exit code."""
    models.fill_defaults(args)
    parts = fit_rows.load(args)
    dataset = parts.dataset
    X, scaling = fit_rows.prepared(dataset.X, args, dataset.name)
    test = None
    if dataset.X_test is not None:
        source = fit_rows.test_name(args, dataset)
        test = fit_rows.like_training(dataset.X_test, scaling, X.shape[1], source), dataset.y_test
    points = path_points(args, X, dataset.y)
    lines = [_line(point, (X, dataset.y), test) for point in points]
    if args.json:
        which = {"trained_on": parts.trained_on, "tested_on": parts.tested_on}
        print_json({"data": dataset.name, **which, "model": args.model, "varies": what_varies(args), "points": lines})
    else:
        score = "R^2" if args.model in REGRESSORS else "accuracy"
        for name, of in (("train", parts.trained_on), ("test", parts.tested_on)):
            sys.stdout.write("" if of is None else f"{name}: {score} on {visible(of)}\n")
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
    asked, own = args.grid or args.points or POINTS, settings(args, y)
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
