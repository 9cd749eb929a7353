"""``partial_fit`` for every classifier that has one: a chunk is checked as a fit checks, and the subclass learns it."""

from collections.abc import Callable
from copy import copy
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from softmargin.backends.arrays import on_host
from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.core.labels import naming_bad_labels
from softmargin.core.sparse import checked_sparse
from softmargin.core.threads import threads
from softmargin.estimators.frame.classifier import CertifiedClassifier
from softmargin.estimators.frame.data import FIT_KINDS, Data, checked_labels, checked_weights, is_ready
from softmargin.estimators.posing.fit import codes_of, demand_modest
from softmargin.estimators.posing.linear_stream import LinearStream
from softmargin.matrices.forms import Canonical, canonical
from softmargin.matrices.rows import are_ascending
from softmargin.run import Result, Status, Trace

__all__ = ["LinearStreamClassifier", "StreamClassifier"]


def _refusal(estimator: Any) -> str:
    """Return why ``partial_fit`` makes no sense with the settings of an estimator; empty where it does."""
    refusal: str = estimator._stream_refusal()
    if isinstance(estimator.class_weight, str) and estimator.class_weight == "balanced":
        refusal = "class_weight='balanced' needs all rows at once; pass a mapping, or None."
    if estimator.device is not None:
        refusal = "partial_fit computes in the memory of the processor; use device=None."
    if getattr(estimator, "probability", None) not in (None, False):
        refusal = "probability= needs all rows at once; leave it out."
    return refusal


class _IfStreams:
    """A method that is there only with settings that make sense; as ``available_if``, but the error says which do."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, estimator: Any, owner: type) -> Callable[..., Any]:
        if estimator is None:
            return self.method
        refusal = _refusal(estimator)
        if refusal:
            raise AttributeError(f"{owner.__name__} has no {self.method.__name__} with these settings. {refusal}")
        return MethodType(self.method, estimator)


class StreamClassifier(CertifiedClassifier):
    """A classifier that can learn from a stream: it keeps what it needs of the rows it has seen in ``_stream``."""

    def _stream_refusal(self) -> str:
        """Return why there is no ``partial_fit`` with these settings, and what to do; empty where there is one."""
        raise NotImplementedError

    def _learn(self, data: Data) -> tuple[Any, Certificate, Status, dict[str, Any]]:
        """Learn from a chunk; return the stream, what is proven, how that compares with ``tol``, and the attributes."""
        raise NotImplementedError

    @_IfStreams
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one chunk of a stream, in memory that does not grow with the number of chunks.

        The model is one of all rows seen: C is the price of one unit of loss of each, so that the regularisation
        fades as they come. What ``certificate_`` says of it is told in the notes on streams. There is no warning where
        it is above ``tol``, as more chunks may follow. After ``fit`` the stream continues from its model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        classes : array of shape (k,), optional
            All labels that will come; needed in the first call.
        sample_weight : array of shape (n,), optional
        """
        return self._become(self._twin()._take_chunk(X, y, classes, sample_weight))

    def _take_chunk(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        X = on_host(X, "partial_fit")
        is_first = not hasattr(self, "classes_")
        if is_first and classes is None:
            raise DataError("classes must be passed in the first call of partial_fit: all labels that will come.")
        X, y = self._checked_chunk(X, y, is_first=is_first)
        known: Any = checked_labels(classes) if is_first else self.classes_
        if not (is_first or classes is None or np.array_equal(classes, known)):
            named = checked_labels(classes)
            if not np.array_equal(named, known):
                raise DataError(f"classes are {known.tolist()} since the first call; found {named.tolist()}.")
        data = Data(X, y, checked_weights(sample_weight, X), known, codes_of(known, y))
        with threads(self.n_jobs):
            stream, certificate, status, attributes = self._learn(data)
        result = Result(None, certificate, status, Trace(), stream.n_seen, 0.0, 0.0)
        self._keep(result, {"classes_": known, **attributes, "_stream": stream}, stream.n_seen)
        return self

    def _checked_chunk(self, X: Any, y: Any, *, is_first: bool) -> tuple[Any, Any]:
        """Return rows and labels; scikit-learn's checks take longer than learning, and arrays rarely need them."""
        X = checked_sparse(X)
        is_alike = is_first or (
            getattr(X, "shape", ())[1:] == (self.n_features_in_,) and not hasattr(self, "feature_names_in_")
        )
        # Whatever is no label of the model, as NaN, is refused by codes_of.
        is_plain = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biufU"
        if is_alike and is_plain and is_ready(X) and len(y) == X.shape[0]:
            self.n_features_in_ = X.shape[1]
            return X, y
        with naming_bad_labels(y):
            X, y = validate_data(self, X, y, reset=is_first, **FIT_KINDS)
            check_classification_targets(y)
        demand_modest(X)
        return X, y


class LinearStreamClassifier(StreamClassifier):
    """A linear classifier that can learn from a stream, by dual ascent (``posing.linear_stream``)."""

    coef_: Any
    intercept_: Any

    def _problem(self, data: Data) -> Any:
        """Return the problem on some rows."""
        raise NotImplementedError

    def _learn(self, data: Data) -> tuple[LinearStream, Certificate, Status, dict[str, Any]]:
        X = data.X
        if not isinstance(X, np.ndarray) and are_ascending(X.indices, X.indptr):
            X.has_canonical_format = True  # as SciPy notes it, which takes longer to find out
        data = data._replace(X=Canonical(canonical(X, is_checked=True)))
        problem, stream = self._problem(data), getattr(self, "_stream", None)
        if stream is None:
            is_fitted = hasattr(self, "classes_")
            point = problem.model_point(self.coef_, self.intercept_) if is_fitted else None
            stream = LinearStream(point, n_seen=self._n_samples if is_fitted else 0)
        stream = copy(stream)  # what it holds is replaced, never changed
        certificate, status = stream.take(problem, tol=self.tol, seed=self._seed())
        for name in ("support_", "dual_coef_"):  # the dual variables of rows that have gone
            self.__dict__.pop(name, None)
        return stream, certificate, status, {"coef_": stream.coef, "intercept_": stream.intercept}
