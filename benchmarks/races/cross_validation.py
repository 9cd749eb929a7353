"""Settings chosen by five folds: CPU seconds, the choice and its score, beside scikit-learn's searches.

    SOFTMARGIN_DATA=DIR python benchmarks/races/cross_validation.py dna splice svmguide1 vehicle segment

Standardised columns, at most 2000 rows. Linear: 10 values of C, from 1 / sum |x|^2 to 1000 / mean |x|^2. Kernel: C is
0.1, 1, 10 or 100, gamma d is 0.1, 1 or 10. Ours: as it comes; without an early end; and with the final tolerance for
all fits. Beside them a GridSearchCV of the same estimator, and one of scikit-learn's (SVC; LinearSVC, one-vs-rest).
"""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as TheirLinear

from softmargin import KernelSVC, KernelSVCCV, LinearSVC, LinearSVCCV

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from races.calibration import standardised

MOST_ROWS = 2000
CV = StratifiedKFold(5, shuffle=True, random_state=0)


def searches(X: Any) -> dict[str, dict[str, Any]]:
    """Return the searches by model and by name."""
    size = float((X**2).sum(axis=1).mean())
    Cs, widths = np.geomspace(1.0 / len(X), 1e3, 10) / size, (np.geomspace(0.1, 10.0, 3) / X.shape[1]).tolist()
    own = {"cv": CV, "random_state": 0}
    ways: dict[str, dict[str, Any]] = {"ours": {}, "no early end": {"early_end": False}}
    ways["fine too"] = {"early_end": False, "coarse_tol": 0.0}
    pairs = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": widths}
    return {
        "linear": {
            **{name: LinearSVCCV(Cs, **own, **way) for name, way in ways.items()},
            "grid of ours": GridSearchCV(LinearSVC(random_state=0), {"C": Cs}, cv=CV),
            "grid of theirs": GridSearchCV(TheirLinear(max_iter=1000), {"C": Cs}, cv=CV),
        },
        "kernel": {
            **{name: KernelSVCCV(pairs["C"], gammas=widths, **own, **way) for name, way in ways.items()},
            "grid of ours": GridSearchCV(KernelSVC(random_state=0), pairs, cv=CV),
            "grid of theirs": GridSearchCV(SVC(), pairs, cv=CV),
        },
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    warnings.simplefilter("ignore")
    sys.stdout.write("| data | model | search | seconds | C | gamma | mean score | given up |\n" + 8 * "|---" + "|\n")
    for name in parser.parse_args().names:
        X, y = standardised(name, MOST_ROWS)[:2]
        for model, ways in searches(X).items():
            next(iter(ways.values())).fit(X[:300], y[:300])  # compiles
            for way, search in ways.items():
                began = time.process_time()
                search.fit(X, y)
                seconds = time.process_time() - began
                own = {"C": getattr(search, "C_", 0.0), "gamma": getattr(search, "gamma_", None)}
                found = getattr(search, "best_params_", own)
                score = getattr(search, "best_score_", getattr(search, "mean_score_", 0.0))
                ended = float(np.isnan(search.scores_).mean()) if hasattr(search, "scores_") else 0.0
                cells = f"{seconds:.2f} | {found['C']:.3g} | {found.get('gamma') or 0:.3g} | {score:.4f} | {ended:.0%}"
                sys.stdout.write(f"| {name} | {model} | {way} | {cells} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
