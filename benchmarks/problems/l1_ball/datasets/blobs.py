"""Made-up Gaussian classes: no file needed."""

from benchmark_utils.made_up import Blobs


class Dataset(Blobs):
    """Two classes."""

    parameters = {"n": [2000], "d": [200], "k": [2], "sparse": [False], "seed": [0]}
    test_parameters = {"n": [120], "d": [8]}
