"""How a solver uses X: row by row in compiled loops (``rows``), as a whole in NumPy (``operator``)."""
