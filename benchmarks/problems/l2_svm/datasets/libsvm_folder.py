"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from benchmark_utils.real_data import TWO_CLASSES, KernelData


class Dataset(KernelData):
    """Sets of two classes, and mnist (even against odd digits): the first 5000 rows, of w8a and mnist 10,000."""

    name = "libsvm_folder"
    parameters = {"data": [*TWO_CLASSES, "mnist"], "layout": ["as read"]}
    test_parameters = {"data": ["kr-vs-kp"]}
