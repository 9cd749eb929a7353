"""Margin classifiers trained to a certificate: every fit says how far from the optimum it is.

Names are imported when they are first used, so that ``import softmargin`` costs nothing.
"""

from softmargin._lazy import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(globals())
__all__ += ["__version__"]
