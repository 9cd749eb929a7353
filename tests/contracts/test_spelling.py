"""Settings as scikit-learn spells them: the same model where they mean the same, else an error that names our word."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC as SklearnLinearSVC

from softmargin import KernelSVC, LinearSVC, SoftmaxRegression, SoftmaxRegressionCV, certify
from softmargin.core.errors import IncompatibleError
from softmargin.penalties import L1


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 4))
    return X, (X @ rng.normal(size=(4, 3)) + rng.normal(size=(150, 3))).argmax(axis=1)


def test_the_line_of_a_linear_svc_is_taken_as_it_stands(data):
    words = {"C": 0.4, "penalty": "l2", "loss": "hinge", "dual": True, "multi_class": "ovr"}
    ours = LinearSVC(**words, tol=1e-8, max_iter=-1).fit(*data)
    theirs = SklearnLinearSVC(**words, tol=1e-10, max_iter=10**6).fit(*data)
    assert ours.multiclass == "one_vs_rest"
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_parameters_keep_our_names():
    known = clone(LinearSVC(multi_class="crammer_singer", dual="auto")).get_params()
    assert known["multiclass"] == "crammer_singer"
    assert not {"multi_class", "dual", "penalty"} & known.keys()
    assert "shrinking" not in KernelSVC(shrinking=False).get_params()


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (LinearSVC, {"multi_class": "multinomial"}, "multiclass= 'weston_watkins'"),
        (LinearSVC, {"multi_class": ["ovr"]}, "takes multi_class='ovr'"),
        (LinearSVC, {"penalty": "l1"}, "SoftmaxRegression"),
        (LinearSVC, {"multi_class": "ovr", "multiclass": "crammer_singer"}, "contradict"),
        (SoftmaxRegression, {"multi_class": "ovr"}, "OneVsRestClassifier"),
        (KernelSVC, {"shrinking": "yes"}, "takes shrinking=True, False"),
    ],
)
def test_what_we_do_not_have_is_refused_with_what_we_have(kind, words, message):
    with pytest.raises(IncompatibleError, match=message):
        kind(**words)


def test_a_word_of_nobody_is_an_error_of_python():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        LinearSVC(colour="blue")


@pytest.mark.parametrize(("penalty", "ratio"), [("l2", 0.0), ("l1", 1.0), ("elasticnet", 0.5), (None, 0.0)])
def test_penalties_mean_what_they_mean_in_logistic_regression(data, penalty, ratio):
    ours = SoftmaxRegression(C=0.3, penalty=penalty, l1_ratio=ratio, tol=1e-9, max_iter=100_000).fit(*data)
    C = np.inf if penalty is None else 0.3
    theirs = LogisticRegression(C=C, l1_ratio=ratio, solver="saga", tol=1e-10, max_iter=10**6, random_state=0)
    np.testing.assert_allclose(ours.predict_proba(data[0]), theirs.fit(*data).predict_proba(data[0]), atol=2e-4)


def test_a_model_without_a_penalty_remembers_that_it_has_none(data):
    clf = SoftmaxRegression(C=5.0, penalty=None).fit(*data)
    free = SoftmaxRegression(C=np.inf).fit(*data)
    assert clf.model().info["C"] == free.model().info["C"] == np.inf
    assert certify(clf, *data).primal == certify(free, *data).primal


@pytest.mark.parametrize("penalty", ["l2", None, L1(1.0)])
def test_an_l1_ratio_that_means_nothing_is_refused(data, penalty):
    with pytest.raises(IncompatibleError, match="l1_ratio is for penalty='elasticnet'"):
        SoftmaxRegression(penalty=penalty, l1_ratio=0.3).fit(*data)


def test_cross_validation_tries_the_ratio_that_a_penalty_names(data):
    assert SoftmaxRegressionCV(Cs=[0.1, 1.0], penalty="l1", cv=2).fit(*data).l1_ratio_ == 1.0
    with pytest.raises(IncompatibleError, match="no C to choose"):
        SoftmaxRegressionCV(penalty=None).fit(*data)
