"""How loops are compiled. Nothing else in the package imports Numba."""
