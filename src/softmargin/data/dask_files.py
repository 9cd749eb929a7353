"""Many files as Dask collections: one partition per file, read by the workers when it is needed.

LIBSVM text, also compressed     arrays with blocks of CSR; one look at every file finds rows and columns
.npy                             arrays; labels in files of their own
.parquet                         data frames, by Dask's own reader
"""

import glob
import os
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data.libsvm import read_libsvm

__all__ = ["read_dask"]


def read_dask(
    pattern: str | os.PathLike[str], *, labels: str | None = None, n_features: int | None = None
) -> tuple[Any, Any]:
    """Return (X, y) of all files that match a pattern, in the order of their names, as Dask collections.

    Parameters
    ----------
    pattern : str
        ``"part-*.libsvm.gz"``, ``"X-*.npy"`` or ``"part-*.parquet"``. Every worker must see the files under these
        names.
    labels : str, optional
        Of .npy files, the pattern of those that hold y, as many and in the same order; of Parquet files, the name of
        the column that is y. LIBSVM files hold y themselves.
    n_features : int, optional
        Columns of LIBSVM files; without it, the highest index in any of them.
    """
    names = _matching(os.fspath(pattern))
    kinds = {name.rpartition(".")[2] for name in names} & {"npy", "parquet"}
    if len(kinds) > 1 or (kinds and not all(name.endswith(tuple(kinds)) for name in names)):
        raise DataError(f"{pattern}: files of several formats match; give a pattern for one of them.")
    if kinds and labels is None:
        what = "a pattern of .npy files" if kinds == {"npy"} else "the name of a column"
        raise IncompatibleError(f"{pattern}: say where the labels are, labels={what}.")
    if kinds == {"parquet"}:
        from dask.dataframe import read_parquet

        frame = read_parquet(names)
        return frame.drop(columns=[labels]), frame[labels]
    return _npy_files(names, _matching(str(labels))) if kinds else _libsvm_files(names, n_features)


def _matching(pattern: str) -> list[str]:
    names = sorted(glob.glob(pattern))
    if not names:
        raise DataError(f"{pattern}: no file matches; the pattern is that of the shell, with * and ?.")
    return names


def _npy_files(names: list[str], labels: list[str]) -> tuple[Any, Any]:
    if len(names) != len(labels):
        raise DataError(f"{len(names)} files hold rows and {len(labels)} hold labels; there must be as many of both.")
    return tuple(_array([(each, *_npy_shape(each)) for each in files]) for files in (names, labels))


def _npy_shape(name: str) -> tuple[tuple[int, ...], Any]:
    header = np.load(name, mmap_mode="r", allow_pickle=False)
    return header.shape, header.dtype


def _array(files: list[tuple[str, tuple[int, ...], Any]]) -> Any:
    import dask.array as da
    from dask import delayed

    read = delayed(partial(np.load, allow_pickle=False), pure=True)
    return da.concatenate([da.from_delayed(read(name), shape, dtype=dtype) for name, shape, dtype in files])


def _libsvm_files(names: list[str], n_features: int | None) -> tuple[Any, Any]:
    import dask
    import dask.array as da

    looked = dask.compute(*[dask.delayed(_look)(name, n_features) for name in names])
    d = n_features or max(width for _, width, _ in looked)
    kind = np.result_type(*[kind for _, _, kind in looked])
    X, y = [], []
    for name, (n, _, _) in zip(names, looked, strict=True):
        rows = dask.delayed(read_libsvm)(name, n_features=d)
        X.append(da.from_delayed(rows[0], (n, d), dtype=np.float64, meta=csr_matrix((0, d))))
        y.append(da.from_delayed(rows[1], (n,), dtype=kind))
    return da.concatenate(X), da.concatenate(y)


def _look(name: str, n_features: int | None) -> tuple[int, int, Any]:
    X, y = read_libsvm(name, n_features=n_features)
    return X.shape[0], X.shape[1], y.dtype
