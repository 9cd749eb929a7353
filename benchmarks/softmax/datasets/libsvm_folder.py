"""Real data sets: LIBSVM files in the folder SOFTMARGIN_DATA (else ../shared/data beside the repository)."""

from benchmark_utils.real_data import RealData


class Dataset(RealData):
    """One data set by name."""

    name = "libsvm_folder"
    parameters = {
        "data": ["dna", "letter", "mnist", "news20", "20ng-bydate", "reuters-r52", "w8a", "segment", "poker"],
        "layout": ["as read"],
    }
    test_parameters = {"data": ["dna"]}
