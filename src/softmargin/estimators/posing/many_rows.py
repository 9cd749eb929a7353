"""Kernel SVMs on more rows than a kernel matrix can hold: by samples, by landmarks, or (``stream``) chunk by chunk.

    by            problem                                        proof                      memory
    samples       KernelHinge, one per class                     gap on the sample          the sample's kernel matrix
    landmarks     a linear problem on Nystroem features          gap of that problem        n r numbers in float32
    a stream      the same, by Pegasos steps                     gap on the last rows       landmarks and one chunk

``C`` means what it means for every KernelSVC (``svm``): with total = sum_i C_i, the binary objective 1/2 |w|^2 + sum_i
C_i hinge_i is total times lam/2 |w|^2 + sum_i p_i hinge_i (maths: sampled kernel, eq. 1), lam = 1 / total and p_i =
C_i / total. A joint loss of two classes is half the binary one with 2 C.
"""

import math
import time
from typing import Any

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.estimators.posing.kernels import KernelSettings, KernelTask, needs_all_samples
from softmargin.estimators.posing.svm import SvmData, linear_problem
from softmargin.features.landmarks import choose_landmarks
from softmargin.problems import KernelHinge, OneVsRest

__all__ = ["on_landmarks", "sampled_problem"]

_BYTES = 8  # of a kernel value
_PROBE = 1000  # rows whose features are timed where seconds are limited: the fewest that are drawn
_MAPPING = 0.25  # share of the seconds for the features of all rows; by hand


def _check_function(what: str, kernel: Any) -> None:
    """Refuse a kernel that is a matrix."""
    if kernel.name == "precomputed":
        raise IncompatibleError(
            f"{what} computes kernel values of the rows it looks at, but the kernel is precomputed; pass X and a "
            "kernel, or leave solver='auto' and approximation=None."
        )


def sampled_problem(data: SvmData, how: KernelSettings) -> Any:
    """Build the hinge problem of a solver that looks at samples, for two classes or one-vs-rest.

    X is used as it is, also where it is memory-mapped: only rows that the solver asks for are read.
    """
    name = f"solver={how.solver!r}"
    settings = data.settings
    settings.check(data.n_classes)
    if settings.is_free:
        raise IncompatibleError(
            f"{name} penalises the intercept, but fit_intercept='free' was asked for; use fit_intercept=True, or "
            "another solver."
        )
    is_joint = settings.is_joint
    if data.n_classes > 2 and settings.multiclass != "one_vs_rest":
        asked = f"join {data.n_classes} classes in one loss" if is_joint else "train every pair of classes"
        raise IncompatibleError(
            f"{name} trains one class against the others, but multiclass={settings.multiclass!r} was asked to {asked}; "
            "use multiclass='one_vs_rest'."
        )
    _check_function(name, how.kernel)
    n, pairs = data.X.shape[0], data.binary_problems()
    needed = len(pairs) * n * n * _BYTES
    if needs_all_samples(how.solver) and needed > 1e6 * how.cache_size:
        raise IncompatibleError(
            f"{name} holds the kernel matrix of all {n} samples for {len(pairs)} problem(s), {needed / 1e6:.0f} MB; "
            f"cache_size={how.cache_size:g} MB. Use solver='scs', or raise cache_size."
        )
    parts = []
    for mine, C in pairs:
        total = float(C.sum())
        lam = 1.0 / ((2.0 if is_joint else 1.0) * total)
        # Times total, certificates are in the units of KernelSVC.
        signs = 2.0 * mine - 1.0
        parts.append(KernelHinge(how.kernel, data.X, signs, lam=lam, weights=C, bias=settings.bias, scale=total))
    return parts[0] if is_joint else OneVsRest(parts)


def on_landmarks(data: SvmData, how: KernelSettings, rng: np.random.Generator) -> KernelTask:
    """Build the linear problem on the features of ``n_components`` landmarks, drawn by price.

    The constant feature of the hinge is one of the kernel's, so that the model is a point of the exact problem too.
    """
    X, codes, n_classes, prices, settings = data
    settings.check(n_classes)
    _check_function("approximation='nystroem'", how.kernel)
    has_free_bias = settings.is_squared or settings.is_free
    bias = 0.0 if has_free_bias else settings.bias
    weights = prices if np.ptp(prices) > 0.0 else None
    landmarks = choose_landmarks(how.kernel, X, how.n_components, rng, weights, bias=bias)
    n = X.shape[0]
    most = max(int(1e6 * how.cache_size / (4 * landmarks.map.shape[1])), 1)
    if how.max_seconds < math.inf and n > _PROBE:
        began = time.perf_counter()
        landmarks.transform(X[:_PROBE])
        affordable = int(_MAPPING * how.max_seconds / max(time.perf_counter() - began, 1e-9) * _PROBE)
        most = min(most, max(affordable, _PROBE))
    if n > most:
        drawn = np.sort(rng.choice(n, most, replace=False, p=None if weights is None else weights / weights.sum()))
        # Drawn by price, they share the price of all.
        X, codes, prices = X[drawn], codes[drawn], np.full(most, prices.sum() / most)
    settings = settings if has_free_bias else settings._replace(fit_intercept=False)
    problem = linear_problem(SvmData(landmarks.transform(X), codes, n_classes, prices, settings))
    return KernelTask(problem, landmarks, n, n > most)
