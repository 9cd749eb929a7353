"""Kernel models: they score as the formula says, what is saved comes back, what is damaged is refused."""

import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from softmargin.core.archive import archive_kind, read_archive, write_archive
from softmargin.core.errors import DataError, ModelFileError
from softmargin.kernels import CallableKernel, Laplacian, Linear, Points, Polynomial, Precomputed, Rbf, Sigmoid
from softmargin.models import KernelExpansion, LinearModel, load_model
from softmargin.models import kernel_expansion as module

D, N_SAMPLES = 6, 50
KERNEL_LIST = [
    Linear(),
    Rbf(0.3),
    Laplacian(0.2),
    Polynomial(0.5, 3, 1.0),
    Sigmoid(0.1, 0.2),
    Precomputed(),
]
every_kernel = pytest.mark.parametrize("kernel", KERNEL_LIST, ids=lambda kernel: kernel.name)
LABELS = {2: np.array(["no", "yes"]), 3: np.array([1, 5, 7])}


def in_form(X, form):
    X = X.astype("float32" if "32" in form else "float64")
    return csr_matrix(X) if "csr" in form else X


def make(kernel=KERNEL_LIST[1], form="float64", *, n_support=20, k=3, classes=None, **changes):
    """Return a model with random support vectors."""
    rng = np.random.default_rng(n_support)
    columns = 1 if k == 2 else k
    vectors = rng.standard_normal((n_support, D)) * (rng.random((n_support, D)) < 0.7)
    fields = {
        "classes": LABELS[k] if classes is None else classes,
        "kernel": kernel,
        "vectors": None if kernel.name == "precomputed" else in_form(vectors.astype(np.float32), form),
        "support": np.sort(rng.permutation(N_SAMPLES)[:n_support]),
        "n_samples": N_SAMPLES,
        "coef": rng.standard_normal((n_support, columns)),
        "intercept": rng.standard_normal(columns),
        "info": {"C": 2.0, "class_weight": {1: 1.0}},
    }
    return KernelExpansion(**{**fields, **changes})


def rows(model, n=33, seed=1):
    """Return data that the model can score."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, model.n_features)) * (rng.random((n, model.n_features)) < 0.7)
    return X.astype(np.float32).astype(np.float64)


def expected_scores(model, X):
    """K(X, vectors) coef + intercept, by one dense block in float64."""
    if model.vectors is None:
        K = X[:, model.support]
    else:
        vectors = model.vectors.toarray() if hasattr(model.vectors, "toarray") else model.vectors
        K = model.kernel.block(Points(X), Points(vectors.astype(np.float64)))
    scores = K @ model.coef + model.intercept
    return scores[:, 0] if len(model.classes) == 2 else scores


@pytest.fixture(params=["one tile", "many tiles"])
def tile_size(request, monkeypatch):
    if request.param == "many tiles":
        monkeypatch.setattr(module, "tile_shape", lambda numbers: (5, 7))


@every_kernel
@pytest.mark.parametrize("vectors", ["float64", "float32", "csr", "csr32"])
@pytest.mark.parametrize("form", ["float64", "float32", "csr", "csr32"])
@pytest.mark.parametrize("k", [2, 3])
def test_scores_are_the_formula_in_every_mixture_of_forms(kernel, vectors, form, k, tile_size):
    model = make(kernel, vectors, k=k)
    X = rows(model)
    expected = expected_scores(model, X)
    scores = model.decision_function(in_form(X, form))
    assert scores.shape == ((len(X),) if k == 2 else (len(X), k))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-6 * np.abs(expected).max() * len(model.support))
    winners = (expected > 0).astype(int) if k == 2 else expected.argmax(axis=1)
    margin = np.abs(expected) if k == 2 else np.diff(np.sort(expected, axis=1)[:, -2:], axis=1)[:, 0]
    clear = margin > 1e-3
    assert clear.sum() > 20
    np.testing.assert_array_equal(model.predict(in_form(X, form))[clear], LABELS[k][winners][clear])


def test_kernel_values_are_as_precise_as_the_finer_of_x_and_vectors():
    seen = []

    def kernel(A, B):
        seen.append((A.dtype, B.dtype))
        return A @ B.T

    for vectors, X, finer in [
        (np.float32, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
        (np.float64, np.float32, np.float64),
        (np.float32, np.int64, np.float64),
        (np.float32, np.float16, np.float32),
    ]:
        make(CallableKernel(kernel), np.dtype(vectors).name).decision_function(np.ones((3, D), dtype=X))
        assert set(seen) == {(np.dtype(finer), np.dtype(finer))}
        seen.clear()


@pytest.mark.parametrize("form", ["float64", "csr"])
def test_a_linear_expansion_is_a_linear_model(form):
    model = make(Linear(), form)
    X = rows(model)
    assert isinstance(model.as_linear, LinearModel)
    assert model.as_linear is model.as_linear
    np.testing.assert_allclose(model.as_linear.decision_function(X), expected_scores(model, X), rtol=1e-12)


@every_kernel
@pytest.mark.parametrize("form", ["float64", "csr"])
def test_without_support_vectors_every_score_is_the_intercept(kernel, form):
    model = make(kernel, form, n_support=0)
    np.testing.assert_array_equal(model.decision_function(rows(model, 4)), np.tile(model.intercept, (4, 1)))
    assert model.decision_function(rows(model, 0)).shape == (0, 3)


def test_messy_sparse_data_score_as_what_they_mean():
    model = make(Rbf(0.3), "csr")
    X = rows(model, 4)
    clean = csr_matrix(X)
    twice = csr_matrix((np.repeat(clean.data / 2, 2), np.repeat(clean.indices, 2), 2 * clean.indptr), shape=clean.shape)
    assert not twice.has_canonical_format
    expected = expected_scores(model, X)
    for form in (twice, coo_array(X), csr_array(X)):
        np.testing.assert_allclose(model.decision_function(form), expected, rtol=1e-12)
    assert twice.nnz == 2 * clean.nnz
    messy = make(Rbf(0.3), vectors=twice, n_support=4)
    np.testing.assert_allclose(messy.decision_function(X), expected_scores(messy, X), rtol=1e-12)


def test_prediction_needs_megabytes_whatever_the_number_of_support_vectors():
    rng = np.random.default_rng(0)
    n = 6000
    model = KernelExpansion(
        np.arange(3),
        Rbf(0.1),
        rng.standard_normal((n, 4), dtype=np.float32),
        np.arange(n),
        n,
        rng.standard_normal((n, 3)),
        np.zeros(3),
    )
    X = rng.standard_normal((n, 4), dtype=np.float32)
    tracemalloc.start()
    model.decision_function(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 30e6 < n * n * 4


@every_kernel
@pytest.mark.parametrize("form", ["float64", "float32", "csr", "csr32"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_saved_model_predicts_the_same_bits(kernel, form, k, tmp_path):
    model = make(kernel, form, k=k)
    model.save(tmp_path / "any.name")
    loaded = KernelExpansion.load(tmp_path / "any.name")
    X = rows(model)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.kernel == model.kernel
    assert (loaded.n_samples, loaded.n_features, loaded.info) == (model.n_samples, model.n_features, model.info)
    for name in ("classes", "coef", "intercept", "support"):
        ours, theirs = getattr(model, name), getattr(loaded, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    if model.vectors is not None:
        assert type(loaded.vectors) is type(model.vectors)
        assert loaded.vectors.dtype == model.vectors.dtype
    assert os.listdir(tmp_path) == ["any.name"]


def test_sparse_arrays_of_either_kind_are_saved(tmp_path):
    model = make(Rbf(0.3), vectors=csr_array(make().vectors))
    model.save(tmp_path / "m")
    X = rows(model)
    np.testing.assert_array_equal(KernelExpansion.load(tmp_path / "m").predict(X), model.predict(X))


def test_text_labels_in_any_script_survive(tmp_path):
    labels = np.array(["Füße", "猫", "🦭"], dtype=object)
    model = make(classes=labels)
    model.save(tmp_path / "m")
    loaded = KernelExpansion.load(tmp_path / "m")
    assert loaded.classes.tolist() == labels.tolist()
    assert set(loaded.predict(rows(model))) <= set(labels)


def test_the_same_model_gives_the_same_bytes_and_numpy_reads_them(tmp_path):
    for name in ("a", "b"):
        make().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with np.load(tmp_path / "a", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["vectors"], make().vectors)


def test_a_model_with_a_python_function_cannot_be_saved(tmp_path):
    with pytest.raises(DataError, match=r"kernel 'callable' cannot be saved.*no Python function.*'precomputed'"):
        make(CallableKernel(lambda A, B: A @ B.T)).save(tmp_path / "m")

    class Own:
        name = "rbf"  # a name of ours does not make it ours

        def block(self, left, right):
            return left.X @ right.X.T

    with pytest.raises(DataError, match="cannot be saved"):
        make(Own()).save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_file_of_another_kind_is_refused_with_both_names(tmp_path):
    LinearModel(np.array([0, 1]), np.ones((1, 2)), np.zeros(1)).save(tmp_path / "linear")
    with pytest.raises(ModelFileError, match="holds a LinearModel; a KernelExpansion was asked for"):
        KernelExpansion.load(tmp_path / "linear")
    make().save(tmp_path / "kernel")
    with pytest.raises(ModelFileError, match="holds a KernelExpansion; a LinearModel was asked for"):
        LinearModel.load(tmp_path / "kernel")


def test_load_model_reads_both_kinds_and_no_other(tmp_path):
    linear = LinearModel(np.array([0, 1]), np.ones((1, 2)), np.zeros(1))
    linear.save(tmp_path / "linear")
    make().save(tmp_path / "kernel")
    assert archive_kind(tmp_path / "kernel") == "KernelExpansion"
    assert isinstance(load_model(tmp_path / "linear"), LinearModel)
    loaded = load_model(tmp_path / "kernel")
    assert isinstance(loaded, KernelExpansion)
    np.testing.assert_array_equal(loaded.coef, make().coef)
    write_archive(tmp_path / "other", kind="Checkpoint", arrays={}, meta={})
    with pytest.raises(
        ModelFileError,
        match="holds a Checkpoint; a LinearModel or a LinearRegressor or a Kern",
    ):
        load_model(tmp_path / "other")
    (tmp_path / "text").write_bytes(b"solver_type MCSVM_CS\n")
    with pytest.raises(ModelFileError, match="read_liblinear"):
        load_model(tmp_path / "text")
    with pytest.raises(ModelFileError, match="No such file"):
        load_model(tmp_path / "absent")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("load", [KernelExpansion.load, load_model])
def test_a_truncated_file_is_called_truncated(tmp_path, share, load):
    path = tmp_path / "m"
    make().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match="truncated"):
        load(path)


@pytest.mark.parametrize("form", ["float64", "csr"])
def test_every_flipped_byte_is_noticed_or_harmless(tmp_path, form):
    path = tmp_path / "m"
    model = make(Rbf(0.3), form, n_support=4)
    model.save(path)
    content, X = path.read_bytes(), rows(model, 3)
    for at in range(0, len(content), 11):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        try:
            loaded = load_model(path)
        except ModelFileError:
            continue
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def spoiled(path, change):
    """Write the archive again, with a right checksum, after ``change(arrays, meta)``."""
    arrays, meta = read_archive(path, kind="KernelExpansion")
    change(arrays, meta)
    write_archive(path, kind="KernelExpansion", arrays=arrays, meta=meta)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, meta: arrays.pop("support"), "arrays support are missing"),
        (lambda arrays, meta: arrays.pop("vectors_indices"), "'vectors_indices' is missing"),
        (lambda arrays, meta: meta.pop("kernel"), "'kernel' is missing"),
        (lambda arrays, meta: meta["kernel"].pop("name"), "'name' is missing"),
        (lambda arrays, meta: meta["kernel"].update(name="own"), "'own' is unknown"),
        (lambda arrays, meta: meta["kernel"].update(name="callable"), "'callable' is unknown"),
        (lambda arrays, meta: meta["kernel"].update(gamma=-1.0), "gamma must be"),
        (lambda arrays, meta: meta["kernel"].update(width=1.0), "width"),
        (lambda arrays, meta: meta.update(kernel=3), "damaged"),
        (lambda arrays, meta: meta.update(n_samples=10), "support holds positions"),
        (lambda arrays, meta: meta.update(n_samples="many"), "damaged"),
        (lambda arrays, meta: meta.update(n_features=2), "damaged"),
        (lambda arrays, meta: arrays.update(coef=np.ones((3, 3))), "coef has shape"),
        (lambda arrays, meta: arrays.update(vectors_indices=arrays["vectors_indices"] + 100), "damaged"),
        (lambda arrays, meta: arrays.update(vectors_indptr=arrays["vectors_indptr"][:-1]), "damaged"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_called_damaged(tmp_path, change, message):
    path = tmp_path / "m"
    make(Rbf(0.3), "csr").save(path)
    spoiled(path, change)
    with pytest.raises(ModelFileError, match=rf"damaged: .*{message}|{message}"):
        KernelExpansion.load(path)


def test_a_changed_setting_fails_the_checksum(tmp_path):
    path = tmp_path / "m"
    make().save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["model.json"])
    header["meta"]["kernel"]["gamma"] = 0.4
    members["model.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match="checksum"):
        KernelExpansion.load(path)


def test_a_failed_save_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "m"
    make().save(path)
    before = path.read_bytes()

    def crash(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(ModelFileError, match=r"No space left.*unchanged"):
        make(n_support=5).save(path)
    with pytest.raises(ModelFileError, match=r"cannot store meta\['info'\]"):
        make(info={"solver": object()}).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_sparse_data_of_another_width_are_padded_or_cut_on_request():
    model = make()
    X = rows(model, 3)
    narrow, wide = csr_matrix(X[:, :4]), csr_matrix(np.hstack([X, np.ones((3, 2))]))
    for data in (narrow, wide):
        with pytest.raises(DataError, match=rf"X has {data.shape[1]} columns; the model was trained on {D}"):
            model.decision_function(data)
    padded = np.hstack([X[:, :4], np.zeros((3, D - 4))])
    np.testing.assert_allclose(model.decision_function(model.fit_columns(narrow)), expected_scores(model, padded))
    np.testing.assert_allclose(model.decision_function(model.fit_columns(wide)), expected_scores(model, X))
    with pytest.raises(DataError, match="Only sparse data may be padded or cut"):
        model.fit_columns(X[:, :4])


def test_columns_of_a_precomputed_kernel_cannot_be_guessed():
    model = make(Precomputed())
    K = rows(model, 3)
    assert model.n_features == N_SAMPLES
    np.testing.assert_array_equal(model.fit_columns(K), K)
    for ask in (model.fit_columns, model.predict):
        with pytest.raises(DataError, match=f"X has 20 columns; the model was trained on {N_SAMPLES}"):
            ask(csr_matrix(K[:, :20]))


@pytest.mark.parametrize(
    ("kernel", "value"),
    [(kernel, np.nan) for kernel in KERNEL_LIST]
    + [(Linear(), np.inf), (Polynomial(0.5), 1e200), (Precomputed(), -np.inf)],
)
@pytest.mark.parametrize("form", ["float64", "csr"])
def test_a_row_that_cannot_be_scored_is_named(kernel, value, form):
    model = make(kernel, form)
    X = rows(model, 40)
    X[37] = value
    with pytest.raises(DataError, match=r"scores of row 37 \(from 0\) are not finite"):
        model.predict(in_form(X, form))


def test_polynomials_that_overflow_are_refused_without_a_warning():
    model = make(Polynomial(1.0, 50, 1.0), "float32")
    with pytest.raises(DataError, match=r"row 2 \(from 0\) are not finite.*huge"):
        model.predict(np.diag([0.0, 0.0, 1e6, 0.0, 0.0, 0.0]).astype(np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": [1]}, "at least 2 classes"),
        ({"classes": [1, 1, 2]}, "all different"),
        ({"classes": [1, 2]}, r"20 support vectors and 2 classes need shape \(20, 1\)"),
        ({"coef": np.ones((20, 1))}, r"coef has shape \(20, 1\).*need shape \(20, 3\)"),
        ({"coef": np.ones((19, 3))}, r"coef has shape \(19, 3\)"),
        ({"intercept": np.ones(1)}, r"need shape \(3,\)"),
        ({"support": np.arange(20) + 31}, r"positions 31..50; 50 samples have 0..49"),
        ({"support": np.arange(20) - 1}, r"positions -1..18"),
        ({"support": np.arange(20) + 0.5}, "list of positions"),
        ({"support": np.zeros((20, 1), int)}, "list of positions"),
        ({"vectors": np.ones((19, D))}, r"vectors has shape \(19, 6\)"),
        ({"vectors": np.ones(20)}, r"shape \(20,\)"),
        ({"vectors": None}, r"rbf kernel needs vectors of shape \(20, d\)"),
        ({"kernel": Precomputed(), "vectors": np.ones((20, D))}, "precomputed kernel has no vectors"),
    ],
)
def test_a_model_whose_parts_do_not_fit_is_refused(changes, message):
    with pytest.raises(DataError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(D), r"shape \(6,\)"),
        (np.array([["a"] * D]), "real numbers are needed"),
        (np.array([["a", *[1.0] * (D - 1)]], dtype=object), "no numbers"),
    ],
)
def test_data_that_cannot_be_scored_are_refused(X, message):
    with pytest.raises(DataError, match=message):
        make().predict(X)
