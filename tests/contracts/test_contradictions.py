"""Equal samples of different labels: they are found, their best split is exact, and descent takes few steps."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, infeasibility, random_alpha
from softmargin.data import blobs
from softmargin.kernels import Linear
from softmargin.losses import LOSSES
from softmargin.matrices.equal_rows import contradictions
from softmargin.matrices.gram import Gram
from softmargin.problems import L2SVM, MulticlassSVM, OneVsRest
from softmargin.run import Status, Stop, solve
from softmargin.solvers import DualBlockDescent, OneVsRestDescent
from softmargin.solvers.common.contradictions import slow_contradictions
from softmargin.solvers.squared_hinge._contradictions import split_anew
from softmargin.solvers.squared_hinge._descent_state import DescentTuning

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)


def drawn(n, d, k, seed):
    """Draw sparse samples of few values, so that many are equal."""
    rng = np.random.default_rng(seed)
    return (rng.random((n, d)) < 0.3) * rng.integers(-1, 2, size=(n, d)) * 1.5, rng.integers(0, k, size=n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_csr", [False, True])
def test_equal_samples_of_other_labels_are_found(as_csr, dtype):
    X, y = drawn(300, 5, 3, seed=0)
    X[::7] *= -0.0  # -0 is 0, in an array; CSR does not store it
    by_row = {}
    for i, row in enumerate((X + 0.0).tolist()):
        by_row.setdefault(tuple(row), []).append(i)
    expected = sorted(rows for rows in by_row.values() if len(set(y[rows])) > 1)
    assert 5 < len(expected) < len(by_row)
    data = csr_matrix(X, dtype=dtype) if as_csr else X.astype(dtype)
    for labels in (y, np.eye(3, dtype=np.int8)[y]):
        samples, sets = contradictions(data, labels)
        assert sorted(samples[sets == s].tolist() for s in range(sets.max(initial=-1) + 1)) == expected


def test_equal_samples_of_one_label_are_no_contradiction():
    samples, sets = contradictions(np.ones((4, 2)), np.zeros(4, dtype=np.int64))
    assert len(samples) == len(sets) == 0
    assert len(contradictions(np.empty((0, 2)), np.zeros(0))[0]) == 0


@both_losses
@pytest.mark.parametrize("is_warm", [False, True])
def test_raised_rows_keep_their_sums_and_two_labels_get_the_best_ones(multiclass, is_warm):
    """The best split of a given sum is a linear programme: Clarabel solves it for sets of two labels."""
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.integers(0, 2, size=12), rng.integers(0, 5, size=30)])
    sets = np.concatenate([np.repeat([0, 1], 6), np.repeat([2, 3], 15)])
    C = rng.uniform(0.5, 2.0, size=len(y))
    C[[3, 20]] = 0.0
    problem = MulticlassSVM(np.ones((len(y), 1)), y, C=C, multiclass=multiclass, n_classes=5)
    alpha = random_alpha(problem, rng) if is_warm else np.zeros((len(y), 5))
    new = LOSSES[multiclass].raised(alpha, y, C, sets)
    assert infeasibility(multiclass, new, y, C) <= 1e-14
    own = new[np.arange(len(y)), y]
    assert (own >= alpha[np.arange(len(y)), y] - 1e-14).all()
    for s in range(4):
        mine = sets == s
        np.testing.assert_allclose(new[mine].sum(axis=0), alpha[mine].sum(axis=0), atol=1e-12)
        assert own[mine].sum() > alpha[mine, y[mine]].sum() + 0.1
    if not is_warm:  # a warm start may have variables of a third class, which (35) does not trade
        for s in range(2):
            mine = sets == s
            assert own[mine].sum() == pytest.approx(_best_linear_term(y[mine], C[mine]), rel=1e-7)


def _best_linear_term(y, C):
    """Return the largest sum of b over two labels with no net force: b_i in [0, C_i]."""
    b = cp.Variable(len(y))
    signs = np.where(y == 0, 1.0, -1.0)
    return float(cp.Problem(cp.Maximize(cp.sum(b)), [b >= 0, b <= C, signs @ b == 0]).solve(solver="CLARABEL"))


@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("size", [0.0, 0.7, 5.0])
def test_the_split_of_two_sides_is_the_best_with_its_net_sum(is_squared, size):
    rng = np.random.default_rng(2)
    signs = np.where(rng.random((24, 2)) < 0.5, -1, 1).astype(np.int8)
    signs[:6, 1] = 1  # one side only
    sets, prices = np.repeat(np.arange(4), 6), rng.uniform(0.5, 2.0, size=(24, 2))
    alpha = size * rng.random((24, 2)) * (signs > 0) + 0.2 * rng.random((24, 2))
    alpha = alpha if is_squared else np.minimum(alpha, prices)
    new = split_anew(alpha, signs, prices, sets, is_squared=is_squared)
    np.testing.assert_array_equal(new[:6, 1], alpha[:6, 1])
    assert (new >= 0.0).all()
    assert is_squared or (new <= prices + 1e-14).all()
    for s in range(4):
        for c in range(2):
            mine, y = np.flatnonzero(sets == s), signs[sets == s, c]
            assert y @ new[mine, c] == pytest.approx(y @ alpha[mine, c], abs=1e-12)
            if abs(y.sum()) < len(y):
                value = new[mine, c].sum() - is_squared * 0.5 * (new[mine, c] ** 2 / prices[mine, c]).sum()
                assert value == pytest.approx(_best_value(alpha[mine, c], y, prices[mine, c], is_squared), rel=1e-6)


def _best_value(alpha, y, C, is_squared):
    a = cp.Variable(len(y))
    square = 0.5 * cp.sum(cp.multiply(cp.square(a), 1.0 / C)) if is_squared else 0.0
    within = [a >= 0.0, y.astype(float) @ a == y @ alpha] + ([] if is_squared else [a <= C])
    return float(cp.Problem(cp.Maximize(cp.sum(a) - square), within).solve(solver="CLARABEL"))


def twins(gap):
    """Draw long samples of which some come twice, but for a relative difference, with two labels."""
    X, y = blobs(40, 30, 3, seed=2)
    return csr_matrix(10.0 * np.vstack([X, (1.0 + gap) * X[:10]])), np.concatenate([y, (y[:10] + 1) % 3])


@both_losses
def test_joint_descent_takes_few_steps(multiclass):
    """Samples that are nearly equal need five times as many."""
    for gap, status in ((0.0, Status.CONVERGED), (1e-9, Status.MAX_ITER)):
        X, y = twins(gap)
        problem = MulticlassSVM(X, y, C=100.0, multiclass=multiclass, bias=1.0)
        assert solve(problem, DualBlockDescent(), stop=Stop(1e-3, 50), rng=0).status is status


@pytest.mark.parametrize(("is_squared", "steps"), [(False, 25), (True, 100)])
def test_one_vs_rest_descent_takes_few_steps(is_squared, steps):
    one_pass = OneVsRestDescent(DescentTuning(passes_of_step=1))
    for gap, status in ((0.0, Status.CONVERGED), (1e-9, Status.MAX_ITER)):
        X, y = twins(gap)
        gram = Gram(Linear(), X)
        if is_squared:
            parts = [L2SVM(gram, 2.0 * (y == c) - 1.0, C=10.0) for c in range(3)]
        else:
            parts = [MulticlassSVM(gram.X, y == c, n_classes=2, C=10.0, bias=1.0) for c in range(3)]
        assert solve(OneVsRest(parts), one_pass, stop=Stop(1e-3, steps), rng=0).status is status


def test_a_warm_start_from_a_smaller_price_is_raised():
    X, y = twins(0.0)
    small, large = (MulticlassSVM(X, y, C=C, bias=1.0) for C in (1.0, 100.0))
    init = solve(small, DualBlockDescent(), stop=Stop(1e-4, 1000), rng=0).point
    assert solve(large, DualBlockDescent(), stop=Stop(1e-3, 40), rng=0, init=init).status is Status.CONVERGED


def test_where_few_visits_suffice_nobody_looks():
    X, y = twins(0.0)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    for top, n in ((9.0, 0), (11.0, 20)):
        found, sets = slow_contradictions(X, y, top * np.ones(len(y)) / squares.max(), squares)
        assert len(found) == len(sets) == n
