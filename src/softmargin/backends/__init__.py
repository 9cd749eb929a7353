"""How loops are compiled; nothing else in the package imports Numba."""
