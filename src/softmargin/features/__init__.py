"""Features: maps from data to features on which a linear model is a kernel model."""

from softmargin._lazy import lazy_names

# RandomBinning imports scikit-learn, which takes a second; the command line does without.
__getattr__, __dir__, __all__ = lazy_names(globals())
