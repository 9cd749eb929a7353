"""LIBSVM model files: read as LIBSVM writes them, against scikit-learn's SVC, which is LIBSVM."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from softmargin import certify
from softmargin.core.errors import DataError, IncompatibleError, ModelFileError
from softmargin.data import blobs
from softmargin.kernels import make_kernel
from softmargin.models import OneVsOne, looks_like_libsvm_model, read_libsvm_model, write_libsvm_model

# The format of svm_save_model in LIBSVM 3.x.
HEADER = (
    "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 3\ntotal_sv 4\nrho 0.1 -0.2 0.3\n"
    "label 5 -1 2\nnr_sv 2 1 1\nSV\n"
)
VECTORS = "1 0.5 1:0.5 3:1 \n0.25 0 2:-2 \n-1 0.75 1:1 \n-0.5 -0.75 \n"
KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.4},
    {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
    {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.1},
]
LONG = {"poly": "polynomial"}


def written_as_libsvm_does(svc, path):
    """Write an SVC in LIBSVM's words: 17 digits for coefficients, 8 for entries."""
    k, name = len(svc.classes_), LONG.get(svc.kernel, svc.kernel)
    sign = -1.0 if k == 2 else 1.0
    settings = {"polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
    lines = ["svm_type c_svc", f"kernel_type {name}"]
    lines += [f"{key} {getattr(svc, key):.17g}" for key in settings.get(name, ())]
    lines += [f"nr_class {k}", f"total_sv {len(svc.support_)}"]
    lines += ["rho " + " ".join(f"{-sign * b:.17g}" for b in svc.intercept_)]
    lines += ["label " + " ".join(map(str, svc.classes_)), "nr_sv " + " ".join(map(str, svc.n_support_)), "SV"]
    for a, vector in zip(sign * svc.dual_coef_.T, svc.support_vectors_, strict=True):
        entries = [f"{j + 1}:{v:.8g}" for j, v in enumerate(vector) if v != 0.0]
        lines.append(" ".join([*(f"{c:.17g}" for c in a), *entries]) + " ")
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("settings", KERNELS, ids=lambda settings: settings["kernel"])
@pytest.mark.parametrize("labels", [[-1, 3], [2, 7, 30]])
def test_a_file_decides_and_is_judged_as_the_svc_it_is(tmp_path, settings, labels):
    X, y = blobs(90, 4, len(labels), seed=0, separation=0.7)
    X[:, 1] = np.where(np.arange(90) % 3 == 0, 0.0, X[:, 1])
    y = np.array(labels)[y]
    svc = SVC(C=0.7, tol=1e-8, decision_function_shape="ovo", **settings).fit(X, y)
    written_as_libsvm_does(svc, tmp_path / "m")
    model = read_libsvm_model(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(X), svc.predict(X))
    np.testing.assert_array_equal(model.predict(csr_matrix(X)), svc.predict(X))
    if len(labels) == 2:
        np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=1e-6)
    if settings["kernel"] == "sigmoid":
        return  # no proof, and a warning that says so
    mine, theirs = certify(model, X, y, C=0.7), certify(svc, X, y)
    assert mine.primal == pytest.approx(theirs.primal, rel=1e-12)
    assert mine.residual == pytest.approx(theirs.residual, abs=1e-9)
    assert 0.0 <= mine.residual < 1e-6
    with pytest.raises(DataError, match="pass C="):
        certify(model, X, y)
    with pytest.raises(DataError, match="in the same order"):
        certify(model, X[::-1], y[::-1], C=0.7)


def test_class_weights_are_those_of_the_labels(tmp_path):
    X, y = blobs(60, 3, 3, seed=1, separation=0.5)
    y = np.array([9, 4, 6])[y]
    svc = SVC(tol=1e-8, gamma=0.5, class_weight={9: 3.0, 4: 0.5}).fit(X, y)
    written_as_libsvm_does(svc, tmp_path / "m")
    model = read_libsvm_model(tmp_path / "m")
    assert certify(model, X, y, C=1.0, class_weight={9: 3.0, 4: 0.5}).residual < 1e-6
    assert certify(model, X, y, C=1.0).residual > 1e-3


@pytest.mark.parametrize("settings", KERNELS[:3], ids=lambda settings: settings["kernel"])
def test_a_written_model_reads_back_exactly(tmp_path, settings):
    rng = np.random.default_rng(0)
    kernel = make_kernel(settings["kernel"], **{key: value for key, value in settings.items() if key != "kernel"})
    vectors = csr_matrix(rng.standard_normal((5, 4)) * (rng.random((5, 4)) < 0.6))
    model = OneVsOne([3, -1, 8], kernel, vectors, [2, 2, 1], rng.standard_normal((5, 2)), rng.standard_normal(3))
    write_libsvm_model(model, tmp_path / "m")
    again = read_libsvm_model(tmp_path / "m")
    for name in ("classes", "counts", "coef", "intercept"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.kernel == model.kernel
    width = again.n_features
    np.testing.assert_array_equal(again.vectors.toarray(), vectors.toarray()[:, :width])


def test_a_file_is_read_by_its_words(tmp_path):
    (tmp_path / "m").write_text(HEADER + VECTORS)
    model = read_libsvm_model(tmp_path / "m")
    assert looks_like_libsvm_model(tmp_path / "m")
    assert model.classes.tolist() == [5, -1, 2]
    np.testing.assert_array_equal(model.vectors.toarray(), [[0.5, 0, 1], [0, -2, 0], [1, 0, 0], [0, 0, 0]])
    columns = {(c, e): column.tolist() for c, e, column in model.pairs()}
    assert columns == {(0, 1): [1, 0.25, -1, 0], (0, 2): [0.5, 0, 0, -0.5], (1, 2): [0, 0, 0.75, -0.75]}
    assert model.predict(np.eye(5)).shape == (5,)  # wider than any support vector
    (tmp_path / "m").write_bytes((HEADER + VECTORS).replace("\n", "\r\n").encode())
    assert read_libsvm_model(tmp_path / "m").n_features == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a LIBSVM model"),
        ("solver_type MCSVM_CS\n", "is not a LIBSVM model: it starts with b'solver_ty"),
        (HEADER[:-3], "truncated: the line 'SV'"),
        (HEADER, "0 support vectors found, 4 of 2 coefficients needed"),
        (HEADER + VECTORS[:-20], "3 support vectors found"),
        (HEADER + VECTORS.replace("0.25 0 2:-2", "0.25"), "line 11: found 1 coefficients, not 2"),
        (HEADER + VECTORS.replace("2:-2", "2:x"), "line 11: a number cannot be read"),
        (HEADER + VECTORS.replace("2:-2", "2"), "line 11: a number cannot be read"),
        (HEADER + VECTORS.replace("2:-2", "2:inf"), "line 11: a number is not finite"),
        (HEADER + VECTORS.replace("0.25", "nan"), "line 11: a number is not finite"),
        (HEADER + VECTORS.replace("3:1", "1:1"), "line 10: columns must rise from 1 on"),
        (HEADER + VECTORS.replace("2:-2", "0:-2"), "line 11: columns must rise from 1 on"),
        (HEADER + VECTORS.replace("2:-2", "99999999999:1"), "line 11: columns must rise from 1 on"),
        (HEADER.replace("c_svc", "epsilon_svr") + VECTORS, "svm_type epsilon_svr is no classifier"),
        (HEADER.replace("rbf", "precomputed") + VECTORS, "precomputed, and its values are not in the file"),
        (HEADER.replace("rbf", "odd") + VECTORS, "odd, and softmargin does not know it"),
        (HEADER.replace("rbf", "polynomial") + VECTORS, "lacks degree, coef0 of the polynomial kernel"),
        (HEADER.replace("0.5", "-1") + VECTORS, "the rbf kernel cannot be made"),
        (HEADER.replace("nr_class 3", "nr_class x") + VECTORS, "number in the header"),
        (HEADER.replace("nr_class 3", "nr_class 4") + VECTORS, "nr_class is 4 and the labels are"),
        (HEADER.replace("5 -1 2", "5 5 2") + VECTORS, "a different label for each"),
        (HEADER.replace("total_sv 4", "total_sv 5") + VECTORS, "total_sv is 5 and nr_sv"),
        (HEADER.replace("nr_sv 2 1 1", "nr_sv 3 2 -1") + VECTORS, "3 numbers of this sum are due"),
        (HEADER.replace("0.1 -0.2 0.3", "0.1") + VECTORS, "rho holds 1 numbers; 3"),
        (HEADER.replace("rho 0.1 -0.2 0.3\n", "") + VECTORS, "the header lacks rho"),
        (HEADER.replace("gamma", "colour") + VECTORS, "line 3: unknown entry 'colour'"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path, text, message):
    path = tmp_path / "m"
    path.write_text(text)
    with pytest.raises(ModelFileError, match=message):
        read_libsvm_model(path)


def test_what_cannot_be_certified_or_written_is_refused(tmp_path):
    (tmp_path / "m").write_text((HEADER + VECTORS).replace("c_svc", "nu_svc"))
    model = read_libsvm_model(tmp_path / "m")
    with pytest.raises(IncompatibleError, match="trained as nu_svc"):
        certify(model, np.eye(3), [5, -1, 2], C=1.0)
    with pytest.raises(IncompatibleError, match="integer labels of 32 bits"):
        write_libsvm_model(
            OneVsOne(["a", "b", "c"], model.kernel, model.vectors, model.counts, model.coef, model.intercept),
            tmp_path / "n",
        )
    with pytest.raises(DataError, match=r"counts \(k,\) that sum to 4"):
        OneVsOne(model.classes, model.kernel, model.vectors, [1, 1, 1], model.coef, model.intercept)
    assert not looks_like_libsvm_model(tmp_path / "absent")
