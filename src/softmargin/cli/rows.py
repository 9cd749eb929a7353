"""Rows for the verbs: loaded and checked, cut into parts, scaled, labelled by a model."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from softmargin.cli.choices import DEFAULT_SEED
from softmargin.cli.show import note
from softmargin.cli.tables import check_no_table, table_options
from softmargin.core.errors import DataError
from softmargin.core.files import blaming
from softmargin.data import Dataset, load, split
from softmargin.data.columns import Columns
from softmargin.features.scaling import Scaling, scaling_of
from softmargin.matrices.operator import row_slices
from softmargin.models import (
    KernelExpansion,
    LinearModel,
    LinearOneVsOne,
    LinearRegressor,
    OneVsOne,
    load_model,
    looks_like_liblinear,
    looks_like_libsvm_model,
    read_liblinear,
    read_libsvm_model,
)
from softmargin.models.one_vs_one import Votes

Array = NDArray[Any]
Model = LinearModel | KernelExpansion | OneVsOne | LinearOneVsOne
_PARTS = {"train": "training", "test": "test"}
_BLOCK_NUMBERS = 1 << 22  # numbers looked at at once, so that nothing as large as X is made on the side


class HeldOut(NamedTuple):
    """How `train` made a test part."""

    test_size: float
    seed: int
    is_streamed: bool = False  # row by row, as it reads them


class StreamMask:
    """Which rows `train --stream` holds out: each by its own draw, so that chunks of any size give the same ones."""

    def __init__(self, test_size: float, seed: int) -> None:
        self.test_size, self.rng = test_size, np.random.default_rng(seed)

    def following(self, n: int) -> Array:
        """Say for the next n rows whether each is held out; (n,)."""
        is_held: Array = self.rng.random(n) < self.test_size
        return is_held


def load_rows(
    args: Namespace,
    name: str,
    *,
    is_number: bool = False,
    model: Model | LinearRegressor | None = None,
    columns: Columns | None = None,
    needs_labels: bool = True,
) -> Dataset:
    """Load by name or path; refuse NaN, infinity, labels that are none, and empty data; y may hold numbers.

    A table is read for a model, or into the columns of another table, where one of these is given.
    """
    dataset = load(name, data_dir=args.data_dir, table=table_options(args, model, columns, may_drop=needs_labels))
    for text in dataset.notes:
        note(args, text)
    if dataset.columns is None and name != getattr(args, "test", None):
        check_no_table(args, model, dataset.name)
    if needs_labels and not dataset.has_labels:
        raise DataError(f"{dataset.name}: there is no column of labels. Name it with --label.")
    for X, y, part in ((dataset.X, dataset.y, ""), (dataset.X_test, dataset.y_test, " (test part)")):
        if X is not None and y is not None:
            _check(X, dataset.name + part)
            (_check_numbers if is_number else _check_labels)(y, dataset.name + part)
    return dataset


def load_test_rows(args: Namespace, *, is_number: bool = False, columns: Columns | None = None) -> tuple[Any, Any, str]:
    """Load X and y of --test, the test part where it has one, and a phrase that says which rows they are."""
    other = load_rows(args, args.test, is_number=is_number, columns=columns)
    return pick(other, "all" if other.X_test is None else "test", None)


def _check(X: Any, source: str) -> None:
    if 0 in X.shape:
        raise DataError(f"{source}: X has {X.shape[0]} rows and {X.shape[1]} columns; at least one of each is needed.")
    bad = _first_not_finite(X)
    if bad is not None:
        row, column, value = bad
        raise DataError(
            f"{source}: X holds {value} in row {row}, column {column} (counted from 0). Fill in or drop such values."
        )


def _check_labels(y: Array, source: str) -> None:
    if y.ndim != 1:
        raise DataError(f"{source}: y has shape {y.shape}; a classifier needs one label per row, shape ({len(y)},).")
    if y.dtype.kind == "f":
        strange = ~(np.isfinite(y) & (np.floor(y) == y))
        if strange.any():
            row = int(np.argmax(strange))
            raise DataError(
                f"{source}: the label of row {row} (counted from 0) is {y[row]}, which names no class. "
                "Give whole numbers or text."
            )


def _check_numbers(y: Array, source: str) -> None:
    if y.dtype.kind not in "biuf" or not np.isfinite(y.astype(np.float64)).all():
        raise DataError(f"{source}: y holds what are no finite numbers, as a regressor needs.")


def _first_not_finite(X: Any) -> tuple[int, int, float] | None:
    if not isinstance(X, np.ndarray):
        is_fine = np.isfinite(X.data)
        if is_fine.all():
            return None
        entry = int(np.argmin(is_fine))
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        return row, int(X.indices[entry]), float(X.data[entry])
    for rows in row_slices(*X.shape, numbers=_BLOCK_NUMBERS):
        is_fine = np.isfinite(X[rows])
        if not is_fine.all():
            row, column = divmod(int(np.argmin(is_fine)), X.shape[1])
            return rows.start + row, column, float(X[rows.start + row, column])
    return None


def hold_out(dataset: Dataset, how: HeldOut, *, by_class: bool = True) -> Dataset:
    """Split a data set without a test part."""
    if how.is_streamed:
        is_held = StreamMask(how.test_size, how.seed).following(len(dataset.y))
        X, y = dataset.X, dataset.y
        return dataset._replace(X=X[~is_held], y=y[~is_held], X_test=X[is_held], y_test=y[is_held])
    try:
        return split(dataset, test_size=how.test_size, seed=how.seed, by_class=by_class)
    except DataError as problem:
        raise DataError(f"{problem} Leave out --holdout to train on all rows, or give a --test file.") from problem


def held_out(args: Namespace, model: Model | LinearRegressor, name: str) -> HeldOut | None:
    """Say how the rows of `name` were split for training: by the options, else by what the model remembers."""
    known = trained_on(model, name)
    known_size, known_seed = known.get("test_size"), known.get("seed", DEFAULT_SEED)
    size = known_size if args.holdout is None else args.holdout
    if not size:
        return None
    seed = int(known_seed if args.seed is None else args.seed)
    return HeldOut(float(size), seed, is_streamed=bool(known.get("is_streamed")))


def trained_on(model: Model | LinearRegressor, name: str) -> Mapping[str, Any]:
    """Return what the model remembers of its training rows if they had this name, else nothing."""
    known = model.info.get("data")
    return known if isinstance(known, Mapping) and known.get("name") == name else {}


def pick(dataset: Dataset, part: str, how: HeldOut | None, *, by_class: bool = True) -> tuple[Any, Array, str]:
    """Return X, y and a phrase that says which rows they are."""
    name = dataset.name
    if part == "all":
        if dataset.X_test is None or dataset.y_test is None:
            return dataset.X, dataset.y, which_rows(dataset, len(dataset.y), part)
        X, y = (dataset.X, dataset.X_test), np.concatenate([dataset.y, dataset.y_test])
        both = np.vstack(X) if isinstance(dataset.X, np.ndarray) else sparse.vstack(X, format="csr")
        return both, y, f"all {len(y)} rows of {name}, training and test part"
    if dataset.X_test is not None:
        how = None
    elif how is None:
        raise DataError(
            f"{name} has no test part, and nothing says how it was split. Give --holdout and --seed as in "
            "training, or --part all."
        )
    else:
        dataset = hold_out(dataset, how, by_class=by_class)
    if part == "train":
        return dataset.X, dataset.y, which_rows(dataset, len(dataset.y), part, how)
    assert dataset.y_test is not None
    return dataset.X_test, dataset.y_test, which_rows(dataset, len(dataset.y_test), part, how)


def which_rows(dataset: Dataset, n: int, part: str, how: HeldOut | None = None) -> str:
    """Say which rows of a data set some are, for whoever reads a number about them."""
    name = dataset.name
    if dataset.columns is not None and dataset.columns.missing == "drop":
        name += " without missing values"
    split = "" if how is None else f" ({100 * how.test_size:g}% held out, seed {how.seed})"
    return f"all {n} rows of {name}" if part == "all" else f"the {n} {_PARTS[part]} rows of {name}{split}"


def class_weights(asked: str | Mapping[str, float] | None, classes: Any) -> Any:
    """Turn weights by text into weights by label."""
    if not isinstance(asked, Mapping):
        return asked
    found: dict[Any, float] = {}
    for text, weight in asked.items():
        label = find_label(text, classes, "--class-weight")
        if label in found:
            raise DataError(f"--class-weight names the label {label} twice. Keep one of the two.")
        found[label] = weight
    return found


def find_label(text: str, classes: Array, option: str) -> Any:
    """Return the label that a text means: "+1", "1" and "1.0" all mean the label 1."""
    labels = classes.tolist()
    label = next((label for label in labels if _is_label(text, label)), None)
    if label is None:
        shown = ", ".join(map(str, labels[:10])) + (", ..." if len(labels) > 10 else "")
        raise DataError(f"{option} names the label {text!r}; the labels are {shown}.")
    return label


def _is_label(text: str, label: Any) -> bool:
    if text == str(label):
        return True
    try:
        return not isinstance(label, str | bytes) and float(text) == float(label)
    except ValueError:
        return False


def read_model(path: str) -> Model | LinearRegressor:
    """Read a model of ours, or a LIBLINEAR or LIBSVM file."""
    if looks_like_libsvm_model(path):
        return read_libsvm_model(path)
    model = read_liblinear(path) if looks_like_liblinear(path) else load_model(path)
    with blaming(path, advice="Train again."):
        _check_info(model)
    return model


def _check_info(model: Model | LinearRegressor) -> None:
    """Refuse numbers that a model remembers of its training and that are none."""
    info, data = model.info, model.info.get("data")
    for name in ("C", "intercept_scaling"):
        if info.get(name) is not None and not 0.0 < float(info[name]) < np.inf:
            raise ValueError(f"its {name} is {info[name]}")
    Scaling.from_info(info, model.n_features)
    if info.get("columns") is not None:
        Columns.from_info(info["columns"], model.n_features)
    size, seed = (data.get("test_size"), data.get("seed")) if isinstance(data, Mapping) else (None, None)
    if not 0.0 <= float(size or 0.0) < 1.0 or int(seed or 0) < 0:
        raise ValueError(f"it was split by {size} and the seed {seed}")


def normalized(model: Model | LinearRegressor, X: Any, source: str) -> Any:
    """Return rows as the weights or vectors of the model expect them: scales of columns are folded into weights."""
    return scaling_of(model).apply(X, source)


def scores_of(model: Model, X: Any, source: str) -> Array:
    """Score raw rows, normalised where the training rows were; (n, k), or (n,) for two classes; votes of pairs."""
    X = normalized(model, model.fit_columns(X), source)
    blocks = row_slices(X.shape[0], len(model.classes), numbers=_BLOCK_NUMBERS)
    score = model.votes if isinstance(model, Votes) and len(model.classes) > 2 else model.decision_function
    return np.concatenate([score(X[rows]) for rows in blocks])


def labels_of(model: Model, scores: Array) -> Array:
    """Return the label of the highest score of every row."""
    return np.asarray(model.classes[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)])


def log_probabilities(model: Model, X: Any, scores: Array, source: str) -> Array:
    """Return the logarithms of the probabilities of rows with these scores; votes alone do not tell them; (n, k)."""
    if isinstance(model, Votes) and len(model.classes) > 2:
        return model.predict_log_proba(normalized(model, model.fit_columns(X), source))
    return model.log_probabilities_of(scores)


class Measured(NamedTuple):
    """How well a model does on some rows."""

    n: int
    accuracy: float  # share of rows labelled right; R^2 of a regressor
    n_unknown: int  # rows with a label the model does not know: errors
    log_loss: float | None  # mean over the rows with a known label; None where the model has no probabilities


def measured(model: Model, X: Any, y: Array, source: str) -> Measured:
    """Score the rows a block at a time, and compare with their labels."""
    check_labels_match(model, y, source)
    right, loss, order = 0, 0.0, np.argsort(model.classes)
    codes = order[np.minimum(np.searchsorted(model.classes, y, sorter=order), len(order) - 1)]
    is_known = model.classes[codes] == y
    for rows in row_slices(len(y), len(model.classes), numbers=_BLOCK_NUMBERS):
        scores = scores_of(model, X[rows], source)
        right += int((labels_of(model, scores) == y[rows]).sum())
        if model.has_probabilities:
            logs = log_probabilities(model, X[rows], scores, source)
            own = np.take_along_axis(logs, codes[rows, None], axis=1)[:, 0]
            loss -= float(own[is_known[rows]].sum())
    n_known = int(is_known.sum())
    log_loss = loss / n_known if model.has_probabilities and n_known else None
    return Measured(len(y), right / len(y), len(y) - n_known, log_loss)


def numbers_of(model: LinearRegressor, X: Any, source: str) -> Array:
    """Return the predictions for raw rows, normalised where the training rows were; (n,) or (n, k)."""
    return model.predict(normalized(model, model.fit_columns(X), source))


def measured_numbers(model: LinearRegressor, X: Any, y: Array, source: str) -> Measured:
    """Compare predictions with numbers: R^2, the share of the variance that they explain."""
    y = y.astype(np.float64)
    error, spread = ((y - other) ** 2 for other in (numbers_of(model, X, source).reshape(y.shape), y.mean(axis=0)))
    total = float(spread.sum())
    return Measured(len(y), 1.0 - float(error.sum()) / total if total > 0.0 else 0.0, 0, None)


def is_same_kind(labels: Array, others: Array) -> bool:
    """Say whether both are text or both are numbers."""
    return (labels.dtype.kind in "US") == (others.dtype.kind in "US")


def check_labels_match(model: Model, y: Array, source: str) -> None:
    """Refuse to compare text with numbers."""
    if not is_same_kind(model.classes, y):
        kinds = ["text" if labels.dtype.kind in "US" else "numbers" for labels in (y, model.classes)]
        raise DataError(
            f"{source}: labels are {kinds[0]} ({y[0]!s}, ...), the model's are {kinds[1]} "
            f"({model.classes[0]!s}, ...). Write them alike."
        )
