"""Settings chosen by cross-validation, by one mechanism for all estimators.

A grid has rows: settings such as gamma or l1_ratio. Along a row one setting varies, C or a radius, from the strongest
regularisation to the weakest.

    fold, row  --path (frame.fold_paths)-->  a certified model for every point  --scorer-->  a score on rows held out
    scores     --race (frame.race)-->  the points that can still be the best go on to the next folds
    the best mean score  -->  one fit to all data, at the tolerance asked for

Where joblib is told to use other processes (``joblib.parallel_config(n_jobs=16)``, or ``backend="dask"``), paths are
their tasks (``distributed.folds``). Scores are those of as many threads here.

Fits to folds end at ``coarse_tol``: the order of scores is settled long before the last digits of an objective. Folds,
rows and, where there are more threads than these, parts of rows are fitted at the same time. As many folds begin
together as leave the fewest threads without work; the more begin together, the fewer points can be given up.
"""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from softmargin.backends.arrays import on_host
from softmargin.core.errors import DataError
from softmargin.core.parameters import shown
from softmargin.core.threads import n_threads, spread, threads
from softmargin.distributed.folds import search_workers
from softmargin.estimators.frame.callbacks import with_callbacks
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fit import CertifiedEstimator, at_one_moment
from softmargin.estimators.frame.fold_paths import Job, RowData, path_scores
from softmargin.estimators.frame.race import Race, best_of, best_possible
from softmargin.estimators.frame.warnings import warn_of_path
from softmargin.estimators.frame.waves import n_parts, tasks_of, waves_of
from softmargin.matrices.forms import canonical
from softmargin.run import Result

__all__ = ["CrossValidated", "Grid"]

Array = NDArray[Any]
_MOST_KEPT = 1 << 25  # numbers that fits to folds may leave for the fit to all data: 256 MB; by hand


class Grid(NamedTuple):
    """What is chosen from."""

    values: Array  # (rows, points) of the setting that varies along a row, increasing
    rows: list[Any] = [None]  # noqa: RUF012  (the setting that differs between rows; one row without it)


class _Chosen(NamedTuple):
    """What the folds leave of a search: the best model of each, and what they have found for the chosen point."""

    models: list[Any]
    starts: list[Any]  # empty where nothing was kept


class CrossValidated(CertifiedEstimator):
    """An estimator that chooses settings by cross-validation; a base beside the estimator itself.

    A subclass names the estimator, what varies along a row of the grid and what differs between rows (each with the
    parameter that asks for it), and makes the grid. Its properties give the estimator the settings that were chosen.

    Parameters
    ----------
    cv : int, splitter, iterable or None, default=None
        Folds, as in scikit-learn; None is 5, stratified for classifiers.
    scoring : str, callable or None, default=None
        How a model is scored on rows it has not seen, as in scikit-learn; None is accuracy, or R^2 of a regressor.
    refit : bool, default=True
        Fit the best settings to all data. False only chooses: there is no model then.
    early_end : bool, default=True
        Do not fit points to further folds that can no longer be the best: whose mean, with the best possible score on
        the folds that are left, is below the mean of another. ``scores_`` is NaN there. The choice is that of a full
        search, as far as ``coarse_tol`` settles the scores.
        False scores every point on every fold. A score that is a function has no known bound: all points are scored.
    coarse_tol : float, default=1e-2
        ``tol`` of the fits to folds, where it is above ``tol``.

    Attributes
    ----------
    mean_score_ : float
        The best mean over the folds: the score of what was chosen.
    """

    _estimator: ClassVar[Any]
    _along: ClassVar[tuple[str, str]] = ("C", "Cs")
    _across: ClassVar[tuple[str, str] | None] = None
    _most_parts: ClassVar[int] = 2  # that a path is cut into: later ones begin far from a solution, which takes long
    warm_start = False  # a path starts at the solution for the last point

    def _grid(self, data: Data) -> Grid:
        raise NotImplementedError

    def _row_data(self, data: Data, grid: Grid) -> list[RowData]:
        """Return what is fitted to the folds, for every row of the grid."""
        return [RowData(data, self.__sklearn_tags__().input_tags.pairwise)] * len(grid.rows)

    @property
    def _averages_folds(self) -> bool:
        """Whether the model is the mean of the best ones of every fold, and not a fit to all data."""
        return False

    def _take_mean(self, data: Data, models: list[Any]) -> Self:
        """Become the mean of the best models of every fold."""
        raise NotImplementedError

    def _stream_refusal(self) -> str:
        return f"cross-validation needs all rows at once; use {self._estimator.__name__}(...).partial_fit."

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether there is a model: not where the settings were only chosen."""
        return hasattr(self, "certificate_")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Choose the settings, and train on all data.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); the kernel matrix (n, n) where it is precomputed
        y : array of shape (n,), or (n, k) where the weights lie in a ball
        sample_weight : array of shape (n,), optional
            A weight of 2 equals the sample given twice. Scores on held-out rows are weighted too; with scikit-learn's
            metadata routing, only where the scorer asks for it.
        **params
            For the splitter and the scorer (``groups``, say), where metadata routing is enabled.
        """
        if "checkpoint" in params:
            raise TypeError(
                f"a search has no checkpoint; fit {self._estimator.__name__} with what it has chosen, with checkpoint=."
            )
        return self._fit_twin(X, y, sample_weight, **params)

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any, **params: Any) -> Self:
        self._check_parameters()
        data = self._checked(on_host(X, type(self).__name__), y, sample_weight)
        routed = self._routed("fit", data.sample_weight, params)
        folds = self._folds(data, routed.splitter.split)
        with threads(self.n_jobs):
            chosen = self._choose(data._replace(X=canonical(data.X)), folds, routed.scorer.score)
            if self._averages_folds:
                return self._take_mean(data, chosen.models)
            if not self.refit:
                return self
            if chosen.starts:
                samples = [np.arange(len(data.y))[train] for train, _ in folds]
                self._begin_at(list(zip(samples, chosen.starts, strict=True)), len(data.y))
            return self._train(data, is_warm=bool(chosen.starts))

    def _folds(self, data: Data, split_params: dict[str, Any]) -> list[tuple[Array, Array]]:
        """Return the rows of every fold, for training and for testing."""
        splitter = check_cv(self.cv, data.y, classifier=is_classifier(self))
        folds = list(splitter.split(data.X, data.y, **split_params))
        if not folds:
            raise DataError(f"cv must give at least one pair of rows (train, test); found none in {shown(self.cv)}.")
        return folds

    def _choose(self, data: Data, folds: list[Any], score_params: dict[str, Any]) -> _Chosen:
        """Score the points of the grid on the folds, and set what was chosen."""
        grid = self._grid(data)
        ends_early = self.early_end and not self._averages_folds
        race = Race(len(folds), grid.values.shape, best_possible(self.scoring) if ends_early else None)
        numbers = self._start_numbers(data) if self.refit else 0
        keeps_starts = 0 < numbers * race.scores.size <= _MOST_KEPT
        jobs = self._jobs(grid, self._row_data(data, grid), folds, score_params, data.classes, keeps_starts)
        workers = search_workers()
        n_at_once = n_threads() if workers is None else workers.n_at_once
        best: dict[int, tuple[float, Any]] = {}
        starts: dict[tuple[int, int, int], Any] = {}
        results: list[Result] = []

        def run(wave: list[int], mask: Array) -> None:
            missing = mask & ~race.is_scored[wave[0]]
            tasks = tasks_of(wave, missing, n_parts(len(wave) * len(missing), n_at_once, self._most_parts))
            if workers is None:
                done = spread(lambda task: path_scores(jobs[task.row], task), tasks)
            else:
                done = workers.spread(path_scores, jobs, tasks)
            for task, found in zip(tasks, done, strict=True):
                race.take(*task, found.scores, [result.certificate.residual for result in found.results])
                results.extend(found.results)
                starts.update(zip([(*task[:2], int(at)) for at in task.points], found.starts, strict=False))
                if task.fold not in best or found.best[0] > best[task.fold][0]:
                    best[task.fold] = found.best

        waves = waves_of(len(folds), len(grid.rows), n_at_once, self._most_parts)
        for number, wave in enumerate(waves):
            if number == 1 and race.highest is not None:
                run([fold for later in waves[1:] for fold in later], race.leader())  # a mean to compare with
            run(wave, race.can_win())
        warn_of_path(results, max(self.tol, self.coarse_tol))
        self._take_choice(grid, race)
        models = [model for _, (_, model) in sorted(best.items())]
        row, point = best_of(race.means)
        return _Chosen(models, [starts[fold, row, point] for fold in range(len(folds))] if keeps_starts else [])

    def _probe(self, row: Any, seed: int) -> Any:
        """Return the estimator that is fitted to folds."""
        own = {name: getattr(self, name) for name in self._estimator._defaults if name in self._defaults}
        own |= {"tol": max(self.tol, self.coarse_tol), "random_state": seed, "verbose": 0, "n_jobs": None}
        return self._estimator(**own, **({} if self._across is None else {self._across[0]: row}))

    def _jobs(
        self,
        grid: Grid,
        rows: list[RowData],
        folds: list[Any],
        score_params: dict[str, Any],
        classes: Array | None,
        keeps_starts: bool,
    ) -> list[Job]:
        """Return what the fits of every row of the grid need."""
        seed = self._seed()
        how = (self._scorer(classes), score_params, get_config(), self._averages_folds, keeps_starts)
        return [
            Job(self._probe(grid.rows[r], seed).set_params(**row.settings), self._along[0], values, row, folds, *how)
            for r, (values, row) in enumerate(zip(grid.values, rows, strict=True))
        ]

    def _take_choice(self, grid: Grid, race: Race) -> None:
        """Keep the grid, the scores and the choice; where folds are averaged, the mean of what each of them chose."""
        places = [best_of(own) for own in race.scores] if self._averages_folds else [best_of(race.means)]
        setting, asked = self._along
        setattr(self, f"{setting}_", float(np.mean([grid.values[place] for place in places])))
        setattr(self, f"{asked}_", grid.values[0] if (grid.values == grid.values[0]).all() else grid.values)
        if self._across is None:
            self.scores_, self.residuals_ = race.scores[:, 0], race.residuals[:, 0]
        else:
            setting, asked = self._across
            rows = [grid.rows[row] for row, _ in places]
            setattr(self, f"{setting}_", rows[0] if len(rows) == 1 else float(np.mean(rows)))
            setattr(self, f"{asked}_", np.array(grid.rows))
            self.scores_, self.residuals_ = race.scores, race.residuals
        self.mean_score_ = float(race.means.max())

    def plot(self, ax: Any = None, **lines: Any) -> Any:
        """Plot the mean scores over the grid, with their spread over the folds; needs matplotlib.

        Crosses are points that were given up, a dotted line what was chosen. Returns a ScoresDisplay; ``lines`` goes to
        its ``plot``.
        """
        if not hasattr(self, "scores_"):
            raise NotFittedError(f"this {type(self).__name__} has chosen nothing yet; call fit first.")
        from softmargin.plots import ScoresDisplay

        (setting, asked), names = self._along, [""]
        scores = self.scores_[:, None] if self._across is None else self.scores_
        if self._across is not None:
            names = [f"{self._across[0]} {row}" for row in getattr(self, f"{self._across[1]}_").tolist()]
        display = ScoresDisplay(
            getattr(self, f"{asked}_"), scores, chosen=getattr(self, f"{setting}_"), names=names, setting=setting
        )
        return display.plot(ax, **lines)

    def _scorer(self, classes: Array | None = None) -> Any:
        if self.scoring == "neg_log_loss" and classes is not None:
            # Held-out rows may lack a class.
            return make_scorer(log_loss, greater_is_better=False, response_method="predict_proba", labels=classes)
        plain = "accuracy" if is_classifier(self) else "r2"
        return get_scorer(plain if self.scoring is None else self.scoring)

    def _routed(self, method: str, sample_weight: Any, params: dict[str, Any]) -> Any:
        """Return what splitter and scorer are given."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if get_config().get("enable_metadata_routing", False):
            return process_routing(self, method, **weights, **params)
        if params:
            raise ValueError(
                f"{method} got {', '.join(params)}, which go to the splitter or the scorer; that needs "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=weights))

    @at_one_moment
    def score(self, X: Any, y: Any, *, sample_weight: Any = None, **params: Any) -> float:
        """Score predictions for X by ``scoring``."""
        check_is_fitted(self)
        routed = self._routed("score", sample_weight, params)
        return float(self._scorer(getattr(self, "classes_", None))(self, X, y, **routed.scorer.score))

    def get_metadata_routing(self) -> Any:
        """Say which metadata go to the splitter and which to the scorer."""
        to_score = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
            .add(scorer=self._scorer(), method_mapping=to_score)
        )
