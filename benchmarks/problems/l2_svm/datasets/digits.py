"""The digits of scikit-learn, which come with softmargin: no file needed."""

from benchmark_utils.real_data import KernelData


class Dataset(KernelData):
    """1797 rows, even against odd digits."""

    name = "digits"
    data = "digits"
    parameters = {"layout": ["as read"]}
