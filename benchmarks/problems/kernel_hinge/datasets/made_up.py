"""Made-up overlapping classes that no line tells apart: no file needed."""

from typing import Any

import numpy as np
from benchopt import BaseDataset

from benchmark_utils.binary_sets import Parts, overlapping


class Dataset(BaseDataset):
    """Four pairs of features with the same means in both classes, and noise."""

    name = "made_up"
    requirements = ["pip::softmargin"]
    parameters = {"n": [2000], "d": [28], "seed": [0]}
    test_parameters = {"n": [120], "d": [10]}

    def get_data(self) -> dict[str, Any]:
        rng = np.random.default_rng(self.seed)
        return Parts(*overlapping(self.n, rng, self.d), *overlapping(self.n, rng, self.d))._asdict()
