"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from benchmark_utils.real_data import MANY_CLASSES, KernelData


class Dataset(KernelData):
    """Sets of three and more classes: the first 5000 rows, of mnist 10,000."""

    name = "libsvm_folder"
    parameters = {"data": [name for name in MANY_CLASSES if name != "digits"], "layout": ["as read"]}
    test_parameters = {"data": ["dna"]}
