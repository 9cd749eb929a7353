"""LIBLINEAR model files: plain text, read for prediction and certification, written for other tools.

    solver_type MCSVM_CS          how it was trained
    nr_class 3
    label 2 1 3                   column order of w; any order
    nr_feature 4
    bias 1                        below 0: no bias; else every row got an extra column of this value
    w
    w_11 w_12 w_13                one line per column of X (then one for the bias), one number per class

Two classes have one column, positive for the first label, except for the joint losses (MCSVM_CS, and MCSVM_WW of the
Walrus fork), which have two. The file does not hold C. Walrus trains two columns for two classes but saves only the
first half of the numbers, so its two-class models cannot be read.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.errors import DataError, IncompatibleError, ModelFileError
from softmargin.core.files import atomic_write
from softmargin.kernels import Linear
from softmargin.models.kernel_expansion import KernelExpansion
from softmargin.models.linear import LinearModel
from softmargin.models.one_vs_one import LinearOneVsOne, OneVsOne
from softmargin.models.regressor import LinearRegressor
from softmargin.models.shapes import Predictor, dense
from softmargin.models.text_files import TextFormat, checked_classes, last_line

__all__ = ["looks_like_liblinear", "read_liblinear", "write_liblinear"]


class _Trained(NamedTuple):
    multiclass: str
    loss: str
    penalty: str


_SOLVER_TYPES = {
    "MCSVM_CS": _Trained("crammer_singer", "hinge", "l2"),
    "MCSVM_WW": _Trained("weston_watkins", "hinge", "l2"),
    "MCSVM_WW_Shark": _Trained("weston_watkins", "hinge", "l2"),
    "L2R_LR": _Trained("one_vs_rest", "logistic", "l2"),
    "L2R_LR_DUAL": _Trained("one_vs_rest", "logistic", "l2"),
    "L1R_LR": _Trained("one_vs_rest", "logistic", "l1"),
    "L2R_L2LOSS_SVC": _Trained("one_vs_rest", "squared_hinge", "l2"),
    "L2R_L2LOSS_SVC_DUAL": _Trained("one_vs_rest", "squared_hinge", "l2"),
    "L2R_L1LOSS_SVC_DUAL": _Trained("one_vs_rest", "hinge", "l2"),
    "L1R_L2LOSS_SVC": _Trained("one_vs_rest", "squared_hinge", "l1"),
}
_ONE_VS_REST_TYPE = {
    "hinge": "L2R_L1LOSS_SVC_DUAL",
    "squared_hinge": "L2R_L2LOSS_SVC_DUAL",
    "logistic": "L2R_LR",
}
_FORMAT = TextFormat(
    "LIBLINEAR",
    kind="solver_type",
    body="w",
    numbers="weights",
    required=("solver_type", "nr_class", "label", "nr_feature", "bias"),
    others=("rho",),
)


def looks_like_liblinear(path: str | os.PathLike[str]) -> bool:
    """Tell whether the file at `path` starts as a LIBLINEAR model does; False if it cannot be read."""
    return _FORMAT.is_start_of(path)


def read_liblinear(path: str | os.PathLike[str]) -> LinearModel:
    """Read a LIBLINEAR (or Walrus) classifier.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    LinearModel
        Classes sorted; intercept = bias weight * bias. Two columns of a joint loss become one row, w_1 - w_0. `info`
        holds solver_type, multiclass (crammer_singer, weston_watkins or one_vs_rest), loss, penalty, fit_intercept and,
        with a bias, intercept_scaling; no C, which the file lacks.

    Raises
    ------
    ModelFileError
        Not a LIBLINEAR file, a regressor, truncated, or with a malformed number.

    Examples
    --------
    >>> from softmargin import LinearSVC, read_liblinear, write_liblinear
    >>> clf = LinearSVC(random_state=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> write_liblinear(clf.model(), "theirs.model")
    >>> read_liblinear("theirs.model").n_features
    1
    """
    shown = os.fspath(path)
    lines = _FORMAT.read_lines(path)
    header, body_at = _FORMAT.read_header(lines, _SOLVER_TYPES, "not a classifier softmargin knows", shown)
    trained = _SOLVER_TYPES[header["solver_type"]]
    k, d, bias, labels = _sizes(header, shown)
    columns = 1 if k == 2 and trained.multiclass == "one_vs_rest" else k
    weights = _read_weights(lines, body_at, columns, d + (bias >= 0), shown)

    order = np.argsort(labels)
    classes = labels[order]
    if columns == 1:
        rows = weights.T if labels[0] == classes[1] else -weights.T
    else:
        rows = weights[:, order].T
        if k == 2:
            with np.errstate(over="ignore"):
                rows = rows[1:] - rows[:1]
    info: dict[str, Any] = {"source": "LIBLINEAR", "solver_type": header["solver_type"], **trained._asdict()}
    info["fit_intercept"] = bias >= 0
    if bias >= 0:
        info["intercept_scaling"] = bias
    with np.errstate(over="ignore"):
        intercept = rows[:, d] * bias if bias >= 0 else np.zeros(len(rows))
    if not (np.isfinite(rows).all() and np.isfinite(intercept).all()):
        raise ModelFileError(f"{shown!r}: its weights are too large for float64 once put together.")
    return LinearModel(classes, np.ascontiguousarray(rows[:, :d]), intercept, info)


def _sizes(header: dict[str, str], shown: str) -> tuple[int, int, float, np.ndarray]:
    try:
        k, d, bias = int(header["nr_class"]), int(header["nr_feature"]), float(header["bias"])
        labels = np.array([int(label) for label in header["label"].split()], dtype=np.int64)
    except (ValueError, OverflowError) as problem:
        raise ModelFileError(f"{shown!r}: a number in the header cannot be read ({problem}).") from problem
    checked_classes(labels, k, shown)
    if d < 0 or not np.isfinite(bias):
        raise ModelFileError(f"{shown!r}: nr_feature is {d} and the bias {bias}; neither can be.")
    return k, d, bias, labels


def _read_weights(lines: list[str], first: int, columns: int, n_lines: int, shown: str) -> np.ndarray:
    """Return the numbers after `w`, shape (n_lines, columns)."""
    last = last_line(lines, first)
    found, numbers = last - first, sum(map(len, lines[first:last])) // 2 + 1  # a number and a gap have 2 characters
    if columns == 2 and 0 < found == sum(len(line.split(maxsplit=1)) == 1 for line in lines[first:last]):
        raise ModelFileError(
            f"{shown!r} holds one column of weights where a joint machine of two classes has two: the Walrus "
            "fork of LIBLINEAR loses half of them when it saves. Train with softmargin, or with MCSVM_CS."
        )
    if found != n_lines or n_lines * columns > numbers + n_lines:
        raise ModelFileError(
            f"{shown!r} is truncated: {found} lines of weights found, {n_lines} of {columns} numbers needed."
        )
    weights = np.empty((n_lines, columns))
    for j, line in enumerate(lines[first:last]):
        row = line.split()
        if len(row) != columns:
            raise ModelFileError(f"{shown!r}, line {first + 1 + j}: found {len(row)} weights, not {columns}.")
        try:
            weights[j] = [float(text) for text in row]
        except ValueError as problem:
            raise ModelFileError(f"{shown!r}, line {first + 1 + j}: a weight is no number ({problem}).") from problem
    if not np.isfinite(weights).all():
        number = first + 1 + int(np.argmin(np.isfinite(weights).all(axis=1)))
        raise ModelFileError(f"{shown!r}, line {number}: a weight is not finite.")
    return weights


def write_liblinear(model: Predictor, path: str | os.PathLike[str]) -> None:
    """Write a linear model so that LIBLINEAR's `predict` reads it, whole or not at all.

    Joint models get the header MCSVM_CS, Weston-Watkins ones too: plain LIBLINEAR does not know MCSVM_WW, and both
    predict the label of the highest score. Two classes are then two columns, -w/2 and +w/2. One-vs-rest models
    (``info["multiclass"]``) get the header of their loss, softmax of two classes that of logistic regression, and
    regressors L2R_L2LOSS_SVR. Numbers have 17 digits and read back exactly.

    Parameters
    ----------
    model : LinearModel, LinearRegressor, or a model with a linear kernel
    path : path-like

    Raises
    ------
    IncompatibleError
        The labels are not integers of 32 bits, the only labels the format knows; or it has no row of weights for each
        class, or for its one target.

    Examples
    --------
    >>> from pathlib import Path
    >>> from softmargin import LinearSVC, write_liblinear
    >>> clf = LinearSVC(random_state=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> write_liblinear(clf.model(), "theirs.model")
    >>> Path("theirs.model").read_text().splitlines()[0]
    'solver_type MCSVM_CS'
    """
    weights = _as_weights(model)
    bias = _bias(weights)
    rows = dense(weights.coef)
    if bias >= 0:
        rows = np.column_stack([rows, weights.intercept / bias])
    if isinstance(weights, LinearRegressor):
        names = {"solver_type": "L2R_L2LOSS_SVR", "nr_class": 2}  # so many, LIBLINEAR says, and no labels
    else:
        labels, is_binary = _FORMAT.writable_labels(weights.classes), len(weights.classes) == 2
        solver_type = "MCSVM_CS"
        if weights.info.get("multiclass") == "one_vs_rest" or (is_binary and weights.has_log_odds):
            loss = "logistic" if weights.has_log_odds else str(weights.info.get("loss"))
            solver_type = _ONE_VS_REST_TYPE.get(loss, "L2R_L2LOSS_SVC_DUAL")
            if is_binary:
                labels.reverse()  # the one column is positive for the label named first
        elif is_binary:
            rows = np.vstack([-rows / 2, rows / 2])
        names = {"solver_type": solver_type, "nr_class": len(labels), "label": " ".join(map(str, labels))}
    header = {**names, "nr_feature": weights.n_features, "bias": f"{bias:.17g}"}
    with atomic_write(path) as file:
        file.write("".join(f"{name} {value}\n" for name, value in header.items()).encode("ascii") + b"w\n")
        for row in rows.T.astype(np.float64):
            file.write(("".join(f"{weight:.17g} " for weight in row.tolist()) + "\n").encode("ascii"))


def _as_weights(model: Predictor) -> LinearModel | LinearRegressor:
    """Return a model as rows of weights, one for every class or for the one target; refuse what is none."""
    if isinstance(model, KernelExpansion | OneVsOne) and isinstance(model.kernel, Linear):
        model = model.as_linear
    if isinstance(model, LinearOneVsOne) and len(model.classes) == 2:  # above zero is the first class
        return LinearModel(model.classes, -dense(model.coef), -model.intercept, model.info)
    if isinstance(model, LinearModel) or (isinstance(model, LinearRegressor) and len(model.intercept) == 1):
        return model
    if isinstance(model, LinearRegressor):
        has = f"predicts {len(model.intercept)} numbers"
    elif isinstance(model, LinearOneVsOne):
        has = "has weights for every pair of classes"
    else:
        has = "is a sum over support vectors"
    raise IncompatibleError(
        f"a LIBLINEAR file holds a row of weights for every class, or for one number; this model {has}. Use "
        "model.save, or another format."
    )


def _bias(model: LinearModel | LinearRegressor) -> float:
    """Return the value of the constant column, -1 where there is none."""
    if not (model.info.get("fit_intercept", False) or model.intercept.any()):
        return -1.0
    bias = float(model.info.get("intercept_scaling") or 1.0)
    if bias <= 0:
        raise DataError(f"intercept_scaling must be positive to write a bias; the model has {bias}.")
    return bias
