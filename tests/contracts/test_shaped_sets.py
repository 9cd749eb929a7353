"""Sets of matrices as vectors, and hulls of given atoms: they keep the contract of sets, and meet CVXPY's optimum."""

import cvxpy as cp
import numpy as np
import pytest

from softmargin import MatrixSensing, certify, radius_path
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.losses.joint import JOINT
from softmargin.problems import Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import Hull, L1Ball, Shaped, TraceBall
from softmargin.solvers import (
    BallFrankWolfe,
    BallGradient,
    BallPrimalDual,
    BallStochasticFrankWolfe,
    BallSvrg,
    LowRankGradient,
    Scgs,
    Storc,
)

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
SOLVERS = {
    BallGradient(): 1e-7,
    BallSvrg(): 1e-6,
    BallPrimalDual(): 1e-5,
    BallFrankWolfe(): 2e-2,
    BallStochasticFrankWolfe(): 3e-2,
    Scgs(): 1e-2,
    Storc(): 1e-2,
}


def measurements(n=60, shape=(4, 5), seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, *shape))
    W = np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1]))
    return A, np.einsum("ijc,jc->i", A, W) + 0.1 * rng.standard_normal(n) + 0.3, float(np.linalg.norm(W, "nuc"))


def sensing_optimum(A, y, radius, l2, fit_intercept):
    W, b = cp.Variable(A.shape[1:]), cp.Variable() if fit_intercept else 0.0
    scores = A.reshape(len(A), -1) @ cp.vec(W, order="C") + b
    value = cp.sum_squares(scores - y) / (2.0 * len(y)) + 0.5 * l2 * cp.sum_squares(W)
    program = cp.Problem(cp.Minimize(value), [cp.normNuc(W) <= radius])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return program.value, W.value


# --- matrices as vectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_solver_of_any_set_senses_the_matrix_of_cvxpy(fit_intercept):
    A, y, size = measurements()
    for l2 in (0.1, 0.0):
        value, _ = sensing_optimum(A, y, 0.7 * size, l2, fit_intercept)
        ball = Shaped(TraceBall(0.7 * size), (4, 5))
        problem = Constrained(
            A.reshape(60, -1), y, loss=ENTRYWISE["squared"], ball=ball, l2=l2, fit_intercept=fit_intercept
        )
        for solver, tol in SOLVERS.items():
            result = solve(problem, solver, stop=Stop(tol, 5000), rng=0)
            assert result.status is Status.CONVERGED, solver
            assert value * (1 - 1e-7) <= result.certificate.primal <= value * (1 + 1.5 * tol)
            assert result.certificate.bound <= value * (1 + 1e-7)


def test_a_shaped_set_is_its_ball():
    rng, ball = np.random.default_rng(0), TraceBall(2.0)
    flat = Shaped(ball, (4, 3))
    V = 3.0 * rng.standard_normal((12, 1))
    M = V.reshape(4, 3)
    np.testing.assert_allclose(flat.project(V).reshape(4, 3), ball.project(M))
    corner = flat.lmo(V)
    np.testing.assert_allclose(corner.toarray().reshape(4, 3), ball.lmo(M).toarray())
    assert corner.shape == (12, 1)
    assert corner.inner(V) == pytest.approx(float(np.vdot(corner.toarray(), V)))
    assert corner.sqnorm() == pytest.approx(4.0)
    X = rng.standard_normal((5, 12))
    np.testing.assert_allclose(corner.times(X), X @ corner.toarray())
    W = np.zeros((12, 1))
    corner.add_to(W, 0.5)
    np.testing.assert_allclose(W, 0.5 * corner.toarray())
    assert flat.size(V) == pytest.approx(ball.size(M))
    for l2 in (0.0, 0.3):
        assert flat.least(V, l2) == pytest.approx(ball.least(M, l2))
        assert flat.least_below(V, l2, np.array([1e-3])).lower <= flat.least(V, l2)
    with pytest.raises(DataError, match="no matrices of shape"):
        flat.project(np.ones((11, 1)))


def test_the_estimator_senses_certifies_and_saves(tmp_path):
    A, y, size = measurements()
    X = A.reshape(60, -1)
    reg = MatrixSensing((4, 5), 0.7 * size, l2=0.01, tol=1e-8).fit(X, y)
    value, W = sensing_optimum(A, y, 0.7 * size, 0.01, True)
    assert reg.certificate_.primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(reg.coef_matrix_, W, atol=1e-3)
    np.testing.assert_allclose(reg.predict(X), X @ reg.coef_ + reg.intercept_)
    assert reg.is_on_boundary_
    path = radius_path(MatrixSensing((4, 5), size, l2=0.01), X, y, radii=3)
    assert (np.diff([certificate.primal for certificate in path.certificates]) < 0.0).all()
    reg.model().save(tmp_path / "model")
    for model in (reg, type(reg.model()).load(tmp_path / "model")):
        assert certify(model, X, y).residual <= 1e-4


def test_wrong_shapes_are_refused():
    A, y, _ = measurements()
    X = A.reshape(60, -1)
    for shape in ((4, 4), (20,), (4, 0), "ab", (2.5, 8)):
        with pytest.raises((DataError, IncompatibleError), match="shape"):
            MatrixSensing(shape).fit(X, y)
    with pytest.raises(DataError, match="one number"):
        MatrixSensing((4, 5)).fit(X, np.column_stack([y, y]))
    with pytest.raises(IncompatibleError, match="TraceBall"):
        MatrixSensing((4, 5), solver=LowRankGradient()).fit(X, y)


# --- hulls of atoms --------------------------------------------------------------------------------------------------


def hull_optimum(X, target, atoms, l2, loss=ENTRYWISE["squared"]):
    lam = cp.Variable(len(atoms), nonneg=True)
    w = atoms.T @ lam
    scores = X @ w
    losses = (
        0.5 * cp.square(scores - target) if loss is ENTRYWISE["squared"] else cp.logistic(-cp.multiply(target, scores))
    )
    value = cp.sum(losses) / len(target) + 0.5 * l2 * cp.sum_squares(w)
    program = cp.Problem(cp.Minimize(value), [cp.sum(lam) == 1.0])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return program.value


@pytest.mark.parametrize("seed", range(5))
def test_projections_on_a_hull_are_those_of_cvxpy(seed):
    rng = np.random.default_rng(seed)
    atoms, V = rng.standard_normal((12, 4)), 2.0 * rng.standard_normal((4, 1))
    hull = Hull(atoms)
    lam = cp.Variable(12, nonneg=True)
    program = cp.Problem(cp.Minimize(cp.sum_squares(atoms.T @ lam - V[:, 0])), [cp.sum(lam) == 1.0])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    W = hull.project(V)
    np.testing.assert_allclose(W[:, 0], atoms.T @ lam.value, atol=1e-5)
    assert hull.excess(W) < 1e-10
    assert hull.excess(W + 0.01) == np.inf
    np.testing.assert_allclose(hull.project(W), W, atol=1e-12)
    G = rng.standard_normal((4, 1))
    assert hull.lmo(G).inner(G) == pytest.approx((atoms @ G).min())
    for l2 in (0.0, 0.5):
        least = hull.least(G, l2)
        below = hull.least_below(G, l2, np.full(1, 1e-3))
        assert below.lower <= least
        assert least - below.lower <= 1e-2
        for point in atoms:
            assert least <= 0.5 * l2 * point @ point + point @ G[:, 0] + 1e-12
        reached = hull.project(-G / l2) if l2 > 0.0 else hull.lmo(G).toarray()
        assert least == pytest.approx(
            0.5 * l2 * float(np.vdot(reached, reached)) + float(np.vdot(G, reached)), abs=1e-9
        )


@pytest.mark.parametrize("l2", [0.1, 0.0])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_solvers_reach_the_optimum_over_a_hull(loss, l2):
    rng = np.random.default_rng(3)
    X, atoms = rng.standard_normal((50, 4)), rng.standard_normal((15, 4)) + 0.5
    target = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.3 * rng.standard_normal(50)
    target = np.sign(target) if loss == "logistic" else target
    problem = Constrained(X, target, loss=ENTRYWISE[loss], ball=Hull(atoms), l2=l2)
    value = hull_optimum(X, target, atoms, l2, ENTRYWISE[loss])
    for solver, tol in SOLVERS.items():
        result = solve(problem, solver, stop=Stop(tol, 5000), rng=0)
        assert result.status is Status.CONVERGED, solver
        assert value * (1 - 1e-7) <= result.certificate.primal <= value * (1 + 1.5 * tol)


def test_the_hull_of_signed_units_is_the_l1_ball():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.eye(3)[rng.integers(0, 3, 40)]
    units = np.concatenate([sign * 0.5 * np.eye(9).reshape(9, 3, 3) for sign in (1.0, -1.0)])
    problems = [
        Constrained(X, y, loss=JOINT["multinomial"], ball=ball, l2=0.1, fit_intercept=True)
        for ball in (Hull(units), L1Ball(0.5))
    ]
    values = [solve(problem, BallGradient(), stop=Stop(1e-8, 3000), rng=0).certificate.primal for problem in problems]
    assert values[0] == pytest.approx(values[1], rel=1e-7)
    assert problems[0].fingerprint() != problems[1].fingerprint()


def test_atoms_that_are_none_are_refused():
    for atoms in (np.zeros((0, 3)), np.ones(3), np.full((2, 2), np.nan)):
        with pytest.raises(DataError, match="atoms have shape"):
            Hull(atoms)
