"""Real data sets with two classes: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data).

duke, ...       as they are, rows of length 1; an array where hardly any value is zero
news20-binary   classes 1 to 10 against 11 to 20, rows of length 1
*.rb            random binning features (maths: sampled kernel, eqs. 19 and 20), 100 grids:
                mnist 0 against 9, w8a, shuttle class 1 against the rest
"""

from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from benchmark_utils.folders import data_folder
from benchmark_utils.real_data import RealData
from softmargin.data import load
from softmargin.features import RandomBinning

_N_GRIDS = 100
_FILES = {"news20-binary": "news20", "mnist-0-9.rb": "mnist", "w8a.rb": "w8a", "shuttle.rb": "shuttle"}
# Widths of the kernel exp(-|x - y|_1 / sigma) that give hundreds to thousands of bins a grid, as in the paper.
_SIGMA = {"mnist-0-9.rb": 40.0, "w8a.rb": 20.0, "shuttle.rb": 4.0}
_LARGEST_PIXEL = 255.0
_ARRAYS = ("duke", "leukemia", "colon-cancer", "splice")
_SPARSE = ("a1a", "a9a", "w8a", "mushrooms", "phishing")


class Dataset(RealData):
    """One data set by name."""

    name = "libsvm_folder"
    parameters = {"data": [*_ARRAYS, "news20-binary", *_SPARSE, *_SIGMA], "layout": ["as read"]}
    test_parameters = {"data": ["duke"]}

    def get_data(self) -> dict[str, Any]:
        """Return X and two labels."""
        parts = load(_FILES.get(self.data, self.data), data_dir=data_folder())
        X, y = parts.X, parts.y
        if self.data == "news20-binary":
            y = np.where(y <= 10, -1, 1)
        elif self.data == "mnist-0-9.rb":
            rows = np.isin(y, (0, 9))
            X, y = X[rows] * (1.0 / _LARGEST_PIXEL), y[rows]
        elif self.data == "shuttle.rb":
            X = X.toarray()
            X, y = X / X.std(axis=0), np.where(y == 1, 1, -1)
        if self.data in _SIGMA:
            X = RandomBinning(n_grids=_N_GRIDS, sigma=_SIGMA[self.data], random_state=0).fit_transform(X)
        else:
            X = normalize(X)
        if self.data in _ARRAYS:
            X = np.ascontiguousarray(X.toarray())
        return {"X": X, "y": y}
