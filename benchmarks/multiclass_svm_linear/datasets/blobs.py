"""Made-up Gaussian classes: no file needed."""

from typing import Any

from benchopt import BaseDataset

from softmargin.data import Dataset as Parts
from softmargin.data import blobs, split


class Dataset(BaseDataset):
    """Gaussian classes that overlap, a quarter of the rows held out."""

    name = "blobs"
    requirements = ["pip::softmargin"]
    parameters = {"n": [2000], "d": [50], "k": [10], "sparse": [False], "seed": [0]}
    test_parameters = {"n": [120], "d": [8], "k": [4]}

    def get_data(self) -> dict[str, Any]:
        X, y = blobs(self.n, self.d, self.k, seed=self.seed, sparse=self.sparse)
        parts = split(Parts("blobs", X, y))
        return {"X": parts.X, "y": parts.y, "X_test": parts.X_test, "y_test": parts.y_test}
