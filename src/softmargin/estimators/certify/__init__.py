"""How far from optimal is this model? Ours, scikit-learn's, LIBLINEAR's.

linear weights        P(W) is a property of the weights alone; the bound is the dual value of a point that our solver
                      finds on the same data. P(W) - bound is then proven, whoever trained W: ``linear``, ``softmax``.
kernel expansions     coefficients and support say which dual point the model is, so it carries its own bound: the
                      dual value there, or at the nearest feasible point: ``kernel``.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.certify.kernel import certify_expansion, certify_svc
from softmargin.estimators.certify.linear import certify_linear
from softmargin.estimators.certify.softmax import certify_softmax, softmax_model_of
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.parameters import QUESTIONS, check_parameters
from softmargin.matrices.operator import canonical
from softmargin.models import KernelExpansion
from softmargin.run import Stop

__all__ = ["certify"]


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
    model : LinearModel, KernelExpansion, or a fitted classifier
        Of softmargin: LinearSVC, KernelSVC, SoftmaxRegression. Of scikit-learn: LinearSVC (with l2 penalty), SVC (with
        two classes), LogisticRegression and LogisticRegressionCV.
        ``softmargin.models.read_liblinear`` makes a LinearModel of a LIBLINEAR file.
    X, y
        The data it was trained on; X is the kernel matrix where it was precomputed.
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
    """
    check_parameters(locals(), QUESTIONS)
    if hasattr(model, "model") and hasattr(model, "certificate_"):
        model = model.model()
    X = canonical(X if hasattr(X, "tocsr") else np.asarray(X))
    training = Training(X, y, C, class_weight, sample_weight, Stop(bound_tol, max_seconds=max_seconds), watchers)
    if isinstance(model, KernelExpansion):
        if (multiclass, loss) != (None, None):
            raise IncompatibleError(
                "a kernel model is measured by the problem it was trained for; leave out multiclass and loss."
            )
        return certify_expansion(model, training)
    if any(base.__name__ == "SVC" for base in type(model).__mro__):
        return certify_svc(model, training)
    softmax = softmax_model_of(model) if multiclass is None and loss is None else None
    return certify_linear(model, training, multiclass, loss) if softmax is None else certify_softmax(softmax, training)
