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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.errors import DataError, IncompatibleError, ModelFileError
from softmargin.core.files import atomic_write
from softmargin.kernels import make_kernel
from softmargin.models.kernel_expansion import kernel_sums
from softmargin.models.shapes import Classifier, checked_labels, checked_scores, floats, matrix
from softmargin.models.text_files import TextFormat, checked_classes, last_line

__all__ = ["OneVsOne", "looks_like_libsvm_model", "read_libsvm_model", "write_libsvm_model"]

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


@dataclass(frozen=True, eq=False)
class OneVsOne(Classifier):
    """Kernel SVMs of every pair of classes, which vote; see `Classifier` for info.

    Parameters
    ----------
    classes : ndarray, shape (k,)
        In the order of the file: the first of the classes with the most votes is predicted.
    kernel : kernel object
    vectors : CSR matrix, shape (n_support, d)
        Those of the first class first.
    counts : int array, shape (k,)
        Support vectors of each class.
    coef : ndarray, shape (n_support, k - 1)
    intercept : ndarray, shape (k (k - 1) / 2,)
        -rho of every pair.
    """

    classes: np.ndarray
    kernel: Any
    vectors: Any
    counts: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes, counts = checked_labels(self.classes), np.asarray(self.counts)
        vectors, coef, intercept = matrix(self.vectors), floats(self.coef), floats(self.intercept)
        k, n = len(classes), vectors.shape[0]
        shapes = (counts.shape, coef.shape, intercept.shape)
        if shapes != ((k,), (n, k - 1), (k * (k - 1) // 2,)) or counts.min() < 0 or counts.sum() != n:
            raise DataError(
                f"{k} classes and {n} support vectors need counts (k,) that sum to {n}, coef ({n}, {k - 1}) and "
                f"{k * (k - 1) // 2} intercepts; found shapes {shapes} and a sum of {counts.sum()}."
            )
        checked = {"classes": classes, "counts": counts, "vectors": csr_matrix(vectors), "coef": coef}
        for name, value in {**checked, "intercept": intercept}.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """The highest column that a support vector uses; rows may have more."""
        return int(self.vectors.shape[1])

    def pairs(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield every pair of classes, and the coefficients of all support vectors in it, (n_support,)."""
        of = np.repeat(np.arange(len(self.classes)), self.counts)
        for c, e in combinations(range(len(self.classes)), 2):
            column = np.zeros(len(of))
            column[of == c], column[of == e] = self.coef[of == c, e - 1], self.coef[of == e, c]
            yield c, e, column

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the votes of all classes, (n, k); for two classes the score of the second, (n,)."""
        X = self.fit_columns(X)
        vectors = self.vectors
        if X.shape[1] > vectors.shape[1]:
            vectors = csr_matrix((vectors.data, vectors.indices, vectors.indptr), (vectors.shape[0], X.shape[1]))
        every = list(self.pairs())
        columns = np.column_stack([column for _, _, column in every])
        scores = checked_scores(kernel_sums(self.kernel, vectors, X, columns) + self.intercept, 0)
        if len(self.classes) == 2:
            return -scores[:, 0]
        votes = np.zeros((len(scores), len(self.classes)))
        for p, (c, e, _) in enumerate(every):
            votes[:, c] += scores[:, p] > 0
            votes[:, e] += scores[:, p] <= 0
        return votes

    def fit_columns(self, X: Any) -> Any:
        """Return `X`, sparse ones with all columns of the support vectors; wider rows stay as they are."""
        X = matrix(X)
        return X if X.shape[1] > self.n_features else super().fit_columns(X)


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
    """
    shown = os.fspath(path)
    lines = _FORMAT.read_lines(path)
    header, body_at = _FORMAT.read_header(lines, _CLASSIFIERS, "no classifier", shown)
    labels, counts, rho = _sizes(header, shown)
    kernel = _kernel(header, shown)
    coef, vectors = _read_vectors(lines, body_at, int(counts.sum()), len(labels) - 1, shown)
    info = {"source": "LIBSVM", "svm_type": header["svm_type"], "multiclass": "one_vs_one", "loss": "hinge"}
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


def write_libsvm_model(model: OneVsOne, path: str | os.PathLike[str]) -> None:
    """Write a model so that LIBSVM reads it, whole or not at all; numbers have 17 digits and read back exactly.

    Raises
    ------
    IncompatibleError
        The labels are not integers, or LIBSVM does not know the kernel.
    """
    name = model.kernel.name
    if name not in _KERNELS or model.classes.dtype.kind not in "iu":
        raise IncompatibleError(
            f"LIBSVM files hold integer labels and the kernels {', '.join(_KERNELS)}; this model has "
            f"{model.classes.dtype} labels and the {name} kernel."
        )
    settings = {key: getattr(model.kernel, key) for key in _KERNELS[name]}
    header = {
        "svm_type": model.info.get("svm_type", _CLASSIFIERS[0]),
        "kernel_type": name,
        **{key: value if key == "degree" else f"{value:.17g}" for key, value in settings.items()},
        "nr_class": len(model.classes),
        "total_sv": len(model.coef),
        "rho": " ".join(f"{-b:.17g}" for b in model.intercept.tolist()),
        "label": " ".join(map(str, model.classes.tolist())),
        "nr_sv": " ".join(map(str, model.counts.tolist())),
    }
    with atomic_write(path) as file:
        file.write("".join(f"{key} {value}\n" for key, value in header.items()).encode("ascii") + b"SV\n")
        for i, row in enumerate(model.coef.tolist()):
            entries = slice(*model.vectors.indptr[i : i + 2])
            pairs = zip(model.vectors.indices[entries].tolist(), model.vectors.data[entries].tolist(), strict=True)
            words = [*(f"{a:.17g}" for a in row), *(f"{index + 1}:{value:.17g}" for index, value in pairs)]
            file.write((" ".join(words) + " \n").encode("ascii"))
