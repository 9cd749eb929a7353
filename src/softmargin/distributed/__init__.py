"""Rows on a Dask cluster: the only rooms that import Dask, each where it is first used.

rows.py      Dask arrays and data frames as checked partitions of rows with labels and weights
tasks.py     tasks, what they share, and what is said where workers are lost
told.py      how many partitions of a pass are done
blocks.py    partitions as ``Blocks`` of a problem: every pass is one tree of sums
lazy.py      predictions that are computed where the rows are
folds.py     fits of a search as tasks
"""
