"""What a fit leaves behind: models that predict, and the files they live in."""

import os

from softmargin.core.archive import archive_kind
from softmargin.core.errors import ModelFileError
from softmargin.models.json_file import write_json_model
from softmargin.models.kernel_expansion import KernelExpansion
from softmargin.models.liblinear import looks_like_liblinear, read_liblinear, write_liblinear
from softmargin.models.libsvm import looks_like_libsvm_model, read_libsvm_model, write_libsvm_model
from softmargin.models.linear import LinearModel
from softmargin.models.one_vs_one import LinearOneVsOne, OneVsOne
from softmargin.models.regressor import LinearRegressor

__all__ = [
    "KernelExpansion",
    "LinearModel",
    "LinearOneVsOne",
    "LinearRegressor",
    "OneVsOne",
    "load_model",
    "looks_like_liblinear",
    "looks_like_libsvm_model",
    "read_liblinear",
    "read_libsvm_model",
    "write_json_model",
    "write_liblinear",
    "write_libsvm_model",
]

Model = LinearModel | LinearRegressor | KernelExpansion | OneVsOne | LinearOneVsOne
_MODELS: dict[str, type[Model]] = {
    "LinearModel": LinearModel,
    "LinearRegressor": LinearRegressor,
    "KernelExpansion": KernelExpansion,
    "OneVsOne": OneVsOne,
    "LinearOneVsOne": LinearOneVsOne,
}


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model of any kind, as its ``save`` wrote it; ModelFileError if it is anything else, or damaged.

    Examples
    --------
    >>> from softmargin import LinearSVC, load_model
    >>> clf = LinearSVC(random_state=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> clf.model().save("a.model")
    >>> load_model("a.model").classes
    array([0, 1])
    """
    kind = archive_kind(path)
    if kind not in _MODELS:
        raise ModelFileError(f"{os.fspath(path)!r} holds a {kind}; a {' or a '.join(_MODELS)} was asked for.")
    return _MODELS[kind].load(path)
