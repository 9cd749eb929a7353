"""Real data sets: embedded ones, or files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from typing import Any

import numpy as np
from benchopt import BaseDataset
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import maxabs_scale, normalize

from benchmark_utils.folders import data_folder
from softmargin.data import load

# Data sets of the folder by their number of classes; optdigits-test is left out, it is what "digits" embeds.
MANY_CLASSES = (
    *("dna", "letter", "mnist", "news20", "20ng-bydate", "reuters-r52", "leaves100", "digits", "segment", "vehicle"),
    *("glass", "wine", "svmguide2", "poker", "shuttle", "tdt2", "isolet1560", "winequality-red", "winequality-white"),
    *("avila", "room-occupancy"),
)
TWO_CLASSES = (
    *("w8a", "kr-vs-kp", "a1a", "a9a", "splice", "mushrooms", "phishing", "svmguide1", "svmguide3", "heart-failure"),
    *("wdbc", "occupancy-detection", "skin-nonskin", "duke", "leukemia", "colon-cancer"),
)
_LARGEST_PIXEL, _LARGEST_RANK = 255.0, 13.0
# Files that hold raw values, and how all contenders scale them (LIBSVM's mnist.scale and news20.scale).
_SCALING = {
    "mnist": lambda X: X * (1.0 / _LARGEST_PIXEL),
    "news20": lambda X: normalize(X, copy=False),
    "tdt2": lambda X: normalize(X, copy=False),
    "poker": lambda X: X * (1.0 / _LARGEST_RANK),
    "skin-nonskin": lambda X: X * (1.0 / _LARGEST_PIXEL),
    "svmguide1": lambda X: maxabs_scale(X),
}
_SORTED = ("skin-nonskin", "tdt2")  # by class: the first rows alone would miss classes, so rows are shuffled
_MOST_ROWS = {"mnist": 10_000, "w8a": 10_000}
_USUAL_MOST_ROWS = 5000
_MOST_TEST_ROWS = 2000
_GAMMA = {"mnist": 0.02}
_KERNEL_TYPE = {"mnist": np.float32}


class RealData(BaseDataset):
    """One data set by name, ``self.data``; every solver gets the same matrix.

    ``layout``: "as read" is what a user has after loading (CSR with int32 indices from LIBSVM files, an array for
    digits); "dense" and "csr" convert.
    """

    is_real = True
    requirements = ["pip::softmargin"]

    def get_data(self) -> dict[str, Any]:
        parts = load(self.data, data_dir=data_folder())
        X, X_test = (self.prepared(X) for X in (parts.X, parts.X_test))
        order = np.random.default_rng(0).permutation(len(parts.y)) if self.data in _SORTED else slice(None)
        return {"X": X[order], "y": parts.y[order], "X_test": X_test, "y_test": parts.y_test}

    def prepared(self, X: Any) -> Any:
        """Return X scaled, in the layout asked for."""
        if X is None:
            return None
        X = _SCALING.get(self.data, lambda X: X)(X)
        if self.layout == "dense":
            return np.ascontiguousarray(X.toarray() if issparse(X) else X)
        if self.layout == "csr":
            return csr_matrix(X)
        if self.layout != "as read":
            raise ValueError(f"layout={self.layout!r} is unknown; choose as read, dense or csr.")
        return X


class KernelData(RealData):
    """The first rows of a data set, so many that a kernel matrix of them fits, and the gamma of its rbf kernel."""

    def get_data(self) -> dict[str, Any]:
        data = super().get_data()
        most = _MOST_ROWS.get(self.data, _USUAL_MOST_ROWS)
        data = {name: part[:most] for name, part in data.items() if part is not None}
        data |= {name: data[name][:_MOST_TEST_ROWS] for name in ("X_test", "y_test") if name in data}
        return data | {"gamma": _GAMMA.get(self.data, "scale")}

    def prepared(self, X: Any) -> Any:
        """Return X in the precision that the kernel matrix shall have."""
        X = super().prepared(X)
        return X if X is None else X.astype(_KERNEL_TYPE.get(self.data, X.dtype), copy=False)
