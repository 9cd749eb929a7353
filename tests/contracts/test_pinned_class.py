"""A class whose weights are zero, as in paper 003: the optimum of CVXPY, its certificate, and what models remember."""

import cvxpy as cp
import numpy as np
import pytest

from reference.softmax_optimum import softmax_optimum
from softmargin import (
    BlockProxGradient,
    DataError,
    IncompatibleError,
    SoftmaxRegression,
    SoftmaxRegressionCV,
    certify,
    load_model,
    penalties,
    softmax_path,
)
from softmargin.data import blobs
from softmargin.estimators.posing.softmax import convex_relative, described, read_penalty
from softmargin.testing import check_penalty

PRICE = 0.7
BASES = {
    "l2": (penalties.L2(1.0), lambda W: 0.5 * cp.sum_squares(W)),
    "group": (penalties.Group(0.8), lambda W: 0.8 * cp.sum(cp.norm(W, axis=1))),
}


@pytest.fixture(scope="module")
def data():
    X, y = blobs(60, 4, 3, seed=0, separation=0.6)
    return X, np.array(["a", "b", "c"])[y], y


@pytest.mark.parametrize("base", [penalties.ElasticNet(0.3, 0.2), penalties.Box(0.2, 1.0), penalties.GroupMCP(1.0)])
def test_pinned_penalty_keeps_the_contract(base):
    check_penalty(penalties.Pinned(base, 2))


@pytest.mark.parametrize(
    ("name", "column", "solver"),
    [
        ("l2", 2, "auto"),
        ("l2", 0, BlockProxGradient(order="cyclic", constants="paper", working_set=False)),
        ("group", 1, "accelerated_gradient"),
    ],
)
def test_weights_are_the_optimum_of_the_pinned_problem(data, name, column, solver):
    X, labels, y = data
    base, expression = BASES[name]
    best, W, b = softmax_optimum(X, y, PRICE, lambda W: (expression(W), [W[:, column] == 0]), n_classes=3)
    clf = SoftmaxRegression(C=PRICE, penalty=base, pinned="abc"[column], solver=solver, tol=1e-9).fit(X, labels)
    assert clf.status_ == "converged"
    assert clf.certificate_.bound <= best * (1 + 1e-9)
    assert clf.certificate_.primal == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(clf.coef_, W.T, atol=1e-3)
    np.testing.assert_allclose(clf.intercept_, b - b[column], atol=1e-3)
    assert not clf.coef_[column].any()
    assert clf.intercept_[column] == 0.0


def test_model_remembers_what_was_pinned(data, tmp_path):
    X, labels, _ = data
    clf = SoftmaxRegression(C=PRICE, pinned="b", tol=1e-6).fit(X, labels)
    clf.model().save(tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert model.info["penalty"] == {"name": "Pinned", "base": described(penalties.L2(1.0)), "class_code": 1.0}
    assert certify(model, X, labels).residual <= 1e-6
    free = SoftmaxRegression(C=PRICE, tol=1e-6).fit(X, labels)
    assert clf.certificate_.bound > free.certificate_.primal


def test_path_and_cross_validation_pin_the_class_too(data):
    X, labels, _ = data
    path = softmax_path(X, labels, Cs=4, l1_ratio=0.0, pinned="c", tol=1e-4)
    assert not path.coefs[:, 2].any()
    assert not path.intercepts[:, 2].any()
    grid = [0.1, np.inf]
    unpenalised = softmax_path(X, labels, Cs=grid, l1_ratio=0.0, pinned="c", tol=1e-4)
    assert not unpenalised.coefs[:, 2].any()
    cv = SoftmaxRegressionCV(Cs=grid[:1], cv=2, pinned="c").fit(X, labels)
    assert not cv.coef_[2].any()
    # A group penalty has a C at which all weights leave zero, and pinning moves it.
    penalty, solver = penalties.Pinned(penalties.Group(1.0), 2), "accelerated_gradient"
    least = softmax_path(X, labels, Cs=3, penalty=penalty, solver=solver, tol=1e-6)
    np.testing.assert_allclose(least.coefs[0], 0.0, atol=1e-12)
    assert np.abs(least.coefs[1]).max() > 0.01


def test_relatives_and_files_of_pinned_penalties():
    pinned = penalties.Pinned(penalties.MCP(0.4), 1.0)
    assert convex_relative(pinned) == penalties.Pinned(penalties.L1(0.4), 1.0)
    assert read_penalty(described(pinned)) == pinned


@pytest.mark.parametrize(
    ("pinned", "k", "error", "complaint"),
    [
        ("d", 3, DataError, "one of the labels"),
        (["a"], 3, DataError, "one of the labels"),
        ("a", 2, IncompatibleError, "of two classes the first has no weights anyway"),
    ],
)
def test_what_cannot_be_pinned_is_refused(data, pinned, k, error, complaint):
    X, labels, y = data
    with pytest.raises(error, match=complaint):
        SoftmaxRegression(pinned=pinned).fit(X[y < k], labels[y < k])


def test_ridge_solvers_and_strange_columns_are_refused(data):
    X, labels, _ = data
    with pytest.raises(IncompatibleError, match="not softmax ones"):
        SoftmaxRegression(pinned="a", solver="newton").fit(X, labels)
    with pytest.raises(DataError, match="below the number of classes"):
        SoftmaxRegression(penalty=penalties.Pinned(penalties.L2(), 3)).fit(X, labels)
    with pytest.raises(DataError, match="whole number"):
        SoftmaxRegression(penalty=penalties.Pinned(penalties.L2(), 0.5)).fit(X, labels)
