"""n_jobs: the same number gives the same bits, another one the same optimum, and no model file knows of it."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from softmargin import KernelSVC, L1BallClassifier, LinearSVC, SoftmaxRegression, TraceBallRegressor, softmax_path
from softmargin.core import threads as core_threads
from softmargin.core.threads import spread, threads
from softmargin.data import blobs, read_libsvm, write_libsvm
from softmargin.kernels import Rbf
from softmargin.kernels.points import slices, square_rows, take_rows
from softmargin.matrices import row_store
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import adjoint_product, matmul, product
from softmargin.matrices.products import adjoint, times
from softmargin.penalties import L2
from softmargin.problems import MulticlassSVM, softmax_problem
from softmargin.solvers import DualBlockDescent
from softmargin.solvers.linear_svm._set_square import SetSquare, SquareTuning
from softmargin.solvers.softmax._class_grams import ClassGramTuning, class_grams
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, WeightedRows, class_squares

TOL = 1e-4
ESTIMATORS = {
    "joint": LinearSVC(),
    "classes": LinearSVC(multiclass="one_vs_rest"),
    "classes, squared": LinearSVC(multiclass="one_vs_rest", loss="squared_hinge"),
    "groups of classes": LinearSVC(multiclass="one_vs_rest", loss="squared_hinge", solver="dual_descent"),
    "joint kernel": KernelSVC(),
    "kernel": KernelSVC(multiclass="one_vs_rest"),
    "kernel that does not fit": KernelSVC(multiclass="one_vs_rest", cache_size=0.1),
    "kernel, free": KernelSVC(multiclass="one_vs_rest", fit_intercept="free"),
    "kernel, squared": KernelSVC(multiclass="one_vs_rest", loss="squared_hinge"),
    "pairs": KernelSVC(multiclass="one_vs_one", fit_intercept="free"),
    "pairs, linear": LinearSVC(multiclass="one_vs_one"),
    "softmax": SoftmaxRegression(),
    "softmax, primal and dual": SoftmaxRegression(solver="primal_dual_newton"),
    "l1 ball": L1BallClassifier(0.5),
    "trace ball": TraceBallRegressor(0.2),
}


@pytest.fixture
def _eager(monkeypatch):
    """Wake threads for the smallest work."""
    monkeypatch.setattr(core_threads, "WORTH", 1)


def data(n=160):
    X, y = blobs(n, 6, 3, seed=0)
    return X + np.random.default_rng(1).normal(size=X.shape), y


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_number_gives_the_same_bits_and_another_one_the_same_optimum(name):
    X, y = data()
    target = np.eye(3)[y] if name == "trace ball" else y
    model = clone(ESTIMATORS[name]).set_params(tol=TOL, random_state=0)
    fits = [clone(model).set_params(n_jobs=n_jobs).fit(X, target) for n_jobs in (None, 2, 2, 3)]
    alone, two, again, _ = fits
    scores = [np.asarray((fit.predict if name == "trace ball" else fit.decision_function)(X)) for fit in fits]
    assert scores[1].tobytes() == scores[2].tobytes()
    assert two.certificate_ == again.certificate_
    for fit in fits:
        assert fit.status_ == "converged"
        assert fit.certificate_.bound <= alone.certificate_.primal * (1.0 + 1e-12)
        assert abs(fit.certificate_.primal - alone.certificate_.primal) <= TOL * alone.certificate_.primal


@pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer"])
def test_threads_in_one_joint_fit_raise_the_dual_value_and_find_its_optimum(multiclass, monkeypatch):
    monkeypatch.setattr(SetSquare, "tuning", SquareTuning(least_features=2, least_rows=2))
    X, y = data(400)
    X = np.hstack([X, np.sin(np.outer(np.arange(400), np.arange(1, 60)))])  # as many numbers as the squares have
    problem, solver = MulticlassSVM(X, y, C=0.01, multiclass=multiclass), DualBlockDescent()

    def run(n_jobs):
        values = []
        with threads(n_jobs):
            state = solver.start(problem, None, np.random.default_rng(0))
            for _ in range(60):
                state = solver.step(problem, state)
                values.append(problem.dual(solver.point(problem, state).alpha).value)
        point = solver.point(problem, state)
        assert sorted(state.order) == list(range(len(y)))
        np.testing.assert_allclose(point.weights, problem.point(point.alpha).weights, atol=1e-12)
        return point, np.array(values)

    (alone, _), (two, values), (again, _) = run(1), run(2), run(2)
    assert two.alpha.tobytes() == again.alpha.tobytes()
    assert two.alpha.tobytes() != alone.alpha.tobytes()
    assert (np.diff(values) >= -1e-12 * values[-1]).all()
    for point in (alone, two):
        assert problem.certificate(point).residual < 1e-6


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("make", [np.array, csr_matrix], ids=["dense", "sparse"])
def test_products_are_those_of_one_thread(make):
    X, _ = data(90)
    X, k = make(X), 4
    rng = np.random.default_rng(0)
    W, U = rng.normal(size=(7, k)), rng.normal(size=(90, k))
    Z = X.toarray() if not isinstance(X, np.ndarray) else X
    right = np.hstack([Z.astype(np.float64), np.ones((90, 1))])
    for n_jobs in (1, 2, 4):
        with threads(n_jobs):
            scores, weights = np.empty(90 * k), np.empty(7 * k)
            times(X, W.ravel(), 1.0, k, scores)
            adjoint(X, U.ravel(), 1.0, k, weights)
            ours = np.concatenate([part for _, part in matmul(X, W, 1.0)])
            products = [scores.reshape(90, k), ours, product(X, W[:-1]) + W[-1]]
            adjoints = [weights.reshape(7, k), np.vstack([adjoint_product(X, U), U.sum(axis=0)])]
        for found in products:
            np.testing.assert_allclose(found, right @ W, rtol=1e-12, atol=1e-12)
        for found in adjoints:
            np.testing.assert_allclose(found, right.T @ U, rtol=1e-12, atol=1e-12)


def test_kernel_values_that_threads_share_are_all_computed_at_once():
    X, _ = data(300)
    with threads(2):
        gram, other = Gram(Rbf(0.1), X), Gram(Rbf(0.1), X, cache_size=0.1)
        assert gram.share()
        assert not other.share()
        rows = np.array([7, 3, 200])
        np.testing.assert_array_equal(gram.square(rows), gram.rows(rows)[:, rows])
    np.testing.assert_allclose(gram.rows(rows), Gram(Rbf(0.1), X).rows(rows), rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [0, "two", 2.0, 5000])
def test_what_is_no_number_of_threads_is_refused(n_jobs):
    X, y = data(20)
    with pytest.raises(ValueError, match="n_jobs must be None"):
        LinearSVC(n_jobs=n_jobs).fit(X, y)
    with pytest.raises(ValueError, match="n_jobs must be None"):
        softmax_path(X, y, Cs=2, n_jobs=n_jobs)


def test_estimators_are_copied_with_their_number_and_model_files_do_not_hold_it(tmp_path):
    X, y = data(40)
    model = LinearSVC(n_jobs=2, random_state=0).fit(X, y)
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        assert copy.get_params()["n_jobs"] == 2
    files = []
    for n_jobs in (None, 2):
        model.set_params(n_jobs=n_jobs).model().save(tmp_path / "model")
        files.append((tmp_path / "model").read_bytes())
    assert files[0] == files[1]


def test_files_are_read_alike_by_any_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("softmargin.data.libsvm._BLOCK_BYTES", 500)
    X, y = data(60)
    write_libsvm(tmp_path / "data", csr_matrix(X), y)
    wrong = (tmp_path / "data").read_text().splitlines()
    wrong[17] = wrong[41] = "1 1:x"
    (tmp_path / "wrong").write_text("\n".join(wrong))
    for n_jobs in (1, 3):
        with threads(n_jobs):
            found, labels = read_libsvm(tmp_path / "data")
            assert (found != csr_matrix(X)).nnz == 0
            np.testing.assert_array_equal(labels, y)
            with pytest.raises(ValueError, match="line 18"):
                read_libsvm(tmp_path / "wrong")


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("n", [1, 2, 7, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_copy_and_square_rows_as_numpy_does(n, dtype):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 5)).astype(dtype)
    index = rng.integers(-n, n, size=3 * n)
    with threads(3):
        assert len(core_threads.row_shares(3 * n, 5.0)) == 3
        assert take_rows(X, index).tobytes() == X[index].tobytes()
        np.testing.assert_allclose(square_rows(X), (np.float64(X) ** 2).sum(axis=1), rtol=1e-14)


@pytest.mark.usefixtures("_eager")
def test_threads_sum_squares_of_classes_as_one_does():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(90, 7)), rng.random((90, 8))
    with threads(4):
        np.testing.assert_allclose(class_squares(X, weights), np.square(X).T @ weights, rtol=1e-13)


def test_threads_factor_and_solve_with_matrices_of_classes_as_one_does(monkeypatch):
    monkeypatch.setattr(core_threads, "WORTH", 1)
    X, y = data()
    objective = RidgeObjective(softmax_problem(X, y, penalty=L2(1.0)))
    P = np.zeros((len(y), objective.k))
    P[:, :3] = np.random.default_rng(0).dirichlet(np.ones(3), size=len(y))
    rows, V = WeightedRows(X, P.ravel(), np.ones(len(y))), np.random.default_rng(1).normal(size=7 * objective.k)

    def solved(n_jobs, **tuning):
        with threads(n_jobs):
            made = class_grams(objective, rows, 4.0, np.random.default_rng(2), ClassGramTuning(**tuning))
            return made.solve(V), made.work

    alone, work = solved(1, least_rows=50.0)
    for n_jobs, tuning in ((2, {}), (5, {}), (5, {"most_numbers": 1.0})):
        found, own_work = solved(n_jobs, least_rows=50.0, **tuning)
        np.testing.assert_allclose(found, alone, rtol=1e-9)  # sums of squares have other last digits
        np.testing.assert_array_equal(found, solved(n_jobs, least_rows=50.0, **tuning)[0])
        assert own_work == work
    assert np.abs(alone).sum() > 0.0


def test_tiles_of_any_threads_are_within_the_roundings_that_are_counted(monkeypatch):
    monkeypatch.setattr(row_store, "_SUMMED", 16)
    monkeypatch.setattr(row_store, "_WIDTH", 10)
    monkeypatch.setattr(row_store, "_LONG_WIDTH", 30)
    monkeypatch.setattr(core_threads, "WORTH", 1)
    n, m = 40, 200
    K, weights = np.random.default_rng(0).normal(size=(m, n)), np.random.default_rng(1).normal(size=(m, 6))
    cut = []
    monkeypatch.setattr(row_store, "slices", lambda size, step: (cut.append((size, step)), slices(size, step))[1])
    for n_jobs in (1, 2, 4):
        cut.clear()
        with threads(n_jobs):
            found = row_store.sum_rows(K, np.arange(m), weights)
        np.testing.assert_allclose(found, K.T @ weights, atol=1e-12)
        assert (m, 16) in cut
        assert row_store.row_roundings(m) == 16 + len(list(slices(m, 16)))
        # Tiles are longer where there are several threads, in this sum or in other items.
        assert {step for _, step in cut} == {16, 10 if n_jobs == 1 else 30}
    cut.clear()
    with threads(4):
        spread(lambda _: row_store.sum_rows(K, np.arange(m), weights), range(4))
    assert {step for _, step in cut} == {16, 30}
