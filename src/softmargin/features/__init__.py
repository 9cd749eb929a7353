"""Features: maps from data to sparse features on which a linear model is a kernel model."""

from softmargin.features.random_binning import RandomBinning

__all__ = ["RandomBinning"]
