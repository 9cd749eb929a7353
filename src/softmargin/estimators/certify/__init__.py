"""How far from optimal is this model? Ours, scikit-learn's, LIBLINEAR's, LIBSVM's.

linear weights        P(W) is a property of the weights alone; the bound is the dual value of a point that our solver
                      finds on the same data, or that the weights suggest. P(W) - bound is then proven, whoever trained
                      W: ``linear``, ``one_vs_rest``, ``softmax``, ``regression``, ``ball``.
kernel expansions     coefficients and support say which dual point the model is, so it carries its own bound: the
                      dual value there, or at the nearest feasible point: ``kernel``. Where that of LIBSVM's problem
                      proves too little, our solver goes on from it.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from softmargin.backends.arrays import is_dask
from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import check_all
from softmargin.core.threads import shared_interruption
from softmargin.estimators.certify.ball import certify_ball, is_of_ball
from softmargin.estimators.certify.kernel import certify_expansion, certify_one_vs_one, certify_svc
from softmargin.estimators.certify.linear import certify_linear, certify_sgd
from softmargin.estimators.certify.regression import REGRESSORS, certify_regression
from softmargin.estimators.certify.softmax import certify_softmax, softmax_model_of
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.parameters import PARAMETERS, QUESTIONS
from softmargin.matrices.forms import canonical
from softmargin.models import KernelExpansion, LinearRegressor, OneVsOne
from softmargin.run import Stop

__all__ = ["certified_so_far", "certify"]

_KERNEL_JUDGES: dict[type, Any] = {KernelExpansion: certify_expansion, OneVsOne: certify_one_vs_one}


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    C: float | None = None,
    multiclass: str | None = None,
    loss: str | None = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    bound_tol: float = 1e-5,
    max_seconds: float = math.inf,
    watchers: Sequence[Any] = (),
) -> Certificate:
    """Say how far a model is from the optimum of its own training problem.

    Parameters
    ----------
    model : LinearModel, LinearRegressor, KernelExpansion, OneVsOne, LinearOneVsOne, or a fitted estimator
        Of softmargin: all. Of scikit-learn: LinearSVC, SVC, LogisticRegression, SGDClassifier, RidgeClassifier; Lasso,
        ElasticNet, Ridge, their forms MultiTask... and ...CV, LassoLars, SGDRegressor; a Pipeline that ends in one of
        these. ``softmargin.models.read_liblinear`` and ``read_libsvm_model`` make models of files.
    X, y
        The data it was trained on; X is the kernel matrix where it was precomputed, and what goes into the first step
        of a pipeline.
    C, class_weight
        The prices, where the model does not say (a LIBLINEAR file does not hold C), or to ask about others.
    multiclass, loss
        The problem, where a linear model does not say, or to measure it by another one.
    sample_weight : array, optional
        The weights it was trained with.
    bound_tol : float, default=1e-5
        How tight the bound for a linear model shall be: relative gap of the point that proves it.
    max_seconds : float
        Budget for that bound; a looser bound is still a proof.
    watchers : sequence of Watcher
        Watch the run that finds the bound.

    Returns
    -------
    Certificate
        primal = P(model), bound <= optimum, residual = (primal - bound) / primal. A softmax model without a penalty,
        or with one that is not convex, has no bound: its certificate is stationarity.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> from softmargin import certify
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> theirs = LinearSVC(loss="hinge", random_state=0).fit(X, y)
    >>> certificate = certify(theirs, X, y)
    >>> bool(certificate.bound <= certificate.primal)
    True
    """
    asked = locals()
    check_all(asked, QUESTIONS, PARAMETERS)
    with shared_interruption() as interrupted:
        certificate = certified_so_far(**asked)
    if interrupted.is_set():
        raise KeyboardInterrupt
    return certificate


def certified_so_far(
    model: Any,
    X: Any,
    y: Any,
    *,
    C: float | None,
    multiclass: str | None,
    loss: str | None,
    sample_weight: Any,
    class_weight: Any,
    bound_tol: float,
    max_seconds: float,
    watchers: Sequence[Any],
) -> Certificate:
    """Return what ``certify`` does; after Ctrl-C with the bound that was proven until then."""
    X, model = _last_step(model, X)
    if hasattr(model, "model") and hasattr(model, "certificate_"):
        model = model.model()
    stop = Stop(bound_tol, max_seconds=max_seconds)
    if is_dask(X, y, sample_weight):
        from softmargin.estimators.certify.cluster import certify_rows

        _leave_out((multiclass, loss) != (None, None), "a model on Dask collections")
        own = Training(X, y, C, class_weight, sample_weight, stop, watchers)
        return certify_rows(model, own, lambda rows: _certified_here(model, rows, None, None))
    X = canonical(X if hasattr(X, "tocsr") else np.asarray(X))
    return _certified_here(model, Training(X, y, C, class_weight, sample_weight, stop, watchers), multiclass, loss)


def _certified_here(model: Any, training: Training, multiclass: str | None, loss: str | None) -> Certificate:
    certificate = _judged(model, training, multiclass, loss)
    # Losses, norms and squares: no objective here is negative, but where a kernel is none.
    is_gap = certificate.kind != "stationarity" and certificate.primal >= 0.0
    return certificate.with_bound(0.0) if is_gap else certificate


def _judged(model: Any, training: Training, multiclass: str | None, loss: str | None) -> Certificate:
    """Return the certificate of a model by the file for its kind."""
    names, is_asked = {base.__name__ for base in type(model).__mro__}, (multiclass, loss) != (None, None)
    is_peer_svc = bool(names & {"SVC", "NuSVC"})
    if isinstance(model, KernelExpansion | OneVsOne) or is_peer_svc:
        _leave_out(is_asked, "a kernel model")
        judge = certify_svc if is_peer_svc else _KERNEL_JUDGES[type(model)]
        return judge(model, training)
    is_peer = bool(names & set(REGRESSORS)) and hasattr(model, "predict")  # a penalty may have the same name
    if isinstance(model, LinearRegressor) or (is_peer and not hasattr(model, "classes_")):
        _leave_out(is_asked, "a regressor")
    if is_of_ball(model) and not is_asked:
        return certify_ball(model, training)
    if is_peer and not is_asked:
        return certify_regression(model, training)
    if "SGDClassifier" in names and not is_asked:
        return certify_sgd(model, training)
    own = softmax_model_of(model) if not is_asked else None
    if own is not None and own.has_log_odds:
        return certify_softmax(own, training)
    return certify_linear(model if own is None else own, training, multiclass, loss)


def _last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return what the last step of a fitted pipeline sees, and that step; of any other model X and itself."""
    while any(base.__name__ == "Pipeline" for base in type(model).__mro__):
        if len(model.steps) > 1:
            X = model[:-1].transform(X)
        model = model[-1]
    return X, model


def _leave_out(is_asked: bool, kind: str) -> None:
    if is_asked:
        raise IncompatibleError(f"{kind} is measured by the problem it was trained for; leave out multiclass and loss.")
