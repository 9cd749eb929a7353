"""Kernel models: KernelExpansion, and scikit-learn's SVC with two classes."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.svm import SvmData, SvmSettings, kernel_of, kernel_problem
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion
from softmargin.models.shapes import dense
from softmargin.problems.free_bias import BiasPoint
from softmargin.problems.hinge_svm import HingeSVM

__all__ = ["certify_expansion", "certify_svc"]

Array = NDArray[Any]


def certify_expansion(model: KernelExpansion, training: Training) -> Certificate:
    """Certify the dual point that the model is; where it is not feasible, the bound is that of a feasible one near."""
    info, X = model.info, training.X
    if model.vectors is not None:
        X = X.astype(model.vectors.dtype, copy=False)
    _check_support(model.vectors, model.support, model.n_samples, X)
    codes = training.codes(model.classes)
    prices = training.prices(codes, model.classes, training.price(info.get("C")), info.get("class_weight"))
    settings = SvmSettings(info["multiclass"], info["loss"], info["fit_intercept"], info["intercept_scaling"])
    problem = kernel_problem(SvmData(X, codes, len(model.classes), prices, settings), model.kernel)
    dual = np.zeros((len(codes), model.coef.shape[1]))
    dual[model.support] = model.coef
    _warn_if_indefinite(problem.gram)
    certificate: Certificate = problem.certificate(problem.expansion_point(dual, model.intercept))
    return certificate


def certify_svc(model: Any, training: Training) -> Certificate:
    """Certify an SVC of two classes as the problem of LIBSVM."""
    if not hasattr(model, "dual_coef_"):
        raise IncompatibleError("certify needs a fitted SVC; this one has no dual_coef_. Fit it first.")
    n_classes = len(model.classes_)
    if n_classes > 2:
        raise IncompatibleError(
            f"this SVC has {n_classes} classes: it is {n_classes * (n_classes - 1) // 2} models of one class against "
            "another, which minimise no objective together. Fit and certify an SVC on every pair of classes, or fit a "
            "KernelSVC."
        )
    X = training.X.astype(np.float64, copy=False)  # as scikit-learn does
    vectors = model.support_vectors_ if model.support_vectors_.shape[0] == len(model.support_) else None
    _check_support(vectors, model.support_, model.shape_fit_[0], X)
    codes = training.codes(model.classes_)
    gram = Gram(kernel_of(model.kernel, model.gamma, model.degree, model.coef0, X), X)
    _warn_if_indefinite(gram)
    # The class weights it was fitted with, not those a later set_params names.
    weight = dict(zip(model.classes_.tolist(), model.class_weight_, strict=True))
    signs = 2.0 * codes - 1.0
    problem = HingeSVM(gram, signs, C=training.prices(codes, model.classes_, training.price(model.C), weight))
    dual = np.zeros(len(codes))
    dual[model.support_] = dense(model.dual_coef_)[0]
    return problem.certificate(BiasPoint(signs * dual, float(model.intercept_[0])))


def _check_support(vectors: Any, support: Array, n_samples: int, X: Any) -> None:
    """Refuse data that the model was not trained on."""
    if X.shape[0] != n_samples:
        raise DataError(f"the model was trained on {n_samples} samples, X has {X.shape[0]}; pass the training data.")
    if vectors is None:
        return
    if X.shape[1] != vectors.shape[1]:
        raise DataError(f"the model has {vectors.shape[1]} features, X has {X.shape[1]}; pass the training data.")
    if len(support) and np.abs(X[support] - vectors).max() > 0:
        raise DataError("X does not hold the model's support vectors; pass the training data, in the same order.")


def _warn_if_indefinite(gram: Gram) -> None:
    eigenvalue = 0.0 if gram.kernel.is_psd else gram.negative_eigenvalue()
    if eigenvalue < 0:
        from softmargin.estimators.frame.warnings import indefinite_kernel  # it imports scikit-learn

        warnings.warn(indefinite_kernel(gram.kernel, eigenvalue), stacklevel=4)
