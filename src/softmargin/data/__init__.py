"""Data in and out: LIBSVM and NumPy files, tables, data sets by name, synthetic data."""

from softmargin.data.arrays import read_npy, read_npz
from softmargin.data.dask_files import read_dask
from softmargin.data.libsvm import read_libsvm, write_libsvm
from softmargin.data.registry import DATA_VARIABLE, Dataset, Entry, available, load, source_files, split
from softmargin.data.synthetic import blobs, deskewed, distorted
from softmargin.data.table import TableOptions, TableRows, read_table

__all__ = [
    "DATA_VARIABLE",
    "Dataset",
    "Entry",
    "TableOptions",
    "TableRows",
    "available",
    "blobs",
    "deskewed",
    "distorted",
    "load",
    "read_dask",
    "read_libsvm",
    "read_npy",
    "read_npz",
    "read_table",
    "source_files",
    "split",
    "write_libsvm",
]
