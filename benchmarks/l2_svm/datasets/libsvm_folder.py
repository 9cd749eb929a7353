"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from benchmark_utils.real_data import KernelData


class Dataset(KernelData):
    """kr-vs-kp, the first 10,000 rows of w8a, the first 10,000 of mnist (even against odd digits)."""

    name = "libsvm_folder"
    parameters = {"data": ["kr-vs-kp", "w8a", "mnist"], "layout": ["as read"]}
    test_parameters = {"data": ["kr-vs-kp"]}
