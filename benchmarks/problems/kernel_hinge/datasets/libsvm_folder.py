"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data), of large ones a sample."""

from typing import Any

from benchopt import BaseDataset

from benchmark_utils.binary_sets import POSITIVE, load_set
from benchmark_utils.real_data import TWO_CLASSES

_MOST_ROWS = 5000


class Dataset(BaseDataset):
    """One data set by name, two classes, standardised: those of paper 002, and others."""

    name = "libsvm_folder"
    is_real = True
    requirements = ["pip::softmargin"]
    parameters = {"data": list(dict.fromkeys([*POSITIVE, *TWO_CLASSES])), "seed": [0], "layout": ["as read"]}
    test_parameters = {"data": ["heart-failure"]}

    def get_data(self) -> dict[str, Any]:
        parts = load_set(self.data, self.seed)
        return {**parts._asdict(), "X": parts.X[:_MOST_ROWS], "y": parts.y[:_MOST_ROWS]}
