"""Features: maps from data to features on which a linear model is a kernel model."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmargin.features.landmarks import Landmarks as Landmarks
    from softmargin.features.landmarks import choose_landmarks as choose_landmarks
    from softmargin.features.random_binning import RandomBinning as RandomBinning

# RandomBinning imports scikit-learn, which takes a second; the command line does without.
_HOMES = {"Landmarks": "landmarks", "RandomBinning": "random_binning", "choose_landmarks": "landmarks"}

__all__ = ["Landmarks", "RandomBinning", "choose_landmarks"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
