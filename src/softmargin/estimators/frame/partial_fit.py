"""``partial_fit`` of KernelSVC: what a chunk must be, and what it leaves on the estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from softmargin.core.errors import DataError
from softmargin.estimators.frame.fit import X_KINDS, CertifiedClassifier
from softmargin.estimators.posing.fit import codes_of, loss_prices
from softmargin.estimators.posing.stream import Stream
from softmargin.run import Result, Trace

__all__ = ["StreamingClassifier"]

Array = NDArray[Any]


def _can_stream(estimator: Any) -> bool:
    """Say whether ``partial_fit`` makes sense with these settings; else say which ones do."""
    is_given = "precomputed" in (estimator.kernel, getattr(estimator.kernel, "name", None))
    if estimator.multiclass == "one_vs_rest" and estimator.loss == "hinge" and not is_given:
        return True
    raise AttributeError(
        "partial_fit trains one class against the others (one problem where there are two), with the hinge and a "
        "kernel of rows; use multiclass='one_vs_rest', loss='hinge', and another kernel than 'precomputed'."
    )


class StreamingClassifier(CertifiedClassifier):
    """A kernel SVM that also learns from chunks; it makes a kernel (``_kernel_for``) and ``_attributes``."""

    _stream: Stream | None

    @available_if(_can_stream)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from one chunk of a stream, in memory that does not grow with the number of chunks.

        The first rows give ``n_components`` landmarks, and these the features of a linear model. Every row of a chunk
        makes one step of averaged Pegasos on it, with the regularisation of all rows seen, lam = 1 / (C n), and steps
        1 / (R + lam t / 4) at the t-th row, R the mean |z|^2; iterates are averaged with weights like t^3, so
        that early ones fade. It exists for ``multiclass="one_vs_rest"`` and the hinge. ``certificate_`` is a gap on
        rows of the chunk, for the problem on these features; there is no warning where it is above ``tol``, as more
        chunks may follow. ``gamma="scale"`` looks at the first chunk. After ``fit`` the stream continues from its
        model.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : array of shape (n,)
        classes : array of shape (k,), optional
            All labels that will come; needed in the first call.
        sample_weight : array of shape (n,), optional
        """
        is_first = not hasattr(self, "classes_")
        if is_first and classes is None:
            raise DataError("classes must be passed in the first call of partial_fit: all labels that will come.")
        X, y = validate_data(self, X, y, reset=is_first, order="C", accept_large_sparse=True, **X_KINDS)
        check_classification_targets(y)
        known = np.unique(classes) if is_first else self.classes_
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise DataError(f"classes are {known.tolist()} since the first call; found {np.unique(classes).tolist()}.")
        if len(known) < 2:
            raise DataError(f"classes holds 1 class ({known.tolist()[0]!r}); a classifier needs at least 2 classes.")
        if isinstance(self.class_weight, str):
            raise DataError(f"class_weight={self.class_weight!r} needs all rows at once; pass a mapping, or None.")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        codes = codes_of(known, y)
        prices = loss_prices(codes, known, self.C, self.class_weight, sample_weight)
        stream = getattr(self, "_stream", None) or self._open_stream(X, len(known), sample_weight)
        certificate, status = stream.take(X, codes, prices, budget=self.n_components, tol=self.tol, seed=self._seed())
        attributes = self._attributes(stream.expansion(), stream.labels, len(known))
        result = Result(None, certificate, status, Trace(), stream.n_steps, 0.0, 0.0)
        self._keep(result, {"classes_": known, **attributes, "_stream": stream}, stream.n_seen)
        return self

    def _open_stream(self, X: Any, n_classes: int, sample_weight: Array | None) -> Stream:
        """Begin with nothing, or with the model of the last fit."""
        bias = self._settings().bias
        if not hasattr(self, "classes_"):
            return Stream(self._kernel_for(X, sample_weight), n_classes, bias)
        n = self._n_samples
        return Stream(
            self._kernel,
            n_classes,
            bias,
            self.support_vectors_,
            self._support_codes,
            self.dual_coef_.T,
            self.support_,
            n_seen=n,
            price=self.C * n,
            n_steps=n,
        )
