"""What a fit leaves behind: models that predict, and the files they live in."""

from softmargin.models.liblinear import looks_like_liblinear, read_liblinear, write_liblinear
from softmargin.models.linear import LinearModel

__all__ = ["LinearModel", "looks_like_liblinear", "read_liblinear", "write_liblinear"]
