"""Solvers of entrywise losses with a separable convex penalty."""
