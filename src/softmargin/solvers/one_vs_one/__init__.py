"""Solvers of one-vs-one problems: all pairs of classes at once."""
