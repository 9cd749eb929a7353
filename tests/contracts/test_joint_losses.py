"""Losses of rows over a ball: they agree with their conjugates, and solvers reach the optimum of CVXPY."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.ball_optimum import BALLS, FORMS, joint_losses, make, optimum
from softmargin import L1BallClassifier, SoftmaxRegression, TraceBallClassifier
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.losses.entrywise import ENTRYWISE, Hinge
from softmargin.losses.joint import JOINT
from softmargin.problems import Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import L1Ball
from softmargin.solvers import (
    BallBlockFrankWolfe,
    BallDualDescent,
    BallFrankWolfe,
    BallGradient,
    BallPairwise,
    BallPrimalDual,
    BallSvrg,
    BallWorkingSet,
    LowRankGradient,
    LowRankPDBFW,
    PrimalDualBFW,
    Scgs,
    Storc,
)

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
HINGES = [name for name in JOINT if name != "multinomial"]
every_loss = pytest.mark.parametrize("name", JOINT)
every_hinge = pytest.mark.parametrize("name", HINGES)
every_ball = pytest.mark.parametrize("ball", BALLS)


def rows(n=40, k=4, seed=0, scale=3.0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((n, k)), np.eye(k)[rng.integers(0, k, n)], rng


@every_loss
def test_values_are_those_of_cvxpy(name):
    S, T, _ = rows()
    expected = joint_losses(JOINT[name], cp.Constant(S), T).value
    np.testing.assert_allclose(JOINT[name].value(S, T)[:, 0], expected, rtol=1e-12)


@every_loss
def test_a_slope_supports_the_loss_and_meets_its_conjugate(name):
    loss, (S, T, rng) = JOINT[name], rows()
    U = loss.slope(S, T)
    np.testing.assert_allclose(U.sum(axis=1), 0.0, atol=1e-12)
    together = (U * S).sum(axis=1)
    np.testing.assert_allclose((loss.value(S, T) + loss.conjugate(U, T))[:, 0], together, atol=1e-10)
    for _ in range(20):
        other = S + rng.standard_normal(S.shape)
        rise = (loss.value(other, T) - loss.value(S, T))[:, 0]
        assert (rise >= (U * (other - S)).sum(axis=1) - 1e-12).all()
        V = loss.slope(other, T)
        assert (loss.value(S, T)[:, 0] + loss.conjugate(V, T)[:, 0] >= (V * S).sum(axis=1) - 1e-10).all()
    assert np.isinf(loss.conjugate(U + 0.5 - T, T)).any()
    assert (loss.conjugate(np.zeros_like(U), T) == 0.0).all()


def test_the_bend_of_the_multinomial_loss_is_the_difference_of_slopes():
    loss, (S, T, rng) = JOINT["multinomial"], rows(scale=1.0)
    move = rng.standard_normal(S.shape)
    difference = (loss.slope(S + 1e-5 * move, T) - loss.slope(S - 1e-5 * move, T)) / 2e-5
    bend = loss.bend_along(S, T, move)
    np.testing.assert_allclose(bend[:, 0], (difference * move).sum(axis=1), atol=1e-8)
    assert (bend[:, 0] <= loss.curvature * (move**2).sum(axis=1)).all()


@every_hinge
@pytest.mark.parametrize("r", [1e-3, 0.3, 1e3])
def test_a_dual_step_of_a_hinge_is_the_maximiser_of_cvxpy(name, r):
    loss, (S, T, rng) = JOINT[name], rows(n=12)
    first = loss.slope(S + rng.standard_normal(S.shape), T)
    step = loss.dual_step(first, S, T, r)
    V = cp.Variable(S.shape)
    off = cp.multiply(1.0 - T, V)
    inside = [off >= 0.0, cp.sum(V, axis=1) == 0.0]
    inside += [cp.sum(off, axis=1) <= 1.0] if name == "crammer_singer" else [off <= 1.0]
    value = cp.sum(cp.multiply(S - T, V)) - cp.sum_squares(V - first) / (2.0 * r)
    cp.Problem(cp.Maximize(value), inside).solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    np.testing.assert_allclose(step, V.value, atol=1e-5)
    assert np.isfinite(loss.conjugate(step, T)).all()
    again = loss.dual_step(loss.slope(S, T), S, T, r)
    np.testing.assert_allclose(again, loss.slope(S, T), atol=1e-12)  # the slope is where it stays


SMOOTH = {  # with the relative gap that each reaches in a short time
    "l1": {
        BallGradient(): 1e-8,
        BallWorkingSet(): 1e-8,
        BallBlockFrankWolfe(): 1e-6,
        BallFrankWolfe(): 2e-2,
        BallSvrg(): 1e-6,
        Scgs(): 1e-3,
        Storc(): 1e-3,
    },
    "trace": {LowRankGradient(): 1e-8, BallBlockFrankWolfe(): 1e-6, BallFrankWolfe(): 2e-2, BallSvrg(): 1e-6},
}


@every_ball
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_smooth_solvers_reach_the_optimum_of_the_multinomial_loss(ball, fit_intercept):
    for l2 in (0.1, 0.0):
        problem = make("multinomial", ball, l2=l2, fit_intercept=fit_intercept)
        value = optimum(problem)[0]
        for solver, tol in SMOOTH[ball].items():
            result = solve(problem, solver, stop=Stop(tol, 2000), rng=0)
            assert result.status is Status.CONVERGED, solver
            assert result.certificate.bound <= value * (1 + 1e-7)
            assert value * (1 - 1e-7) <= result.certificate.primal <= value * (1 + 1.5 * tol + 1e-7)


@every_hinge
@every_ball
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_primal_dual_method_reaches_the_optimum_of_joint_hinges(name, ball, fit_intercept):
    for l2 in (0.1, 0.0):
        problem = make(name, ball, l2=l2, fit_intercept=fit_intercept)
        value = optimum(problem)[0]
        result = solve(problem, BallPrimalDual(), stop=Stop(1e-6, 20_000), rng=0)
        assert result.status is Status.CONVERGED
        assert result.certificate.bound <= value * (1 + 1e-7)
        assert value * (1 - 1e-7) <= result.certificate.primal <= value * (1 + 2e-6)


@every_ball
@pytest.mark.parametrize("loss", ["smooth_hinge", "logistic"])
def test_the_primal_dual_method_solves_smooth_losses_too(loss, ball):
    for fit_intercept in (True, False):
        problem = make(loss, ball, fit_intercept=fit_intercept)
        result = solve(problem, BallPrimalDual(), stop=Stop(1e-6, 20_000), rng=0)
        assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=2e-6)


@every_loss
def test_weights_of_samples_and_forms_of_X_count(name):
    weights = np.tile([0.0, 0.01, 0.03], 20)
    solver = BallGradient() if name == "multinomial" else BallPrimalDual()
    least = optimum(make(name, weights=weights, fit_intercept=True))[0]
    for form in FORMS.values():
        problem = make(name, weights=weights, fit_intercept=True, form=form)
        result = solve(problem, solver, stop=Stop(1e-6, 20_000), rng=0)
        assert result.certificate.primal == pytest.approx(least, rel=2e-6)


@pytest.mark.parametrize("name", ["multinomial", "crammer_singer"])
def test_a_class_without_samples_costs_nothing(name):
    X, y = blobs(40, 3, 3, seed=0)
    for fit_intercept in (True, False):
        problem = Constrained(X, np.eye(4)[y], loss=JOINT[name], ball=L1Ball(1.0), l2=0.1, fit_intercept=fit_intercept)
        solver = BallGradient() if name == "multinomial" else BallPrimalDual()
        assert solve(problem, solver, stop=Stop(1e-4, 5000), rng=0).status is Status.CONVERGED


def test_targets_of_another_kind_are_refused():
    X = np.ones((3, 2))
    for target in (np.ones((3, 1)), np.ones((3, 2)), np.zeros((3, 2)), np.array([[0.5, 0.5]] * 3)):
        with pytest.raises(DataError, match="one 1 in every row"):
            Constrained(X, target, loss=JOINT["multinomial"], ball=L1Ball(1.0))


def test_solvers_that_cannot_say_so():
    hinge, softmax = make("crammer_singer"), make("multinomial")
    for solver in (BallGradient(), BallWorkingSet(), BallFrankWolfe(), BallSvrg(), Scgs(), Storc()):
        with pytest.raises(IncompatibleError, match="smooth loss"):
            solve(hinge, solver, stop=Stop(max_iter=1))
    with pytest.raises(IncompatibleError, match="smooth loss"):
        solve(make("weston_watkins", "trace"), LowRankGradient(), stop=Stop(max_iter=1))
    for solver in (BallPrimalDual(), PrimalDualBFW(), BallDualDescent()):
        with pytest.raises(IncompatibleError, match=r"dual step|compiled form"):
            solve(softmax, solver, stop=Stop(max_iter=1))
    with pytest.raises(IncompatibleError, match="dual step"):
        solve(make("multinomial", "trace"), LowRankPDBFW(), stop=Stop(max_iter=1))
    with pytest.raises(IncompatibleError, match="conjugate is smooth"):
        solve(make("weston_watkins", "trace"), LowRankPDBFW(steps="paper"), stop=Stop(max_iter=1))
    with pytest.raises(IncompatibleError, match="entrywise"):
        solve(softmax, BallPairwise(), stop=Stop(max_iter=1))


# --- estimators ------------------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("classifier", [L1BallClassifier, TraceBallClassifier])
def test_classifiers_reach_the_optimum_of_joint_losses(name, classifier):
    X, y = blobs(60, 5, 3, seed=0, separation=0.7)
    clf = classifier(0.5, l2=0.1, loss=name, tol=1e-6, max_iter=20_000).fit(csr_matrix(X), np.array(list("abc"))[y])
    problem = Constrained(X, np.eye(3)[y], loss=JOINT[name], ball=clf._ball(0.5), l2=0.1, fit_intercept=True)
    assert clf.certificate_.primal == pytest.approx(optimum(problem)[0], rel=2e-6)
    assert clf.status_ == "converged"
    assert clf.is_on_boundary_
    assert set(clf.predict(X)) <= set("abc")
    assert hasattr(clf, "predict_proba") == (name == "multinomial")


def test_in_a_wide_ball_the_multinomial_loss_is_softmax_regression():
    X, y = blobs(80, 5, 3, seed=0, separation=0.7)
    peer = SoftmaxRegression(C=1.0 / (80 * 0.05), tol=1e-9).fit(X, y)
    with pytest.warns(UserWarning, match="radius"):
        clf = TraceBallClassifier(1e3, l2=0.05, loss="multinomial", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), peer.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X))


@every_loss
def test_two_classes_have_one_row_of_weights(name):
    X, y = blobs(60, 5, 2, seed=0, separation=0.7)
    clf = L1BallClassifier(0.5, l2=0.1, loss=name, tol=1e-6, max_iter=20_000).fit(X, y)
    loss = ENTRYWISE["logistic"] if name == "multinomial" else Hinge()
    problem = Constrained(X, 2.0 * y - 1.0, loss=loss, ball=L1Ball(0.5), l2=0.1, fit_intercept=True)
    solver = BallGradient() if name == "multinomial" else BallPrimalDual()
    peer = solve(problem, solver, stop=Stop(1e-7, 20_000), rng=0)
    assert clf.coef_.shape == (1, 5)
    assert clf.certificate_.primal == pytest.approx(peer.certificate.primal, rel=2e-6)
    if name == "multinomial":
        np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0)


def test_what_joint_losses_cannot_do_is_said():
    X, y = blobs(30, 4, 3, seed=0)
    with pytest.raises(DataError, match=r"multinomial.*one class per sample"):
        TraceBallClassifier(loss="multinomial").fit(X, np.eye(3, dtype=int)[y] | np.eye(3, dtype=int)[(y + 1) % 3])
    with pytest.raises(IncompatibleError, match="primal_dual"):
        TraceBallClassifier(loss="crammer_singer", solver="frank_wolfe").fit(X, y)
