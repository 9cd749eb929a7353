"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from benchmark_utils.real_data import KernelData


class Dataset(KernelData):
    """dna, the first 5000 rows of letter, the first 10,000 of mnist."""

    name = "libsvm_folder"
    parameters = {"data": ["dna", "letter", "mnist"], "layout": ["as read"]}
    test_parameters = {"data": ["dna"]}
