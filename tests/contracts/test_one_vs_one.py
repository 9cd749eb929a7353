"""One-vs-one: LIBSVM's problems and votes, held against scikit-learn's SVC and against each pair on its own."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_wine
from sklearn.svm import SVC, NuSVC

from softmargin import KernelSVC, LinearSVC, certify
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.kernels import Points, Rbf
from softmargin.kernels.rbf_loop import rbf_values
from softmargin.matrices.pair_gram import PairGram
from softmargin.models import LinearOneVsOne, OneVsOne, load_model, read_libsvm_model, write_libsvm_model
from softmargin.problems.hinge_svm import HingeSVM
from softmargin.problems.one_vs_one import KernelOneVsOne
from softmargin.solvers.one_vs_one.each_pair import EachPair


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.array(["red", "green", "blue"])[y]


def pairs_of(C=10.0, **settings):
    return KernelSVC(C, multiclass="one_vs_one", fit_intercept="free", tol=1e-8, random_state=0, **settings)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_it_is_scikit_learns_svc(wine, kernel):
    X, y = wine
    rng = np.random.default_rng(0)
    weights, new = rng.uniform(0.5, 2.0, len(y)), X[::3] + 0.7 * rng.normal(size=X[::3].shape)
    same = {"kernel": kernel, "gamma": 0.05, "class_weight": {"red": 2.0}}
    ours, theirs = pairs_of(**same).fit(X, y, weights), SVC(C=10.0, tol=1e-9, **same).fit(X, y, weights)
    certificate = certify(theirs, X, y, sample_weight=weights, bound_tol=1e-3)  # the bound is their own dual value
    assert ours.certificate_.primal == pytest.approx(certificate.bound, rel=1e-6)
    assert certificate.residual < 1e-4
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))
    np.testing.assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-4)
    ours.decision_function_shape = theirs.decision_function_shape = "ovo"
    np.testing.assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-3)
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("fit_intercept", [True, False, "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kind", [KernelSVC, LinearSVC])
def test_the_objective_is_the_sum_over_the_pairs(kind, loss, fit_intercept):
    X, y = blobs(60, 3, 3, seed=1, separation=1.0)
    settings = {"loss": loss, "fit_intercept": fit_intercept, "tol": 1e-6, "random_state": 0}
    settings |= {"gamma": 0.3} if kind is KernelSVC else {}
    whole = kind(2.0, multiclass="one_vs_one", **settings).fit(X, y)
    total = 0.0
    for c, e in ((0, 1), (0, 2), (1, 2)):
        rows = (y == c) | (y == e)
        total += kind(2.0, multiclass="one_vs_rest", **settings).fit(X[rows], y[rows]).certificate_.primal
    assert whole.status_ == "converged"
    assert whole.certificate_.primal == pytest.approx(total, rel=3e-6)
    assert certify(whole, X, y).primal == pytest.approx(whole.certificate_.primal, rel=1e-9)
    whole.warm_start = True
    assert whole.fit(X, y).n_iter_ == 0


def test_kernel_values_that_do_not_fit_are_computed_again():
    X, y = blobs(150, 4, 5, seed=0, separation=1.0)
    ample, scarce = (pairs_of(1.0, cache_size=size).fit(X, y) for size in (1000.0, 1e-3))
    assert scarce.status_ == "converged"
    assert scarce.certificate_.primal == pytest.approx(ample.certificate_.primal, rel=1e-7)


def test_sparse_given_and_narrow_rows_are_the_same_problem(wine):
    X, y = wine
    dense = pairs_of(gamma=0.1).fit(X, y)
    sparse = pairs_of(gamma=0.1).fit(csr_matrix(X), y)
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    given = pairs_of(kernel="precomputed").fit(K, y)
    narrow = pairs_of(gamma=0.1).set_params(tol=1e-4).fit(X.astype(np.float32), y)
    for other, rows in ((sparse, csr_matrix(X)), (given, K)):
        assert other.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-7)
        np.testing.assert_allclose(other.decision_function(rows), dense.decision_function(X), atol=1e-4)
    assert narrow.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-3)


def test_two_classes_are_the_plain_problem(wine):
    X, y = wine
    X, y = X[y != "red"], y[y != "red"]
    pair, plain = (pairs_of(kernel="rbf").set_params(multiclass=m).fit(X, y) for m in ("one_vs_one", "one_vs_rest"))
    np.testing.assert_array_equal(pair.dual_coef_, plain.dual_coef_)
    np.testing.assert_array_equal(pair.decision_function(X), plain.decision_function(X))


def test_ties_go_to_the_first_class_and_zero_to_the_second_of_a_pair():
    """As in LIBSVM: a pair votes for its first class only where its score is above zero."""
    circle = LinearOneVsOne(np.array([4, 5, 6]), np.array([[1.0], [-1.0], [1.0]]), np.zeros(3))
    np.testing.assert_array_equal(circle.votes([[1.0]]), [[1, 1, 1]])
    np.testing.assert_array_equal(circle.predict([[1.0], [0.0]]), [4, 6])


@pytest.mark.parametrize("kind", [KernelSVC, LinearSVC])
def test_models_are_kept_in_files(kind, wine, tmp_path):
    X, y = wine
    fitted = kind(1.0, multiclass="one_vs_one", random_state=0).fit(X, y)
    model = fitted.model()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is (OneVsOne if kind is KernelSVC else LinearOneVsOne)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert certify(loaded, X, y).residual == pytest.approx(fitted.certificate_.residual, rel=0.5)


def test_libsvm_reads_what_we_train(wine, tmp_path):
    X, y = wine
    codes = np.unique(y, return_inverse=True)[1]
    fitted = pairs_of().fit(X, codes)
    write_libsvm_model(fitted.model(), tmp_path / "model")
    read = read_libsvm_model(tmp_path / "model")
    np.testing.assert_array_equal(read.predict(X), fitted.predict(X))
    assert certify(read, X, codes, C=10.0).residual < 1e-5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"approximation": "nystroem"}, "landmarks for all classes"),
        ({"solver": "scs", "fit_intercept": True}, "train every pair of classes"),
        ({"decision_function_shape": "ova"}, "decision_function_shape"),
        ({"solver": "block_descent"}, "solves .*hinge problems"),
    ],
)
def test_what_does_not_fit_is_refused(wine, settings, message):
    with pytest.raises(ValueError, match=message):
        pairs_of().set_params(**settings).fit(*wine)


def test_streams_and_nu_are_refused(wine):
    for kind in (KernelSVC, LinearSVC):
        with pytest.raises(AttributeError, match="partial_fit"):
            kind(multiclass="one_vs_one").partial_fit(*wine, classes=["blue", "green", "red"])
    with pytest.raises(IncompatibleError, match="a NuSVC has a nu"):
        certify(NuSVC(nu=0.1).fit(*wine), *wine)


def test_compiled_rbf_values_are_numpys():
    rng = np.random.default_rng(0)
    left, right = Points(rng.normal(size=(7, 3))), Points(3.0 * rng.normal(size=(21, 3)))
    values = Rbf(0.7).block(left, right, values=rbf_values)
    np.testing.assert_allclose(values, Rbf(0.7).block(left, right), rtol=1e-13)


def test_few_pairs_that_are_left_take_larger_sets():
    X, y = blobs(200, 3, 4, seed=1, separation=0.5)
    gram = PairGram(Rbf(0.3), X, y, 4)
    problem = KernelOneVsOne(gram, np.full(len(y), 10.0), loss=HingeSVM)
    solver = EachPair()
    state = solver.start(problem, None, np.random.default_rng(0))
    sizes = {}
    for n_left in (6, 2, 1):
        loops = solver._loops(problem, state, n_left)
        loops.choose(np.array([0]))
        sizes[n_left] = int(loops.sets.sizes[0])
    assert sizes[6] == 2 * 16
    assert sizes[6] < sizes[2] == 3 * sizes[6]
    assert sizes[1] <= 4 * sizes[6]
