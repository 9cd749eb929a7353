"""The frame of every fit: data are checked, the subclass poses a problem, the run solves it, the attributes are kept.

    X, y, sample_weight  --_checked-->  Data  --_pose-->  Posed  --_solve-->  Result, attributes

A subclass stores its settings and writes ``_pose``, a function of the data and the settings; nothing is passed between
the two on the side.

Threads: a fit works on a twin of the estimator, whose attributes become its own in one assignment; a prediction reads
the attributes of one moment. So while one thread fits again, others see the old model or the new one.
"""

import functools
import inspect
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from softmargin.backends.arrays import is_dask, is_foreign, on_host
from softmargin.core.certificate import Certificate
from softmargin.core.memory import check_weights_fit
from softmargin.core.parameters import check_all
from softmargin.core.threads import shared_interruption, threads
from softmargin.core.warn import warn_caller
from softmargin.estimators.frame.callbacks import CallbackBridge, CallbackSupportMixin, with_callbacks
from softmargin.estimators.frame.checkpoint import resumed
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fold_starts import FoldStarts
from softmargin.estimators.frame.looks import Looks
from softmargin.estimators.frame.warnings import NotCertifiedWarning, interrupted_fit, not_certified
from softmargin.estimators.posing.fit import fit_problem, model_info
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.run import Result, Status, Stop

__all__ = [
    "CertifiedEstimator",
    "Posed",
    "at_one_moment",
]

Array = NDArray[Any]


class Posed(NamedTuple):
    """A problem, and how to come back from it."""

    problem: Any
    attributes: Callable[[Any], dict[str, Any]]  # the fitted attributes that a point gives, ``classes_`` apart
    warm_point: Callable[[], Any] = lambda: None  # what the last fit left, as a point; None to start afresh
    named: Callable[[Certificate], Certificate] = lambda certificate: certificate  # under the name of what it proves
    doubt: Callable[[Any], Warning | None] = lambda point: None  # a warning that the solution calls for


def at_one_moment(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method see the attributes of one moment, whatever another thread fits meanwhile.

    Of a Dask collection it is computed later, partition by partition.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin = _with_attributes(type(self), self.__dict__)
        if is_dask(*args[:1]):
            from softmargin.distributed.lazy import mapped

            check_is_fitted(twin)
            return mapped(functools.partial(getattr(type(self), method.__name__), twin), args[0])
        return method(twin, *args, **kwargs)

    return call


def _with_attributes(kind: type, attributes: dict[str, Any]) -> Any:
    twin: Any = object.__new__(kind)
    twin.__dict__ = attributes
    return twin


class CertifiedEstimator(Looks, FoldStarts, CallbackSupportMixin, BaseEstimator):
    """An estimator that is trained to a certificate, whatever it predicts.

    A line such as ``{tol, verbose}`` in the docstring of a subclass stands for the descriptions here.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap, (primal - bound) / primal, at which the fit is done.
    max_iter : int, default=10000
        Budget in passes over the data; -1 for no limit.
    max_seconds : float or None, default=None
        Budget in wall-clock seconds.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C by the class of the sample.
    warm_start : bool, default=False
        Start from the weights of the last fit, if it had as many features and classes.
    random_state : int, RandomState or None, default=None
        Seed of the solvers that draw.
    n_jobs : int or None, default=None
        Threads of fits and predictions: None is 1, -1 all processors, -2 all but one. The same seed and the same n_jobs
        give the same bits; another n_jobs gives the same optimum, within ``tol``. BLAS has as many threads for
        long calls, else one; with None it keeps its own number.
    device : str or None, default=None
        Where a NumPy X or a sparse matrix is moved to, once, as a PyTorch tensor: "cuda", "cuda:1". Arrays of other
        libraries than NumPy are computed where they lie.
    verbose : int, default=0
        1 shows a progress bar with the gap, 2 writes one line to stderr for every certificate.

    Attributes
    ----------
    certificate_ : Certificate
        kind, primal, bound, residual: what is proven about this model.
    dual_gap_ : float
        primal - bound.
    status_ : str
        "converged", "limited by rounding", "stalled", "max_iter", "max_seconds", "stopped", "interrupted" or "failed".
    n_iter_ : int
        Passes over the data.
    trace_ : Trace
        The certificates along the way.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._defaults = {name: entry.default for name, entry in inspect.signature(cls).parameters.items()}
        if cls.__doc__ is None:
            return
        texts = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in reversed(cls.__mro__))
        entries = {entry[1]: entry[0] for entry in re.finditer(r"^(\w+) : .*(?:\n    .*)*", texts, re.MULTILINE)}
        cls.__doc__ = re.sub(
            r"^\{([\w, ]+)\}$",
            lambda line: "\n".join(entries[name] for name in line[1].split(", ")),
            inspect.cleandoc(cls.__doc__),
            flags=re.MULTILINE,
        )

    _defaults: ClassVar[Mapping[str, Any]] = {}  # of the parameters
    device: str | None = None  # of those that have no such parameter
    _is_summed_there: ClassVar[bool] = False  # are X on a device posed by _pose_rows?
    _allowed: ClassVar[Mapping[str, tuple[Any, ...]]] = {}  # parameters that mean here what they mean nowhere else

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense; as scikit-learn asks, in ``fit`` and not before."""
        chosen = {name: value for name, value in vars(self).items() if value is not self._defaults.get(name, self)}
        check_all(chosen, self._allowed, PARAMETERS)

    def _take_settings(self, settings: dict[str, Any]) -> None:
        """Keep the parameters of a constructor, its ``locals()``, under their names, as scikit-learn asks for."""
        del settings["self"]
        self.__dict__.update(settings)

    def __sklearn_tags__(self) -> Any:
        """Declare that X may be sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Data:
        raise NotImplementedError

    def _pose(self, data: Data) -> Posed:
        raise NotImplementedError

    def _pose_again(self, data: Data, posed: Posed) -> Posed:
        """Pose the problem of the same data at another point of a path, with what the last problem can share."""
        return self._pose(data)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Train to the tolerance.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d); the kernel matrix (n, n) where it is precomputed
            float32 and float64 in C or CSR order are used as they are, without a copy; linear SVMs make CSR of an array
            that is nine tenths zeros.
        y : array of shape (n,), or (n, k) where the weights lie in a ball
            One label per sample, or numbers for a regressor. In (n, k): 0 and 1, an indicator of a sample's labels; or
            k > 1 targets, where NaN is one that was not observed: it costs nothing.
        sample_weight : array of shape (n,), optional
            A weight of 2 equals the sample given twice.
        checkpoint : str, path or Checkpoint, optional
            A file for the state of the run, written once a minute and at the end (``softmargin.Checkpoint`` says how
            often). Where it exists, the run goes on from it, to the same bits as a run that was never interrupted; the
            file of other data or settings is refused. ``tol`` and the budgets may change.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, at the end of the pass. The point reached is kept: the estimator predicts by it,
            ``certificate_`` says how far it is from the optimum, and ``fit`` with ``warm_start=True`` goes on from it.
        """
        return self._fit_twin(X, y, sample_weight, checkpoint)

    def _fit_twin(self, *args: Any, **params: Any) -> Self:
        """Fit a twin and become it, also where Ctrl-C comes after its run has a point."""
        twin = self._twin()
        try:
            twin._fit(*args, **params)
        except KeyboardInterrupt as interrupt:
            if vars(twin).get("trace_") is vars(self).get("trace_"):
                raise
            self._become(twin)
            raise KeyboardInterrupt(interrupted_fit(self)) from interrupt
        return self._become(twin)

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> Self:
        self._check_parameters()
        with threads(self.n_jobs):
            if is_dask(X, y, sample_weight) and type(self)._pose_rows is not CertifiedEstimator._pose_rows:
                from softmargin.estimators.frame.cluster import checked_rows, gathered

                data = checked_rows(self, X, y, sample_weight)
                posed = self._pose_rows(data.X)
                if self._is_summed_there and self.solver == "auto" and data.X.are_light(posed.problem.shape):
                    return self._train(gathered(self, data.X), checkpoint=checkpoint)
                return self._train(data, posed, checkpoint)
            if self._is_summed_there and (is_foreign(X) or self.device is not None):
                return self._train(*self._posed_there(X, y, sample_weight), checkpoint)
            data = self._checked(self._placed(X), y, sample_weight)
            if not is_foreign(data.X):
                # A kernel works on one row of X at a time.
                n_classes = 1 if data.classes is None or hasattr(self, "kernel") else len(data.classes)
                check_weights_fit(data.X.shape[1], n_classes, data.X.dtype.itemsize)
            return self._train(data, checkpoint=checkpoint)

    def _posed_there(self, X: Any, y: Any, sample_weight: Any) -> tuple[Data, Posed]:
        """Check data on a device, or move them there, and pose their problem."""
        from softmargin.estimators.frame.placed import placed, placed_data

        data, rows = placed_data(self, X, y, sample_weight)
        posed = self._pose_rows(rows)
        classes = {} if data.classes is None else {"classes_": data.classes}
        return data, posed._replace(attributes=lambda point: placed({**classes, **posed.attributes(point)}, data.X, y))

    def _pose_rows(self, rows: Any) -> Posed:
        """Pose the problem of rows on a cluster or a device; estimators without it are refused them."""
        raise NotImplementedError

    def _placed(self, X: Any) -> Any:
        """Return X where it can be computed with, or refuse it."""
        return on_host(X, type(self).__name__)

    def _twin(self) -> Self:
        """Return an estimator that can be fitted while this one predicts."""
        twin: Self = _with_attributes(type(self), dict(self.__dict__))
        return twin

    def _become(self, twin: Self) -> Self:
        """Take all attributes of a fitted twin in one assignment."""
        self.__dict__ = twin.__dict__
        return self

    def _train(
        self, data: Data, posed: Posed | None = None, checkpoint: Any = None, *, is_warm: bool | None = None
    ) -> Self:
        began = time.perf_counter()
        posed = self._pose(data) if posed is None else posed
        warm = posed.warm_point() if (self.warm_start if is_warm is None else is_warm) else None
        result = self._solve(data, posed, warm, spent=time.perf_counter() - began, checkpoint=checkpoint)
        if result.status is not Status.CONVERGED:
            warn_caller(not_certified(result, self.tol, posed.problem), NotCertifiedWarning)
        # A doubt may take another certificate, for which a budget has no time.
        doubt = None if result.status is Status.MAX_SECONDS else posed.doubt(result.point)
        if doubt is not None:
            warn_caller(doubt)
        self._after_fit(data, posed)
        return self

    def _after_fit(self, data: Data, posed: Posed) -> None:
        """Add what a fit leaves beside its model."""

    def _solve(self, data: Data, posed: Posed, init: Any, spent: float = 0.0, checkpoint: Any = None) -> Result:
        """Solve the problem from ``init`` in the seconds that are not ``spent``, and keep the attributes."""
        stop = self._stop()
        stop = stop._replace(max_seconds=max(stop.max_seconds - spent, 0.0))

        def attributes(point: Any) -> dict[str, Any]:
            own = posed.attributes(point)
            return own if data.classes is None else {"classes_": data.classes, **own}

        watchers: list[Any] = []
        if self.verbose:
            from softmargin.run.progress import progress_of

            watchers += progress_of(self.verbose)
        if getattr(self, "_skl_callbacks", None) or hasattr(self, "_parent_callback_ctx"):
            watchers.append(CallbackBridge(self, data.X, data.y, data.sample_weight, attributes))
        solver, state = self.solver, None
        if checkpoint is not None:
            solver, watcher, state = resumed(checkpoint, solver, posed.problem)
            watchers.append(watcher)
        with shared_interruption() as interrupted:
            result = fit_problem(
                posed.problem,
                solver=solver,
                stop=stop,
                seed=self._seed(),
                init=init,
                watchers=watchers,
                resume=state,
            )
        result = result._replace(certificate=posed.named(result.certificate))
        self._keep(result, attributes(result.point), int(data.X.shape[0]))
        # Also where the last step was the one: what comes after this fit must not begin.
        if result.status is Status.INTERRUPTED or interrupted.is_set():
            raise KeyboardInterrupt
        return result

    def _keep(self, result: Result, attributes: dict[str, Any], n: int) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)
        self.certificate_ = result.certificate
        self.dual_gap_ = result.certificate.gap
        self.status_ = result.status.value
        self.n_iter_ = result.n_iter
        self._n_samples = n
        self.trace_ = result.trace  # the last: it tells that all are there

    def _stop(self) -> Stop:
        return Stop(self.tol, self.max_iter, math.inf if self.max_seconds is None else self.max_seconds)

    def _seed(self) -> int:
        # A whole number is the seed itself, as on the command line: no RandomState is made to draw another one.
        if isinstance(self.random_state, int | np.integer) and 0 <= self.random_state < 2**32:
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _claim(self) -> dict[str, Any]:
        """Return what a model remembers of its problem: enough for ``certify`` to build it again."""
        raise NotImplementedError

    def _predictor(self, info: dict[str, Any]) -> Any:
        """Return the model that the attributes are."""
        raise NotImplementedError

    @at_one_moment
    def model(self) -> Any:
        """Return the fitted model apart from the estimator: it predicts, saves and loads without pickle."""
        check_is_fitted(self)
        info = model_info(
            self._claim(),
            fit_intercept=self.fit_intercept,
            class_weight=getattr(self, "class_weight", None),
            tol=self.tol,
            status=self.status_,
            certificate=self.certificate_,
        )
        return self._predictor(info)

    def to_onnx(self, path: Any = None, *, compute: str = "float64") -> Any:
        """Return the fitted model as an ONNX graph, and write it where a path is named; see ``export.to_onnx``."""
        from softmargin.export import to_onnx

        return to_onnx(self.model(), path, compute=compute)
