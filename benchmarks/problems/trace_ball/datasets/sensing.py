"""Made-up measurements of a matrix of low rank: no file needed."""

from typing import Any

import numpy as np
from benchopt import BaseDataset

from benchmark_utils.low_rank import measured


class Dataset(BaseDataset):
    """Gaussian measurements X W0, as the paper makes them, or rows of X scaled to length 1: well conditioned."""

    name = "sensing"
    requirements = ["pip::softmargin"]
    is_real = True
    parameters = {
        "data": ["rank-10", "rank-20", "rank-100", "rank-10-unit", "rank-20-unit", "rank-100-unit"],
        "layout": ["as read"],
        "n": [1000],
        "d": [800],
        "k": [600],
    }
    test_parameters = {"n": [60], "d": [24], "k": [18]}

    def get_data(self) -> dict[str, Any]:
        rank, _, kind = self.data.removeprefix("rank-").partition("-")
        return measured(self.n, self.d, self.k, int(rank), unit_rows=bool(kind), rng=np.random.default_rng(0))
