"""LIBSVM model files: plain text, read for prediction and certification, written for other tools.

    svm_type c_svc                how it was trained
    kernel_type rbf               linear, polynomial, rbf or sigmoid
    gamma 0.5                     settings of the kernel: degree, gamma, coef0
    nr_class 3
    total_sv 5
    rho 0.1 0.2 0.3               one per pair of classes: 0-1, 0-2, ..., 1-2, ...
    label 2 1 3                   order of the classes; any order
    nr_sv 2 2 1                   support vectors of each
    SV
    a_1 a_2 1:0.5 4:1             coefficients of the pairs of its class, k - 1 numbers, then its entries

A pair (c, e), c < e, has the score  sum of a K over the support vectors of both - rho , above zero for c: a vector of c
has its coefficient of the pair in column e - 1, one of e in column c. The file holds neither C, nor the number of
features, nor which rows were support vectors; LIBSVM writes their entries with 8 digits.
"""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.errors import IncompatibleError, ModelFileError
from softmargin.core.files import atomic_write
from softmargin.kernels import Linear, make_kernel
from softmargin.models.kernel_expansion import KernelExpansion
from softmargin.models.linear import LinearModel
from softmargin.models.one_vs_one import LinearOneVsOne, OneVsOne
from softmargin.models.shapes import Classifier, dense
from softmargin.models.text_files import TextFormat, checked_classes, last_line

__all__ = ["looks_like_libsvm_model", "read_libsvm_model", "write_libsvm_model"]

_CLASSIFIERS = ("c_svc", "nu_svc")
_KERNELS = {"linear": (), "polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
_FORMAT = TextFormat(
    "LIBSVM",
    kind="svm_type",
    body="SV",
    numbers="support vectors",
    required=("svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label", "nr_sv"),
    others=("degree", "gamma", "coef0", "probA", "probB", "prob_density_marks"),
)
_LARGEST_INDEX = 2**31 - 1  # an int of C


def looks_like_libsvm_model(path: str | os.PathLike[str]) -> bool:
    """Tell whether the file at `path` starts as a LIBSVM model does; False if it cannot be read."""
    return _FORMAT.is_start_of(path)


def read_libsvm_model(path: str | os.PathLike[str]) -> OneVsOne:
    """Read a LIBSVM classifier.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    OneVsOne
        `info` holds source, svm_type, multiclass ("one_vs_one") and loss; no C, which the file lacks.

    Raises
    ------
    ModelFileError
        Not a LIBSVM file, no classifier, with a precomputed kernel, truncated, or with a malformed number.

    Examples
    --------
    >>> from softmargin import KernelSVC, read_libsvm_model, write_libsvm_model
    >>> clf = KernelSVC(random_state=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> write_libsvm_model(clf.model(), "theirs.model")
    >>> read_libsvm_model("theirs.model").kernel.name
    'rbf'
    """
    shown = os.fspath(path)
    lines = _FORMAT.read_lines(path)
    header, body_at = _FORMAT.read_header(lines, _CLASSIFIERS, "no classifier", shown)
    labels, counts, rho = _sizes(header, shown)
    kernel = _kernel(header, shown)
    coef, vectors = _read_vectors(lines, body_at, int(counts.sum()), len(labels) - 1, shown)
    info: dict[str, Any] = {"source": "LIBSVM", "svm_type": header["svm_type"], "multiclass": "one_vs_one"}
    info |= {"loss": "hinge", **_calibration(header, len(labels), shown)}
    return OneVsOne(labels, kernel, vectors, counts, coef, -rho, info)


def _sizes(header: dict[str, str], shown: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels and numbers of support vectors, (k,), and rho, (k (k - 1) / 2,)."""
    try:
        k, total = int(header["nr_class"]), int(header["total_sv"])
        labels, counts = (np.array([int(n) for n in header[key].split()], dtype=np.int64) for key in ("label", "nr_sv"))
        rho = np.array([float(number) for number in header["rho"].split()])
    except (ValueError, OverflowError) as problem:
        raise ModelFileError(f"{shown!r}: a number in the header cannot be read ({problem}).") from problem
    checked_classes(labels, k, shown)
    if len(counts) != k or counts.min() < 0 or sum(counts.tolist()) != total:
        raise ModelFileError(
            f"{shown!r}: total_sv is {total} and nr_sv {str(counts.tolist())[:200]}; {k} numbers of this sum are due."
        )
    if len(rho) != k * (k - 1) // 2 or not np.isfinite(rho).all():
        raise ModelFileError(f"{shown!r}: rho holds {len(rho)} numbers; {k * (k - 1) // 2} finite ones are needed.")
    return labels, counts, rho


def _kernel(header: dict[str, str], shown: str) -> Any:
    name = header["kernel_type"]
    if name not in _KERNELS:
        known = "its values are not in the file" if name == "precomputed" else "softmargin does not know it"
        raise ModelFileError(f"{shown!r}: the kernel is {name[:40]}, and {known}; it reads {', '.join(_KERNELS)}.")
    missing = [key for key in _KERNELS[name] if key not in header]
    if missing:
        raise ModelFileError(f"{shown!r}: the header lacks {', '.join(missing)} of the {name} kernel.")
    try:
        return make_kernel(name, **{key: _number(key, header[key]) for key in _KERNELS[name]})
    except ValueError as problem:
        raise ModelFileError(f"{shown!r}: the {name} kernel cannot be made ({problem}).") from problem


def _number(key: str, text: str) -> Any:
    return int(text) if key == "degree" else float(text)


def _read_vectors(lines: list[str], first: int, n: int, width: int, shown: str) -> tuple[np.ndarray, Any]:
    """Return the coefficients, (n, width), and the support vectors, CSR."""
    last = last_line(lines, first)
    # A number and a gap have 2 characters: no more room is made than the lines can fill.
    if last - first != n or n * width > sum(map(len, lines[first:last])) // 2 + n:
        raise ModelFileError(
            f"{shown!r} is truncated: {last - first} support vectors found, {n} of {width} coefficients needed."
        )
    coef, starts = np.empty((n, width)), [0]
    columns: list[int] = []
    values: list[float] = []
    for i, line in enumerate(lines[first:last]):
        where, words = f"{shown!r}, line {first + 1 + i}", line.split()
        if len(words) < width:
            raise ModelFileError(f"{where}: found {len(words)} coefficients, not {width}.")
        try:
            coef[i] = [float(text) for text in words[:width]]
            entries = [(int(index), float(value)) for index, value in (word.split(":") for word in words[width:])]
        except ValueError as problem:
            raise ModelFileError(f"{where}: a number cannot be read ({str(problem)[:100]}).") from problem
        indices = [index for index, _ in entries]
        if any(a >= b for a, b in zip([0, *indices], indices, strict=False)) or (
            indices and indices[-1] > _LARGEST_INDEX
        ):
            raise ModelFileError(f"{where}: columns must rise from 1 on, below 2^31.")
        columns += [index - 1 for index in indices]
        values += [value for _, value in entries]
        starts.append(len(columns))
        if not (np.isfinite(coef[i]).all() and np.isfinite(values[starts[-2] :]).all()):
            raise ModelFileError(f"{where}: a number is not finite.")
    d = max(columns, default=-1) + 1
    return coef, csr_matrix((np.array(values), np.array(columns, dtype=np.int64), np.array(starts)), shape=(n, d))


def _calibration(header: dict[str, str], k: int, shown: str) -> dict[str, Any]:
    """Return the probabilities of two classes: P(first) = 1 / (1 + exp(A f + B)), f its score."""
    if k != 2 or "probA" not in header or "probB" not in header:
        return {}
    try:
        A, B = float(header["probA"]), float(header["probB"])
    except ValueError as problem:
        raise ModelFileError(f"{shown!r}: probA or probB is no number ({str(problem)[:100]}).") from problem
    return {"calibration": {"method": "sigmoid", "slopes": [-A], "offsets": [B]}}


def _platt(model: OneVsOne) -> dict[str, str]:
    """Return the entries of a header that `_calibration` reads."""
    found = model.info.get("calibration")
    if found is None or found["method"] != "sigmoid" or len(model.classes) > 2:
        return {}
    return {"probA": f"{-found['slopes'][0]:.17g}", "probB": f"{found['offsets'][0]:.17g}"}


def as_pairs(model: Classifier) -> OneVsOne:
    """Return a classifier as kernel machines of all pairs of classes whose votes are its labels.

    The machine of a pair (c, e) has the score s_c - s_e: the class of the largest score wins all its pairs. A support
    vector of several classes is one of each.
    """
    if isinstance(model, OneVsOne):
        return model
    if isinstance(model, LinearOneVsOne):
        k, n_pairs = len(model.classes), len(model.intercept)
        coef = np.zeros((n_pairs, k - 1))
        coef[np.arange(n_pairs), [e - 1 for _, e in combinations(range(k), 2)]] = 1.0
        counts = np.arange(k)[::-1]  # the weights of a pair are a vector of its first class
        return OneVsOne(
            model.classes, Linear(), csr_matrix(dense(model.coef)), counts, coef, model.intercept, model.info
        )
    if isinstance(model, LinearModel):
        kernel, vectors, weights = Linear(), csr_matrix(dense(model.coef)), np.eye(len(model.intercept))
    elif isinstance(model, KernelExpansion) and model.vectors is not None:
        kernel, vectors, weights = model.kernel, csr_matrix(model.vectors), model.coef
    else:
        raise IncompatibleError("LIBSVM files hold support vectors; a precomputed kernel has none.")
    intercept = model.intercept
    if len(model.classes) == 2:  # the one score is that of the second class; vectors go by sign, as in LIBSVM
        weights = np.hstack([-np.minimum(weights, 0.0), np.maximum(weights, 0.0)])
        intercept = np.array([0.0, *intercept])
    k = len(model.classes)
    own = [np.flatnonzero(column) for column in weights.T]
    # Pairs with earlier classes have c as the second one, and come first.
    signs = np.where(np.arange(k - 1) < np.arange(k)[:, np.newaxis], -1.0, 1.0)
    coef = np.vstack([weights[rows, c, np.newaxis] * signs[c] for c, rows in enumerate(own)])
    of_pairs = np.array([intercept[c] - intercept[e] for c, e in combinations(range(k), 2)])
    counts = np.array([len(rows) for rows in own])
    return OneVsOne(model.classes, kernel, vectors[np.concatenate(own)], counts, coef, of_pairs, model.info)


def write_libsvm_model(model: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a classifier so that LIBSVM reads it, whole or not at all; numbers have 17 digits and read back exactly.

    A model that is none of all pairs of classes (joint, one-vs-rest) is written as pairs with the same labels, where
    ties apart; see `as_pairs`. Sigmoid probabilities of two classes are written, others are left out.

    Raises
    ------
    IncompatibleError
        The labels are not integers, it is no classifier, or LIBSVM does not know the kernel.

    Examples
    --------
    >>> from pathlib import Path
    >>> from softmargin import KernelSVC, write_libsvm_model
    >>> clf = KernelSVC(random_state=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> write_libsvm_model(clf.model(), "theirs.model")
    >>> Path("theirs.model").read_text().splitlines()[0]
    'svm_type c_svc'
    """
    if not isinstance(model, Classifier):
        raise IncompatibleError("LIBSVM files are written of classifiers; this model predicts numbers.")
    model = as_pairs(model)
    name = model.kernel.name
    if name not in _KERNELS:
        raise IncompatibleError(f"LIBSVM files hold the kernels {', '.join(_KERNELS)}; this model has {name}.")
    settings = {key: getattr(model.kernel, key) for key in _KERNELS[name]}
    header = {
        "svm_type": model.info.get("svm_type", _CLASSIFIERS[0]),
        "kernel_type": name,
        **{key: value if key == "degree" else f"{value:.17g}" for key, value in settings.items()},
        "nr_class": len(model.classes),
        "total_sv": len(model.coef),
        "rho": " ".join(f"{-b:.17g}" for b in model.intercept.tolist()),
        "label": " ".join(map(str, _FORMAT.writable_labels(model.classes))),
        **_platt(model),
        "nr_sv": " ".join(map(str, model.counts.tolist())),
    }
    vectors = csr_matrix(model.vectors)
    with atomic_write(path) as file:
        file.write("".join(f"{key} {value}\n" for key, value in header.items()).encode("ascii") + b"SV\n")
        for i, row in enumerate(model.coef.tolist()):
            entries = slice(*vectors.indptr[i : i + 2])
            pairs = zip(vectors.indices[entries].tolist(), vectors.data[entries].tolist(), strict=True)
            words = [*(f"{a:.17g}" for a in row), *(f"{index + 1}:{value:.17g}" for index, value in pairs)]
            file.write((" ".join(words) + " \n").encode("ascii"))
