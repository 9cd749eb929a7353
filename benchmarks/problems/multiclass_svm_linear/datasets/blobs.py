"""Made-up Gaussian classes: no file needed."""

from benchmark_utils.made_up import Blobs


class Dataset(Blobs):
    """Ten classes."""

    parameters = {"n": [2000], "d": [50], "k": [10], "sparse": [False], "seed": [0]}
    test_parameters = {"n": [120], "d": [8], "k": [4]}
