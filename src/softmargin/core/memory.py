"""How much memory this machine has, and whether the weights of a model can fit into it.

Sparse rows may have any number of columns, as many as the largest index in a file says; weights are dense. A system
that lends more memory than it has ends the process in the middle of the fit, so they are refused before it.
"""

import contextlib
import os

from softmargin.core.errors import DataError

__all__ = ["check_weights_fit", "machine_bytes"]

_ARRAYS = 2  # of the size of the weights in any fit: those at work, and those of the model


def machine_bytes() -> int | None:
    """Return the memory of this machine, or None where the system does not say."""
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def check_weights_fit(n_features: int, n_classes: int, itemsize: int) -> None:
    """Refuse weights, a column for every class or one for two, for which the machine has too little memory."""
    n_columns = n_classes if n_classes > 2 else 1
    size, memory = n_features * n_columns * itemsize, machine_bytes()
    if memory is not None and _ARRAYS * size > memory:
        columns = "one column" if n_columns == 1 else f"{n_columns} columns"
        raise DataError(
            f"X has {n_features} features: weights with {columns} take {size / 2**30:.3g} GiB, a fit {_ARRAYS} such "
            f"arrays or more, and this machine has {memory / 2**30:.3g} GiB. Look for a wrong index of a feature, "
            "or hash the features to fewer (scikit-learn's FeatureHasher)."
        )
