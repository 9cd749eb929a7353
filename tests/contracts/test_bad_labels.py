"""Samples without a label and labels that cannot be sorted together are named, whoever is asked to learn them."""

import numpy as np
import pandas as pd
import pytest

from softmargin import KernelSVC, L1BallClassifier, LinearSVC, LinearSVCCV, SoftmaxRegression, TraceBallClassifier
from softmargin.core.errors import DataError

CLASSIFIERS = [LinearSVC, LinearSVCCV, KernelSVC, SoftmaxRegression, L1BallClassifier, TraceBallClassifier]
X = np.random.default_rng(0).normal(size=(30, 3))
NO_LABEL = ["a", "b", None] * 10
MISSING = {
    "none": np.array(NO_LABEL, dtype=object),
    "nan": np.array(["a", "b", np.nan] * 10, dtype=object),
    "column": pd.Series(NO_LABEL),
    "category": pd.Series(NO_LABEL, dtype="category"),
    "string": pd.Series(NO_LABEL, dtype="string"),
}


@pytest.mark.parametrize("y", MISSING.values(), ids=MISSING.keys())
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_samples_without_a_label_are_named(kind, y):
    with pytest.raises(DataError, match=r"no label in 10 of 30 samples, the first at 2 \(.*Drop these samples"):
        kind().fit(X, y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels_of_several_types_are_named(kind):
    with pytest.raises(DataError, match=r"several types: int, str\. .*astype\(str\)"):
        kind().fit(X, np.array([1, "a", "b"] * 10, dtype=object))


@pytest.mark.parametrize("kind", [LinearSVC, SoftmaxRegression])
def test_chunks_of_a_stream_name_them_too(kind):
    model = kind().partial_fit(X, ["a", "b", "c"] * 10, classes=["a", "b", "c"])
    with pytest.raises(DataError, match="no label in 10 of 30 samples"):
        model.partial_fit(X, MISSING["none"])


def test_numbers_without_a_value_and_mistakes_in_x_keep_their_messages():
    with pytest.raises(ValueError, match="Input y contains NaN"):
        LinearSVC().fit(X, np.array([0.0, 1.0, np.nan] * 10))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LinearSVC().fit(np.full_like(X, np.nan), np.array(["a", "b", "c"] * 10, dtype=object))
