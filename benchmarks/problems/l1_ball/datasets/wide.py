"""Made-up sparse data whose solution uses a fixed number of features, however many there are."""

from typing import Any

import numpy as np
from benchopt import BaseDataset
from scipy.sparse import csr_matrix


class Dataset(BaseDataset):
    """n rows of ``per_row`` entries; labels depend on ``support`` of the features, which are in every other row."""

    name = "wide"
    requirements = ["pip::softmargin"]
    parameters = {"n": [10_000], "d": [100_000], "per_row": [50], "support": [20], "seed": [0]}
    test_parameters = {"n": [200], "d": [500]}

    def get_data(self) -> dict[str, Any]:
        rng = np.random.default_rng(self.seed)
        useful = np.where(rng.random((self.n, self.support)) < 0.5, rng.standard_normal((self.n, self.support)), 0.0)
        other = rng.integers(self.support, self.d, size=(self.n, self.per_row))
        rows = np.repeat(np.arange(self.n), self.per_row)
        noise = csr_matrix((rng.standard_normal(rows.size), (rows, other.ravel())), shape=(self.n, self.d))
        X = (noise + csr_matrix((useful.ravel(), self._places()), shape=(self.n, self.d))).tocsr()
        X.eliminate_zeros()
        signs = useful @ rng.choice((-1.0, 1.0), self.support) + 0.5 * rng.standard_normal(self.n)
        return {"X": X, "y": np.where(signs > 0.0, 1, -1)}

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        return np.repeat(np.arange(self.n), self.support), np.tile(np.arange(self.support), self.n)
