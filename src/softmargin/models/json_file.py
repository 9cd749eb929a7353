"""Models as JSON text, for programs in other languages: the content of a model file with its arrays as lists.

    {"format": "softmargin-json", "format_version": 1, "softmargin_version": "...",
     "kind": "LinearModel", "meta": {...}, "arrays": {"classes": [...], "coef": [[...], ...], ...}}

Kinds, arrays and meta are those of `docs/format.md`. Numbers read back exactly. The text is ASCII without <, > and &:
it may stand in a page as it is, whatever the labels are.
"""

import json
import os

import softmargin
from softmargin.core.archive import to_json
from softmargin.core.errors import IncompatibleError, ModelFileError
from softmargin.core.files import atomic_write
from softmargin.models.shapes import Predictor

__all__ = ["write_json_model"]


def write_json_model(model: Predictor, path: str | os.PathLike[str]) -> None:
    """Write a model as JSON, whole or not at all.

    Raises
    ------
    IncompatibleError
        The kernel is precomputed: without the training rows, nobody can compute its values.

    Examples
    --------
    >>> import json
    >>> from pathlib import Path
    >>> from softmargin import LinearSVC, write_json_model
    >>> clf = LinearSVC(random_state=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> write_json_model(clf.model(), "model.json")
    >>> json.loads(Path("model.json").read_text())["kind"]
    'LinearModel'
    """
    arrays, meta = model.stored()
    if meta.get("kernel", {}).get("name") == "precomputed":
        raise IncompatibleError(
            "a model with a precomputed kernel takes rows of a kernel matrix, which no other program can make. Use "
            "model.save, or a kernel with a formula."
        )
    texts = {name: array.astype(str) if array.dtype.kind == "S" else array for name, array in arrays.items()}
    content = {
        "format": "softmargin-json",
        "format_version": 1,
        "softmargin_version": softmargin.__version__,
        "kind": type(model).__name__,
        "meta": to_json(meta, "meta"),
        "arrays": {name: array.tolist() for name, array in texts.items()},
    }
    try:
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    except ValueError as problem:
        raise ModelFileError(f"cannot write {os.fspath(path)!r}: JSON has no NaN and no infinity.") from problem
    for character in "<>&":  # they stand in texts only
        text = text.replace(character, f"\\u{ord(character):04x}")
    with atomic_write(path) as file:
        file.write(text.encode("ascii") + b"\n")
