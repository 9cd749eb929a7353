"""Margin classifiers trained to a certificate: every fit says how far from the optimum it is."""

__version__ = "0.1.0"
