"""Kernel models: KernelExpansion, scikit-learn's SVC, and LIBSVM's files."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.warn import warn_caller
from softmargin.estimators.certify.training import Training
from softmargin.estimators.posing.kernels import kernel_of
from softmargin.estimators.posing.svm import SvmData, SvmSettings, kernel_problem
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion, OneVsOne
from softmargin.models.shapes import dense

__all__ = ["certify_expansion", "certify_one_vs_one", "certify_svc"]

Array = NDArray[Any]
_DIGITS = 1e-7  # relative: LIBSVM writes the entries of support vectors with 8 digits


def certify_expansion(model: KernelExpansion | OneVsOne, training: Training) -> Certificate:
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
    """Certify an SVC as the problems of LIBSVM, one for every pair of classes."""
    if any(base.__name__ == "NuSVC" for base in type(model).__mro__):
        raise IncompatibleError(
            "a NuSVC has a nu, which stands for a C that it does not hold; gaps are proven for SVC."
        )
    if not hasattr(model, "dual_coef_"):
        raise IncompatibleError("certify needs a fitted SVC; this one has no dual_coef_. Fit it first.")
    X = training.X.astype(np.float64, copy=False)  # as scikit-learn does
    vectors = model.support_vectors_ if model.support_vectors_.shape[0] == len(model.support_) else None
    _check_support(vectors, model.support_, model.shape_fit_[0], X)
    codes = training.codes(model.classes_)
    kernel = kernel_of(model.kernel, model.gamma, model.degree, model.coef0, X)
    # The class weights it was fitted with, not those a later set_params names.
    weight = dict(zip(model.classes_.tolist(), model.class_weight_, strict=True))
    prices = training.prices(codes, model.classes_, training.price(model.C), weight)
    # Of two classes scikit-learn turns the sign, so that the score of the second is positive.
    sign = -1.0 if len(model.classes_) == 2 else 1.0
    coef = np.zeros((X.shape[0], len(model.classes_) - 1))
    coef[model.support_] = sign * dense(model.dual_coef_).T
    return _certified_pairs(training._replace(X=X), kernel, codes, prices, coef, sign * model.intercept_)


def certify_one_vs_one(model: OneVsOne, training: Training) -> Certificate:
    """Certify our own model, or a LIBSVM file: rows that agree with its vectors in the digits that LIBSVM writes."""
    if model.support is not None:
        return certify_expansion(model, training)
    if model.info.get("svm_type", "c_svc") != "c_svc":
        raise IncompatibleError(
            f"the file was trained as {model.info['svm_type']}, whose nu stands for a C that it does not hold; gaps "
            "are proven for c_svc."
        )
    X = model.fit_columns(training.X).astype(np.float64, copy=False)
    order = np.argsort(model.classes)
    codes = order[training.codes(model.classes[order])]
    price = training.price(None)
    prices = training.prices(np.argsort(order)[codes], model.classes[order], price, None)
    coef = np.zeros((X.shape[0], model.coef.shape[1]))
    coef[_rows_of(model, X, codes)] = model.coef
    return _certified_pairs(training._replace(X=X), model.kernel, codes, prices, coef, model.intercept)


def _rows_of(model: OneVsOne, X: Any, codes: Array) -> Array:
    """Return which row every support vector is; they stand in the order of the rows, class by class; (n_support,)."""
    rows, vectors = csr_matrix(X, copy=True), model.vectors.copy()
    rows.eliminate_zeros()
    vectors.eliminate_zeros()
    owners, found = np.repeat(np.arange(len(model.counts)), model.counts), []
    ahead = [iter(np.flatnonzero(codes == c).tolist()) for c in range(len(model.counts))]
    for i, c in enumerate(owners.tolist()):
        row = next((row for row in ahead[c] if _is_alike(_entries(rows, row), _entries(vectors, i))), None)
        if row is None:
            raise DataError(
                f"support vector {i + 1} of the file is no row of class {model.classes[c]}, or not in this order; pass "
                "the training data, in the same order."
            )
        found.append(row)
    return np.array(found, dtype=np.intp)


def _entries(X: Any, i: int) -> tuple[Array, Array]:
    part = slice(X.indptr[i], X.indptr[i + 1])
    return X.indices[part], X.data[part]


def _is_alike(row: tuple[Array, Array], vector: tuple[Array, Array]) -> bool:
    is_there = np.array_equal(row[0], vector[0])
    return is_there and bool((np.abs(row[1] - vector[1]) <= _DIGITS * np.abs(vector[1])).all())


def _certified_pairs(
    training: Training, kernel: Any, codes: Array, prices: Array, coef: Array, intercept: Array
) -> Certificate:
    """Certify the SVMs of all pairs of classes; the gap is the sum of theirs.

    ``coef`` (n, k - 1) and ``intercept`` are in LIBSVM's order, ``models.libsvm``; scores above zero mean the first
    class of a pair. Where their own dual points prove too little, so does a run that starts at them.
    """
    k = coef.shape[1] + 1
    data = SvmData(training.X, codes, k, prices, SvmSettings("one_vs_one", "hinge", "free"))
    problem = kernel_problem(data, kernel)
    _warn_if_indefinite(problem.gram)
    sign = -1.0 if k == 2 else 1.0  # of two classes, our score is that of the second
    certificate: Certificate = problem.certificate(problem.expansion_point(sign * coef, sign * intercept))
    if kernel.is_psd and not certificate.meets(training.stop.tol):
        certificate = certificate.with_bound(training.bound(problem, problem.warm_point(sign * coef)))
    return certificate


def _check_support(vectors: Any, support: Any, n_samples: int, X: Any) -> None:
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

        warn_caller(indefinite_kernel(gram.kernel, eigenvalue))
