"""What the objective, the solvers and the data sets of this benchmark use; the modules in ../../shared belong to it."""

from pathlib import Path

__path__.append(str(Path(__file__).resolve().parents[2] / "shared"))
