"""`softmargin certify` on files of LIBLINEAR and LIBSVM, and bounds that are never below what is obvious."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from softmargin.cli.exit_codes import NOT_CERTIFIED
from softmargin.data import blobs, write_libsvm
from softmargin.kernels import make_kernel
from softmargin.models import KernelExpansion, LinearModel, OneVsOne, write_libsvm_model


@pytest.fixture
def rows(tmp_path):
    """Return X, y and the file that holds them."""
    X, y = blobs(60, 4, 3, seed=0, separation=0.7)
    write_libsvm(tmp_path / "data.libsvm", X, y)
    return X, y, tmp_path / "data.libsvm"


@pytest.mark.parametrize("k", [2, 3])
def test_a_libsvm_file_is_certified_and_predicts(from_json, refused, rows, tmp_path, k):
    X, y, data = rows
    if k == 2:
        X, y = X[y < 2], y[y < 2]
        write_libsvm(data, X, y)
    svc = SVC(C=0.5, gamma=0.3, tol=1e-8).fit(X, y)
    sign = -1.0 if k == 2 else 1.0
    kernel, vectors = make_kernel("rbf", gamma=0.3), csr_matrix(svc.support_vectors_)
    coef, intercept = sign * svc.dual_coef_.T, sign * svc.intercept_
    write_libsvm_model(OneVsOne(svc.classes_, kernel, vectors, svc.n_support_, coef, intercept), tmp_path / "m")
    found = from_json("certify", tmp_path / "m", data, "-C", "0.5")
    assert found["residual"] < 1e-6
    assert found["is_proof"] is True
    assert (found["kernel"], found["multiclass"], found["C"]) == ("rbf", "one_vs_one", 0.5)
    assert from_json("predict", data, tmp_path / "m")["labels"] == svc.predict(X).tolist()
    assert "Give -C" in refused("certify", tmp_path / "m", data)
    assert "leave out multiclass" in refused("certify", tmp_path / "m", data, "-C", "1", "--loss", "hinge")


@pytest.mark.parametrize("solver", [0, 5, 6])
def test_a_logistic_or_sparse_liblinear_file_is_certified(softmargin_, rows, tmp_path, solver):
    liblinear = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")
    X, y, data = rows
    model = liblinear.train(y.astype(float).tolist(), X.tolist(), f"-s {solver} -c 0.3 -e 1e-6 -q")
    liblinear.save_model(str(tmp_path / "m"), model)
    code, out, _ = softmargin_("certify", tmp_path / "m", data, "-C", "0.3")
    assert code == 0
    found = dict(line.split("  ", 1) for line in out.splitlines())
    name = "linear SVM, one-vs-rest, squared hinge" if solver == 5 else "logistic regression, one-vs-rest"
    assert found["problem"].strip() == name + ("" if solver == 0 else ", l1 penalty") + ", C = 0.3"
    assert float(found["relative gap"]) < 1e-3


@pytest.mark.parametrize(
    ("multiclass", "loss", "fit_intercept"),
    [
        ("weston_watkins", "hinge", True),
        ("crammer_singer", "hinge", False),
        ("one_vs_rest", "hinge", True),
        ("one_vs_rest", "hinge", "free"),
        ("one_vs_rest", "squared_hinge", True),
    ],
)
def test_no_bound_is_below_zero(from_json, rows, tmp_path, multiclass, loss, fit_intercept):
    """An objective that is a sum of squares and losses cannot be negative, however poor a dual point is."""
    X, _, data = rows
    info = {"multiclass": multiclass, "loss": loss, "fit_intercept": fit_intercept, "intercept_scaling": 1.0, "C": 1e3}
    rng = np.random.default_rng(0)
    kernel, coef = make_kernel("rbf", gamma=0.3), 1e3 * rng.standard_normal((60, 3))
    KernelExpansion(np.arange(3), kernel, X, np.arange(60), 60, coef, np.zeros(3), info).save(tmp_path / "m")
    found = from_json("certify", tmp_path / "m", data)
    assert found["bound"] >= 0.0
    assert 0.0 < found["residual"] <= 1.0
    LinearModel(np.arange(3), coef[:3, :1] * X[:3], np.zeros(3), {**info, "problem": "svm"}).save(tmp_path / "w")
    assert from_json("certify", tmp_path / "w", data, "--max-seconds", "0", code=NOT_CERTIFIED)["bound"] >= 0.0
