"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from benchmark_utils.real_data import MANY_CLASSES, TWO_CLASSES, RealData


class Dataset(RealData):
    """One data set by name."""

    name = "libsvm_folder"
    parameters = {"data": [*MANY_CLASSES, *TWO_CLASSES], "layout": ["as read"]}
    test_parameters = {"data": ["dna"]}
