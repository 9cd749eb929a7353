"""Binary losses, one class against all others, beyond the SVMs with a ridge: logistic ones, and sparse ones.

    C sum_i loss(y_i s_i) + r |w|_1 + (1 - r) / 2 |w|^2  for every class          r = l1_ratio: 1 for l1, 0 for l2

LIBLINEAR -s 0, 5, 6, 7, and scikit-learn with it, penalises the intercept as the weight of a constant feature;
SGDClassifier, whose objective is this times its alpha, C = 1 / (n alpha), leaves it free.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, summed
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.svm import SvmData, SvmSettings
from softmargin.losses.entrywise import ENTRYWISE, Hinge, SmoothHinge
from softmargin.matrices.origin import near_zero
from softmargin.penalties import ElasticNet
from softmargin.problems import BallPoint, Penalized, softmax_problem
from softmargin.problems.block_rows import Block, Form
from softmargin.problems.blocks import LocalBlocks
from softmargin.problems.summed import PenalizedSum
from softmargin.run import Result, Status

__all__ = ["BINARY_LOSSES", "FEW_FEATURES", "certify_one_vs_rest"]

Array = NDArray[Any]
BINARY_LOSSES = ("hinge", "squared_hinge", "logistic")
_WIDTHS = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # over which the corner of a hinge is rounded off, one after the other; by hand
_SHARE = 0.1  # relative gap, in widths, to which each of them is solved; by hand
FEW_FEATURES = 300  # up to which hinges are solved by Newton's methods, whose models have a square of these; by hand
_MOST_STEPS = 50  # of these for one width: 2 to 30 in most cases; by hand


def certify_one_vs_rest(
    training: Training, data: SvmData, coef: Array, intercept: Array, l1_ratio: float
) -> Certificate:
    """Certify the weights (k, d) and free intercepts (k,) of binary problems; the gap is the sum of theirs."""
    penalty, pairs = ElasticNet(l1=l1_ratio, l2=1.0 - l1_ratio), data.binary_problems()
    part, X = training.among(len(pairs)), near_zero(data.X, data.settings.fit_intercept)
    return summed(
        [
            _certified(part, X, labels, prices, penalty, data.settings, w[:, None], np.array([b]))
            for (labels, prices), w, b in zip(pairs, coef, intercept, strict=True)
        ],
        1.0,
    )


def _certified(
    training: Training, X: Any, labels: Array, prices: Array, penalty: Any, settings: SvmSettings, W: Array, b: Array
) -> Certificate:
    has_bias = bool(settings.fit_intercept)
    if settings.loss == "logistic":
        softmax = softmax_problem(X, labels, C=prices, penalty=penalty, n_classes=2, fit_intercept=has_bias)
        return training.settled(softmax, softmax.point_of(W, b))
    target = 2.0 * labels - 1.0
    if settings.loss == "squared_hinge":
        loss = ENTRYWISE["squared_hinge"]  # half the square
        problem = Penalized(X, target, loss=loss, penalty=penalty, weights=2.0 * prices, fit_intercept=has_bias)
        return training.settled(problem, problem.point_of(W, b))
    return _certified_hinge(training, X, target, prices, penalty, has_bias, BallPoint(W, b))


def _certified_hinge(
    training: Training, X: Any, target: Array, prices: Array, penalty: Any, has_bias: bool, point: BallPoint
) -> Certificate:
    """Certify by dual points of hinges with a round corner, which are its own too: maths: penalised losses, eq. 3."""

    def problem(loss: Any, weights: Array) -> Penalized:
        return Penalized(X, target, loss=loss, penalty=penalty, weights=weights, fit_intercept=has_bias)

    hinge = problem(Hinge(), prices)
    point = hinge.point_of(*point[:2])
    certificate = hinge.certificate(point)
    if penalty.l1 == 0.0:
        return certificate.with_bound(training.bound(_over_a_block(hinge)))
    start: Any = None
    for width in _WIDTHS:
        if certificate.meets(training.stop.tol):
            break
        smooth = problem(SmoothHinge(width=width), prices / width)
        part = training.among(len(_WIDTHS))
        stop = part.stop._replace(tol=max(part.stop.tol, _SHARE * width))
        result = _minimised(part._replace(stop=stop), smooth, start)
        start = result.point
        scores = smooth.scores(start.weights)
        U = smooth.dual_point(scores, smooth.best_intercept(scores, start.intercept))
        certificate = certificate.with_bound(hinge.dual(U / width).lower)
        # The weights found show how far the bound itself may be off.
        is_tight = (hinge.primal(start).upper - certificate.bound) <= training.stop.tol * certificate.primal
        if is_tight or result.status is Status.MAX_ITER:
            break
    return certificate


def _minimised(training: Training, smooth: Penalized, start: BallPoint | None) -> Result:
    """Minimise a smooth problem of one column from a point, by Newton's method where features are few."""
    if smooth.shape[0] > FEW_FEATURES:
        return training.run(smooth, start)
    block = _over_a_block(smooth)
    init = None if start is None else block.warm_point(start.weights.T, start.intercept)
    result = training._replace(stop=training.stop._replace(max_iter=_MOST_STEPS)).run(block, init)
    coef, intercept = block.coef_and_intercept(result.point)
    return result._replace(point=BallPoint(coef.T, intercept))


def _over_a_block(problem: Penalized) -> PenalizedSum:
    """Return a problem of one column in the form for which there are Newton's methods."""
    block = Block(problem.X, problem.target[:, 0] > 0.0, problem.weights)
    form = Form(problem.loss, 1, float(problem.fit_intercept), problem.fit_intercept)
    return PenalizedSum(LocalBlocks([block]), form, problem.penalty)
