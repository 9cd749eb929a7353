"""Made-up Gaussian classes: no file needed."""

from typing import Any

from benchopt import BaseDataset

from softmargin.data import Dataset as Parts
from softmargin.data import blobs, split


class Blobs(BaseDataset):
    """Gaussian classes that overlap, a quarter of the rows held out."""

    name = "blobs"
    requirements = ["pip::softmargin"]

    def get_data(self) -> dict[str, Any]:
        X, y = blobs(self.n, self.d, self.k, seed=self.seed, sparse=self.sparse)
        parts = split(Parts("blobs", X, y))
        return {"X": parts.X, "y": parts.y, "X_test": parts.X_test, "y_test": parts.y_test}
