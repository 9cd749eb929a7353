"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from typing import Any

import numpy as np
from benchopt import BaseDataset
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import normalize

from benchmark_utils import data_folder
from softmargin.data import load

_LARGEST_PIXEL = 255.0
# Files that hold raw values, and how everybody scales them (LIBSVM's mnist.scale and news20.scale).
_SCALING = {
    "mnist": lambda X: X * (1.0 / _LARGEST_PIXEL),
    "news20": lambda X: normalize(X, copy=False),
}


class Dataset(BaseDataset):
    """One data set by name; every solver gets the same matrix.

    ``layout``: "as read" is what a user has after loading (CSR with int32 indices from LIBSVM files, an array for
    digits); "dense" and "csr" convert.
    """

    name = "libsvm_folder"
    requirements = ["pip::softmargin"]
    parameters = {
        "data": ["dna", "letter", "mnist", "news20", "20ng-bydate", "reuters-r52", "leaves100", "digits"],
        "layout": ["as read"],
    }
    test_parameters = {"data": ["digits"]}

    def get_data(self) -> dict[str, Any]:
        parts = load(self.data, data_dir=data_folder())
        X, X_test = (self._prepared(X) for X in (parts.X, parts.X_test))
        return {"X": X, "y": parts.y, "X_test": X_test, "y_test": parts.y_test}

    def _prepared(self, X: Any) -> Any:
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
