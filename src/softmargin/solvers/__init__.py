"""Solvers: one algorithm a file; settings plus start / step / point / estimate."""

from softmargin.solvers.dual_block_descent import DualBlockDescent

__all__ = ["DualBlockDescent"]
