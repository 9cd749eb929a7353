"""Arrays that need no conversion skip scikit-learn's checks, and nobody can tell."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_matrix, csr_array, csr_matrix

from softmargin import LinearSVC, SoftmaxRegression
from softmargin.core.errors import DataError
from softmargin.data import blobs
from softmargin.estimators.frame import classifier as frame
from softmargin.estimators.frame.data import encoded, is_ready, ready_labels

X, y = blobs(60, 4, 3, seed=0)


def with_value(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


BAD = {
    "NaN in X": (with_value(np.nan), y),
    "infinity in X": (with_value(np.inf), y),
    "minus infinity beside infinity": (np.vstack([with_value(np.inf)[:30], -with_value(np.inf)[:30]]), y),
    "NaN in sparse X": (csr_matrix(with_value(np.nan)), y),
    "infinity in sparse X": (csr_matrix(with_value(-np.inf)), y),
    "float32 infinity": (with_value(np.inf).astype(np.float32), y),
    "no sample": (X[:0], y[:0]),
    "no feature": (X[:, :0], y),
    "no feature of sparse X": (csr_matrix((60, 0)), y),
    "X shorter than y": (X[:50], y),
    "y shorter than X": (csr_matrix(X), y[:50]),
    "one sample": (X[:1], y[:1]),
    "X of one dimension": (X[:, 0], y),
    "X of three dimensions": (X[:, :, None], y),
    "complex X": (X + 1j, y),
    "X of text": (np.full((60, 4), "a"), y),
    "y of one class": (X, np.zeros(60, dtype=int)),
    "y of one class of text": (X, np.full(60, "a")),
    "continuous y": (X, X[:, 0]),
    "NaN in y": (X, np.where(y == 1, np.nan, y)),
    "infinity in y": (X, np.where(y == 1, np.inf, y)),
    "y of two columns": (X, np.column_stack([y, y])),
    "y of bytes": (X, y.astype("S1")),
    "y of complex numbers": (X, y + 1j),
    "no y": (X, None),
    "as many classes as samples": (X, np.arange(60)),
}


def outcome(model, X, y):
    """Return what a fit says: its error and its warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
            error = None
        except Exception as problem:
            error = problem
    return type(error), str(error), [(item.category, str(item.message)) for item in heard]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("kind", [SoftmaxRegression, LinearSVC])
def test_bad_data_are_refused_in_the_words_of_scikit_learn(kind, case, monkeypatch):
    model = kind(max_iter=3, random_state=0)
    fast = outcome(model, *BAD[case])
    monkeypatch.setattr(frame, "is_ready", lambda X: False)
    assert fast == outcome(model, *BAD[case])
    assert fast[0] is not type(None) or fast[2]


@pytest.mark.parametrize("label", [lambda y: y, lambda y: y.astype(float), lambda y: np.array(["b", "a", "c"])[y]])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix, csr_array, lambda X: X.astype(np.float32)])
def test_ready_data_are_used_as_they_are_and_give_the_fit_that_scikit_learns_checks_give(form, label, monkeypatch):
    data, labels = form(X), label(y)
    model = SoftmaxRegression()
    checked = model._checked(data, labels, None)
    assert checked.X is data
    monkeypatch.setattr(frame, "is_ready", lambda X: False)
    slow = SoftmaxRegression()._checked(data, labels, None)
    np.testing.assert_array_equal(checked.classes, slow.classes)
    np.testing.assert_array_equal(checked.codes, slow.codes)
    assert model.n_features_in_ == 4


@pytest.mark.parametrize(
    "other",
    [
        X.tolist(),
        np.asfortranarray(X),
        X.astype(np.float16),
        X.astype(">f8"),
        X.astype(int),
        X.astype(object),
        np.ma.masked_array(X),
        csc_matrix(X),
        pd.DataFrame(X, columns=["format", "ndim", "data", "dtype"]),
        None,
    ],
    ids=lambda other: type(other).__name__,
)
def test_what_needs_a_conversion_is_not_ready(other):
    assert not is_ready(other)


def test_values_whose_squares_overflow_are_refused():
    for huge in (np.full((60, 4), 1e308), np.full((60, 4), 1e20, dtype=np.float32)):
        assert not is_ready(huge)
        with pytest.raises(DataError, match=r"X holds values up to 1e.*Scale the features"):
            SoftmaxRegression()._checked(huge, y, None)


def test_scikit_learns_word_that_data_are_finite_is_taken():
    with sklearn.config_context(assume_finite=True):
        assert np.isnan(SoftmaxRegression()._checked(with_value(np.nan), y, None).X).any()


@settings(max_examples=100, deadline=None)
@given(
    labels=st.lists(st.integers(-(2**60), 2**60) | st.sampled_from([0, 1, 2]), min_size=1, max_size=40),
    kind=st.sampled_from(["i8", "f8", "f4", "U20"]),
)
def test_ready_labels_are_those_that_scikit_learn_takes_for_classes_without_a_word(labels, kind):
    y = np.array(labels).astype(kind)
    found = ready_labels(y)
    if found is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            classes, codes = encoded(y)
        np.testing.assert_array_equal(found[0], classes)
        np.testing.assert_array_equal(found[1], codes)


@pytest.mark.parametrize(
    "labels", [[0, 1, 2] * 3, [7, 3, 3, 7, 9, 9], [-128, 127] * 200, [0, 5] * 3, [10**12, 10**12 + 1]]
)
@pytest.mark.parametrize("kind", ["i1", "i8", "f8", "f4"])
def test_whole_numbers_near_each_other_have_the_classes_and_codes_of_sorted_ones(labels, kind):
    y = np.array(labels).astype(kind)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) == 1:  # of a narrow type
        assert ready_labels(y) is None
        return
    found = ready_labels(y)
    assert found is not None
    assert found[0].dtype == y.dtype
    np.testing.assert_array_equal(found[0], classes)
    np.testing.assert_array_equal(found[1], codes)


def test_an_array_after_a_data_frame_has_no_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = SoftmaxRegression().fit(frame, y)
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    model.fit(np.ascontiguousarray(X[:, :3]), y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="X has 4 features, but SoftmaxRegression is expecting 3"):
        model.predict(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(with_value(np.nan)[:, :3])
