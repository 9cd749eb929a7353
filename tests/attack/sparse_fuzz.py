"""Sparse matrices with arrays damaged at random, and every door they can enter by.

Run in a process of its own, ``python sparse_fuzz.py seed count log``: what gets past the checks ends it by
a signal. The last input is in the log file.
"""

import collections
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sparse

N, D = 40, 12
FORMATS = ["csr"] * 4 + ["csc", "coo", "bsr", "dia", "lil", "dok"]
ODD = [-1, -(10**9), 10**8, 2**31 - 1, 2**31, -(2**31), 2**33, 2**62, -(2**62), 0, 7, D - 1, D, N - 1, N]
TYPES = ["i1", "u1", "i2", "u2", "u4", "u8", "i8", ">i4", ">i8", "f8", "f4", "f2", "?", "c16", "O", "M8[s]", ">f8"]
PARTS = {"coo": ("data", "row", "col"), "dia": ("data", "offsets"), "lil": ("rows", "data"), "dok": ()}


def sound_matrix(rng, layout):
    """Return a random matrix in a layout, as a matrix or an array of SciPy."""
    X = sparse.random(N, D, density=0.3, format="csr", random_state=int(rng.integers(1 << 30)))
    X = X.astype(rng.choice([np.float32, np.float64]))
    X = X.tobsr(blocksize=(4, 3)) if layout == "bsr" else X.asformat(layout)
    return getattr(sparse, f"{layout}_array")(X) if rng.random() < 0.3 else X


def damaged_array(rng, array):
    """Return an array with one thing wrong: a number, its length, type, order or place in memory."""
    array = np.array(array)
    how = rng.integers(11)
    if how == 0 and array.size:
        value = ODD[rng.integers(len(ODD))]
        if array.dtype.kind in "iu" and not np.iinfo(array.dtype).min <= value <= np.iinfo(array.dtype).max:
            array = array.astype(np.int64)
        array.reshape(-1)[rng.integers(array.size)] = value
    elif how == 1:
        array = array[: rng.integers(len(array) + 1)]
    elif how == 2:
        array = np.concatenate([array, array[: rng.integers(1, 5)]])
    elif how == 3:
        array = array.astype(TYPES[rng.integers(len(TYPES))])
    elif how == 4:
        array = array[::-1]
    elif how == 5:
        array = np.repeat(array, 2, axis=0)[::2]
    elif how == 6:
        array = array.reshape(1, *array.shape)
    elif how == 7:
        array = np.empty(0, array.dtype)
    elif how == 8:
        rng.shuffle(array)
    elif how == 9:
        shifted = np.zeros(array.nbytes + 1, "u1")[1:].view(array.dtype).reshape(array.shape)
        shifted[...] = array
        array = shifted
    elif array.dtype.kind in "iu" and array.size:
        array.reshape(-1)[rng.integers(array.size, size=3)] += rng.integers(-3, 4, size=3).astype(array.dtype)
    return array


def damage(rng, X):
    """Damage a matrix in place, once or twice."""
    for _ in range(rng.integers(1, 3)):
        parts = PARTS.get(X.format, ("data", "indices", "indptr"))
        if rng.random() < 0.15:
            X._shape = tuple(int(size) for size in rng.choice([0, 1, 5, D, N - 1, N, N + 1, 2 * N], 2))
        elif X.format == "dok":
            X._dict[tuple(int(at) for at in rng.choice([-1, 3, 10**9], 2))] = 1.0
        elif X.format == "lil":
            lists = getattr(X, parts[rng.integers(2)])
            row = lists[rng.integers(len(lists))]
            if row and rng.random() < 0.5:
                row[rng.integers(len(row))] = int(rng.choice([-1, 10**9, 3]))
            else:
                row.append(5)
        else:
            part = parts[rng.integers(len(parts))]
            setattr(X, part, damaged_array(rng, getattr(X, part)))
    return X


def doors(rng):
    """Return every way in, by name."""
    import softmargin as sm
    from softmargin.data import write_libsvm
    from softmargin.features import RandomBinning
    from softmargin.matrices.forms import canonical

    X, y, two = sound_matrix(rng, "csr"), np.arange(N) % 3, np.arange(N) % 2
    few = {"max_iter": 5, "random_state": 0}
    numbers, labels = rng.standard_normal((N, D)), rng.integers(0, 2, (N, 3))
    fitted = [sm.LinearSVC(**few), sm.KernelSVC(**few), sm.SoftmaxRegression(**few), sm.L1BallClassifier(**few)]
    fitted = [estimator.fit(X, y) for estimator in fitted]
    on_array = sm.KernelSVC(kernel="laplacian", **few).fit(X.toarray(), two)
    model, bins = fitted[0].model(), RandomBinning(5, random_state=0).fit(X)
    stream = {"multiclass": "one_vs_rest", "n_components": 5, **few}
    squared = {"multiclass": "one_vs_rest", "loss": "squared_hinge", **few}
    return {
        "LinearSVC": lambda X: sm.LinearSVC(**few).fit(X, y),
        "LinearSVC, squared": lambda X: sm.LinearSVC(**squared).fit(X, two),
        "KernelSVC": lambda X: sm.KernelSVC(**few).fit(X, y),
        "KernelSVC, squared": lambda X: sm.KernelSVC(**squared).fit(X, y),
        "partial_fit": lambda X: sm.KernelSVC(**stream).partial_fit(X, y, classes=[0, 1, 2]),
        "SoftmaxRegression": lambda X: sm.SoftmaxRegression(**few).fit(X, y),
        "SoftmaxRegression, l1": lambda X: sm.SoftmaxRegression(l1_ratio=1.0, **few).fit(X, y),
        "softmax_path": lambda X: sm.softmax_path(X, y, Cs=2, max_iter=3),
        "L1BallClassifier": lambda X: sm.L1BallClassifier(**few).fit(X, y),
        "L1BallRegressor": lambda X: sm.L1BallRegressor(**few).fit(X, y.astype(float)),
        "TraceBallClassifier": lambda X: sm.TraceBallClassifier(**few).fit(X, y),
        "labels": lambda X: sm.L1BallClassifier(**few).fit(numbers, damage(rng, sparse.csr_matrix(labels))),
        "predict": lambda X: [estimator.predict(X) for estimator in (*fitted, on_array)],
        "score": lambda X: [estimator.score(X, y) for estimator in fitted],
        "model": lambda X: model.decision_function(model.fit_columns(X)),
        "certify": lambda X: [sm.certify(estimator, X, y, max_seconds=0.05) for estimator in fitted[:3]],
        "transform": lambda X: bins.transform(X),
        "fit_transform": lambda X: RandomBinning(5, random_state=0).fit_transform(X),
        "write_libsvm": lambda X: write_libsvm(os.devnull, X, y),
        "canonical": canonical,
    }


def main(seed, count, log):
    """Send damaged matrices through random doors, and count what is refused: by ValueError or TypeError only."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    ways, outcomes = doors(rng), collections.Counter()
    for number in range(count):
        name, layout = rng.choice([*ways]), FORMATS[rng.integers(len(FORMATS))]
        X = sound_matrix(rng, layout)
        try:
            damage(rng, X)
        except (ValueError, TypeError, IndexError, OverflowError):  # SciPy itself refused
            outcomes["not made"] += 1
            continue
        Path(log).write_text(f"{seed} {number} {name} {layout}")
        try:
            ways[name](X)
            outcomes["harmless"] += 1
        except (ValueError, TypeError):
            outcomes["refused"] += 1
    sys.stdout.write(f"{dict(outcomes)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
