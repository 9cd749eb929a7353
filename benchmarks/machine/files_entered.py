"""How many Python files of the package does one default fit on digits enter? Each is one more for a reader to open.

    python benchmarks/machine/files_entered.py [--files] [--max 16 22 20 17]

A file counts where one of its Python functions is called during ``fit`` (``sys.setprofile``); compiled loops count by
the Python function that starts them only where they are not compiled. Imports are done before, by a first fit.
"""

import argparse
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

from sklearn.datasets import load_digits

import softmargin

ROOT = Path(softmargin.__file__).parent
ESTIMATORS = ("LinearSVC", "KernelSVC", "SoftmaxRegression", "L1BallClassifier")


def files_entered(name: str) -> dict[str, set[str]]:
    """Return the functions that a fit calls, by file."""
    X, y = load_digits(return_X_y=True)
    make = getattr(softmargin, name)
    make(random_state=0).fit(X, y)
    entered: dict[str, set[str]] = {}

    def record(frame: FrameType, event: str, arg: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            entered.setdefault(str(path.relative_to(ROOT)), set()).add(frame.f_code.co_name)

    estimator = make(random_state=0)
    sys.setprofile(record)
    try:
        estimator.fit(X, y)
    finally:
        sys.setprofile(None)
    return entered


def main() -> int:
    """Print the counts; fail where one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", action="store_true", help="print the files and functions too")
    parser.add_argument("--max", type=int, nargs=len(ESTIMATORS), metavar="N", help="fail above these counts")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    too_many = False
    for i, name in enumerate(ESTIMATORS):
        entered = files_entered(name)
        sys.stdout.write(f"{name} {len(entered)}\n")
        if args.files:
            lines = [f"    {path}: {', '.join(sorted(names))}\n" for path, names in sorted(entered.items())]
            sys.stdout.writelines(lines)
        too_many |= args.max is not None and len(entered) > args.max[i]
    return int(too_many)


if __name__ == "__main__":
    sys.exit(main())
