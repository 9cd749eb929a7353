"""Compiled loops and small parts that solvers are made of."""
