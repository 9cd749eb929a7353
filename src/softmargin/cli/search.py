"""`softmargin train --cv` and `--search`: scores on rows that a model has not seen, and the settings they choose.

--cv 5                          the score of the settings that were asked for, on five folds of the training rows
--search C=1e-3:1e3:log         the best of some settings, by the mechanism of the estimators ...CV
"""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from softmargin.cli.choices import FOLDS, POINTS, REGRESSORS, SEARCHED
from softmargin.cli.estimators import ESTIMATORS, settings
from softmargin.core.errors import DataError

Array = NDArray[Any]


class Scored(NamedTuple):
    """What folds of the training rows say."""

    folds: int
    rows: int
    score: float  # mean over the folds, of the settings that are trained with: accuracy, or R^2
    spread: float  # standard deviation over the folds
    chosen: dict[str, Any]  # the best of the settings that were searched
    points: list[dict[str, Any]]  # all of them with their mean scores; NaN where they could not be the best

    @property
    def in_words(self) -> str:
        """The score, and what it is about."""
        return f"{self.score:.4f} ± {self.spread:.4f} on rows left out in turn: {self.folds} folds of the training rows"

    @property
    def choice_in_words(self) -> str:
        """What was chosen."""
        return f"{_named(self.chosen)}, the best of {len(self.points)}: its score by folds is a bit too high"


def _named(chosen: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}" for name, value in chosen.items()
    )


def score(args: Namespace, X: Any, y: Array) -> Scored:
    """Score the settings, or all points of a search, on folds; the best one is written into ``args``."""
    searched, own, n_folds = dict(args.search), settings(args, y), args.cv or FOLDS
    along, *others = SEARCHED[args.model]
    across = others[0] if others else None
    try:
        folds = list(check_cv(n_folds, y, classifier=args.model not in REGRESSORS).split(X, y))
    except ValueError as problem:
        raise DataError(f"{n_folds} folds cannot be made of {len(y)} rows: {problem}") from problem
    if args.model in REGRESSORS and min(len(test) for _, test in folds) < 2:
        raise DataError(
            f"{n_folds} folds of {len(y)} rows have no score: R^2 needs two rows or more in each. Ask for fewer folds "
            "by --cv, or give more rows."
        )
    if across is not None:
        own[f"{across}s"] = searched.get(across, [own[across]])
        del own[across]
    grid = (searched[along] or POINTS) if along in searched else [getattr(args, along)]
    # Where nothing is chosen, the scores shall be those of fits to the tolerance asked for.
    how = {} if searched else {"coarse_tol": args.tol}
    found = ESTIMATORS[args.model][1](grid, cv=folds, **own, **how, refit=False, n_jobs=-1).fit(X, y)

    rows = [None] if across is None else getattr(found, f"{across}s_").tolist()
    scores = found.scores_.reshape(len(folds), len(rows), -1)
    values = np.broadcast_to(found.radii_ if along == "radius" else found.Cs_, scores.shape[1:])
    means = scores.mean(axis=0)
    points = [
        {**({} if across is None else {across: row}), along: float(values[r, c]), "score": float(means[r, c])}
        for r, row in enumerate(rows)
        for c in range(values.shape[1])
    ]
    best = np.unravel_index(np.nanargmax(means), means.shape)
    at = points[int(np.ravel_multi_index(best, means.shape))]
    chosen = {name: at[name] for name in searched}
    for name, value in chosen.items():
        setattr(args, name, value)
    own_scores = scores[(slice(None), *best)]
    return Scored(len(folds), len(y), float(own_scores.mean()), float(own_scores.std()), chosen, points)
