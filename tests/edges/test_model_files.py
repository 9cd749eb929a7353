"""Models and archives: what is saved comes back, what is damaged is refused, nothing is half written."""

import json
import os
import stat
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from softmargin.core.archive import FORMAT_VERSION, read_archive, write_archive
from softmargin.core.errors import DataError, ModelFileError
from softmargin.core.files import atomic_write
from softmargin.models import LinearModel

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)
# NumPy text cannot end in NUL, nor can two labels differ only by that.
LABEL_TEXT = st.text(min_size=1, max_size=8).filter(lambda text: not text.endswith("\0"))
LABELS = (
    st.lists(LABEL_TEXT, min_size=2, max_size=5, unique=True).map(lambda labels: np.array(labels, dtype=object))
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True).map(np.array)
    | st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=5, unique=True).map(np.array)
    | st.just(np.array([False, True]))
)


@st.composite
def models(draw):
    classes = draw(LABELS)
    rows = 1 if len(classes) == 2 else len(classes)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = {"width": 32} if dtype is np.float32 else {}
    numbers = st.floats(allow_nan=False, allow_infinity=False, **width)
    coef = draw(hnp.arrays(dtype, (rows, draw(st.integers(0, 4))), elements=numbers))
    intercept = draw(hnp.arrays(dtype, rows, elements=numbers))
    if draw(st.booleans()):
        coef = np.asfortranarray(coef)
    return LinearModel(classes, coef, intercept, draw(st.dictionaries(st.text(), JSON, max_size=3)))


def three_class_model():
    info = {"multiclass": "weston_watkins", "C": np.float64(2.0), "class_weight": {1: 1.0, np.int64(3): 2.5}}
    return LinearModel(
        np.array([1, 2, 3]), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), np.array([0.0, 0.5, 0.0]), info
    )


def rewritten(path, change):
    """Copy the archive with `change(name, bytes) -> bytes or None` applied to every member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            content = change(name, content)
            if content is not None:
                archive.writestr(name, content)


def with_header(path, **changes):
    def change(name, content):
        return json.dumps({**json.loads(content), **changes}) if name == "model.json" else content

    rewritten(path, change)


@settings(max_examples=60, deadline=None)
@given(model=models())
def test_a_saved_model_loads_the_same(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("m") / "any.name"
    model.save(path)
    loaded = LinearModel.load(path)
    for name in ("classes", "coef", "intercept"):
        ours, theirs = getattr(model, name), getattr(loaded, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.info == model.info


def test_text_labels_in_any_script_survive(tmp_path):
    labels = np.array(["Füße", "猫", "🦭"], dtype=object)
    LinearModel(labels, np.eye(3), np.zeros(3)).save(tmp_path / "m")
    model = LinearModel.load(tmp_path / "m")
    assert model.predict(np.eye(3)).tolist() == labels.tolist()
    assert model.classes.dtype.kind == "U"


def test_class_weight_keeps_its_integer_keys_and_numpy_numbers_become_plain(tmp_path):
    three_class_model().save(tmp_path / "m")
    info = LinearModel.load(tmp_path / "m").info
    assert info == {"multiclass": "weston_watkins", "C": 2.0, "class_weight": {1: 1.0, 3: 2.5}}
    assert type(info["C"]) is float


def test_a_missing_bound_survives_as_minus_infinity(tmp_path):
    model = LinearModel(np.array([0, 1]), np.ones((1, 1)), np.zeros(1), {"certificate": {"bound": -np.inf}})
    model.save(tmp_path / "m")
    assert LinearModel.load(tmp_path / "m").info["certificate"]["bound"] == -np.inf


@pytest.mark.parametrize("name", ["digits.model", "plain", "m.npz", "two.dots.bin", "mit Leerzeichen é"])
def test_the_name_of_the_file_is_kept_as_given(tmp_path, name):
    three_class_model().save(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        three_class_model().save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_reads_the_arrays_without_pickle(tmp_path):
    three_class_model().save(tmp_path / "m")
    with np.load(tmp_path / "m", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["coef"], three_class_model().coef)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_called_truncated(tmp_path, share):
    path = tmp_path / "m"
    three_class_model().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: max(4, int(share * len(content)))])
    with pytest.raises(ModelFileError, match="truncated"):
        LinearModel.load(path)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "m"
    model = three_class_model()
    model.save(path)
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        try:
            loaded = LinearModel.load(path)
        except ModelFileError:
            continue
        np.testing.assert_array_equal(loaded.coef, model.coef)
        np.testing.assert_array_equal(loaded.classes, model.classes)
        assert loaded.info == model.info


def test_changed_numbers_under_a_correct_crc_fail_the_checksum(tmp_path):
    path = tmp_path / "m"
    three_class_model().save(path)
    rewritten(path, lambda name, content: content[:-1] + b"\x01" if name == "coef.npy" else content)
    with pytest.raises(ModelFileError, match="checksum"):
        LinearModel.load(path)


def test_a_changed_meta_fails_the_checksum(tmp_path):
    path = tmp_path / "m"
    three_class_model().save(path)
    with_header(path, meta={"C": 1000.0})
    with pytest.raises(ModelFileError, match="checksum"):
        LinearModel.load(path)


def test_a_missing_array_is_named(tmp_path):
    path = tmp_path / "m"
    three_class_model().save(path)
    rewritten(path, lambda name, content: None if name == "intercept.npy" else content)
    with pytest.raises(ModelFileError, match=r"intercept\.npy.*missing"):
        LinearModel.load(path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    path = tmp_path / "m"
    three_class_model().save(path)
    with_header(path, format_version=FORMAT_VERSION + 1, softmargin_version="9.0")
    with pytest.raises(ModelFileError, match=r"format version 2 \(written by softmargin 9\.0\).*Upgrade"):
        LinearModel.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "is not a softmargin file"),
        ({"format_version": "one"}, "format_version is 'one'"),
        ({"kind": "Checkpoint"}, "holds a Checkpoint; a LinearModel was asked for"),
        ({"arrays": ["coef", "ghost"]}, "'ghost.npy' is missing"),
        ({"arrays": ["coef"]}, "checksum"),
    ],
)
def test_a_foreign_header_is_refused(tmp_path, changes, message):
    path = tmp_path / "m"
    three_class_model().save(path)
    with_header(path, **changes)
    with pytest.raises(ModelFileError, match=message):
        LinearModel.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a softmargin file: it is empty"),
        (b"hello, world, hello", "is not a softmargin file: it starts with"),
        (b"\x80\x04\x95pickle", "looks like a pickle"),
        (b"solver_type MCSVM_CS\n", "read_liblinear"),
    ],
)
def test_a_file_that_is_no_model_is_described(tmp_path, content, message):
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        LinearModel.load(path)


def test_an_npz_that_is_no_model_is_described(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones(2))
    with pytest.raises(ModelFileError, match=r"without a member 'model\.json'"):
        LinearModel.load(tmp_path / "a.npz")


def test_a_missing_file_is_a_model_file_error(tmp_path):
    with pytest.raises(ModelFileError, match="No such file"):
        LinearModel.load(tmp_path / "absent")


def test_an_archive_without_the_models_arrays_is_refused(tmp_path):
    write_archive(tmp_path / "m", kind="LinearModel", arrays={"coef": np.ones((1, 2))}, meta={})
    with pytest.raises(ModelFileError, match="arrays classes, intercept are missing"):
        LinearModel.load(tmp_path / "m")


def test_any_arrays_and_meta_make_a_checkpoint(tmp_path):
    arrays = {"alpha": np.arange(6.0).reshape(2, 3), "order": np.arange(3), "scalar": np.array(2.5)}
    meta = {"rng": np.random.default_rng(0).bit_generator.state, "pass": 7}
    write_archive(tmp_path / "c", kind="Checkpoint", arrays=arrays, meta=meta)
    read, read_meta = read_archive(tmp_path / "c", kind="Checkpoint")
    assert read_meta == meta
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)


def test_what_json_cannot_hold_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(ModelFileError, match=r"meta\['solver'\]: a object"):
        write_archive(tmp_path / "c", kind="Checkpoint", arrays={}, meta={"solver": object()})
    with pytest.raises(ModelFileError, match="array 'a': its type is object"):
        write_archive(tmp_path / "c", kind="Checkpoint", arrays={"a": np.array([{}])}, meta={})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, OSError])
def test_a_write_that_fails_midway_leaves_the_old_file_whole(tmp_path, failure):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def write_half():
        with atomic_write(path) as file:
            file.write(b"half of the new")
            raise failure

    with pytest.raises((failure, ModelFileError)):
        write_half()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_a_crash_at_the_rename_leaves_the_old_model_whole(tmp_path, monkeypatch):
    path = tmp_path / "m"
    three_class_model().save(path)
    before = path.read_bytes()

    def crash(source, target):
        assert path.read_bytes() == before
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(ModelFileError, match=r"No space left.*unchanged"):
        LinearModel(np.array([0, 1]), np.ones((1, 1)), np.zeros(1)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path):
    path = tmp_path / "m"
    old = os.umask(0o027)
    try:
        three_class_model().save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    three_class_model().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_followed_and_a_device_is_written_through(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    three_class_model().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert LinearModel.load(tmp_path / "real").n_features == 2
    with atomic_write(os.devnull) as file:
        file.write(b"gone")
    assert not os.path.isfile(os.devnull)


def test_a_missing_folder_and_a_folder_as_name_are_explained(tmp_path):
    with pytest.raises(ModelFileError, match="there is no folder"):
        three_class_model().save(tmp_path / "no" / "m")
    with pytest.raises(ModelFileError, match="it is a folder"):
        three_class_model().save(tmp_path)


@settings(max_examples=30, deadline=None)
@given(X=hnp.arrays(np.float64, (4, 2), elements=st.floats(-1e6, 1e6)))
def test_dense_sparse_and_float32_data_score_alike(X):
    from scipy.sparse import coo_array, csr_matrix

    model = three_class_model()
    X = X.astype(np.float32)
    expected = X.astype(np.float64) @ model.coef.T + model.intercept
    for form in (X, X.astype(np.float64), csr_matrix(X), coo_array(X)):
        np.testing.assert_allclose(model.decision_function(form), expected, rtol=1e-12, atol=1e-9)


def test_two_classes_score_as_one_column_and_zero_means_the_first():
    model = LinearModel(np.array(["no", "yes"]), np.array([[2.0]]), np.array([-1.0]))
    assert model.decision_function([[1.0], [0.5], [0.0]]).shape == (3,)
    assert model.predict([[1.0], [0.5], [0.0]]).tolist() == ["yes", "no", "no"]


def test_large_float32_data_are_scored_in_blocks(monkeypatch):
    monkeypatch.setattr("softmargin.models.weights._BLOCK_NUMBERS", 5)
    X = np.random.default_rng(0).standard_normal((11, 2)).astype(np.float32)
    model = three_class_model()
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef.T + model.intercept, rtol=1e-6)
    assert model.predict(np.empty((0, 2), dtype=np.float32)).shape == (0,)


def test_sparse_data_of_another_width_are_padded_or_cut_on_request():
    from scipy.sparse import csr_array, csr_matrix

    model = three_class_model()
    for form in (csr_matrix, csr_array):
        narrow, wide = form(np.array([[2.0], [0.0]])), form(np.array([[2.0, 1.0, 9.0], [0.0, 1.0, 0.0]]))
        for X in (narrow, wide):
            with pytest.raises(DataError, match=rf"X has {X.shape[1]} columns; the model was trained on 2"):
                model.decision_function(X)
        assert model.predict(model.fit_columns(narrow)).tolist() == [1, 2]
        np.testing.assert_array_equal(model.fit_columns(wide).toarray(), [[2.0, 1.0], [0.0, 1.0]])
    with pytest.raises(DataError, match="Only sparse data may be padded or cut"):
        model.fit_columns(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([1.0, 2.0]), r"shape \(2,\)"),
        (np.array([[1.0, np.nan]]), r"row 0 \(from 0\) are not finite"),
        (np.array([[0.0, 0.0], [np.inf, 0.0]]), "row 1"),
        (np.array([["a", "b"]]), "real numbers are needed"),
        (np.array([["a", 1.0]], dtype=object), "no numbers"),
        (np.array([[1j, 0]]), "complex"),
    ],
)
def test_data_that_cannot_be_scored_are_refused(X, message):
    with pytest.raises(DataError, match=message):
        three_class_model().predict(X)


@pytest.mark.parametrize(
    ("classes", "coef", "intercept", "message"),
    [
        ([1], np.ones((1, 2)), np.ones(1), "at least 2 classes"),
        ([1, 1], np.ones((1, 2)), np.ones(1), "all different"),
        ([1, 2], np.ones((2, 2)), np.ones(1), r"need shape \(1, d\)"),
        ([1, 2, 3], np.ones((1, 2)), np.ones(3), r"need shape \(3, d\)"),
        ([1, 2, 3], np.ones((3, 2)), np.ones(1), r"need shape \(3,\)"),
        ([[1, 2]], np.ones((1, 2)), np.ones(1), "one label per class"),
        (np.array(["a", 1], dtype=object), np.ones((1, 2)), np.ones(1), "labels are int, str"),
        (np.array([1j, 2]), np.ones((1, 2)), np.ones(1), "cannot be stored"),
    ],
)
def test_a_model_whose_parts_do_not_fit_is_refused(classes, coef, intercept, message):
    with pytest.raises(DataError, match=message):
        LinearModel(np.asarray(classes), coef, intercept)
