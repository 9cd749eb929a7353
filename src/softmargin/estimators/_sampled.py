"""Kernel SVMs on more rows than a kernel matrix can hold: by samples, by landmarks, or (``_stream``) by chunks.

    way           problem                                        proof                      memory
    samples       KernelHinge, one a class                       gap on the sample          the sample's kernel matrix
    landmarks     a linear problem on Nystroem features          gap of that problem        n r numbers in float32
    stream        the same, by Pegasos steps, a chunk a time     gap on the last rows       landmarks + chunk

``C`` means what it means for every KernelSVC (``_problems``): with total = sum_i C_i, the binary objective
1/2 |w|^2 + sum_i C_i hinge_i is total times lam/2 |w|^2 + sum_i p_i hinge_i of spec 2.1, lam = 1 / total and
p_i = C_i / total. A joint loss of two classes is half the binary one with 2 C.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin import solvers
from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.estimators._fit import is_sampling
from softmargin.estimators._problems import (
    check_kind,
    coef_and_intercept,
    constant_feature,
    kernel_problem,
    linear_problem,
    one_by_one,
)
from softmargin.features.landmarks import Landmarks, choose_landmarks
from softmargin.models import KernelExpansion
from softmargin.problems import KernelHinge, OneVsRest

__all__ = [
    "EXACT_ROWS",
    "Approximation",
    "needs_all",
    "pose",
]

Array = NDArray[Any]
APPROXIMATIONS = (None, "auto", "nystroem")
EXACT_ROWS = 20_000  # up to so many rows, "auto" solves the problem itself
NUMBER = 8  # bytes


def check_function(what: str, kernel: Any) -> None:
    """Refuse a kernel that is a matrix."""
    if kernel.name == "precomputed":
        raise IncompatibleError(
            f"{what} computes kernel values of the rows it looks at, but the kernel is precomputed; pass X and a "
            "kernel, or leave solver='auto' and approximation=None."
        )


def needs_all(solver: Any) -> bool:
    """Say whether a solver of sampled problems looks at all samples."""
    return isinstance(solver, solvers.Wolfe) or (isinstance(solver, str) and solver == "wolfe")


def pose(
    X: Any,
    codes: Array,
    n_classes: int,
    prices: Array,
    *,
    loss: str,
    approximation: str | None,
    solver: Any,
    n_components: int,
    seed: Callable[[], int],
    **settings: Any,
) -> tuple[Any, "Approximation | None"]:
    """Build the problem that a kernel SVM is asked to solve: by landmarks, by samples, or itself.

    ``settings`` are kernel, multiclass, fit_intercept, intercept_scaling and cache_size, as in ``kernel_problem``.
    With landmarks, what makes a model of its points comes with it.
    """
    if approximates(approximation, solver, settings["kernel"], X.shape[0]):
        rng = np.random.default_rng(seed())
        return approximate(X, codes, n_classes, prices, loss=loss, n_components=n_components, rng=rng, **settings)
    if loss == "hinge" and is_sampling(solver):
        return sampled_problem(X, codes, n_classes, prices, solver=solver, **settings), None
    return kernel_problem(X, codes, n_classes, prices, loss=loss, **settings), None


def sampled_problem(
    X: Any,
    codes: Array,
    n_classes: int,
    prices: Array,
    *,
    kernel: Any,
    multiclass: str,
    fit_intercept: bool,
    intercept_scaling: float,
    cache_size: float,
    solver: Any,
) -> Any:
    """Build the hinge problem of a solver that looks at samples: as ``kernel_problem``, for two classes or one-vs-rest.

    X is used as it is, also where it is memory-mapped: only rows that were asked for are read.
    """
    name = f"solver={solver!r}"
    check_kind(multiclass, "hinge", n_classes)
    if n_classes > 2 and multiclass != "one_vs_rest":
        raise IncompatibleError(
            f"{name} trains one class against the others, but multiclass={multiclass!r} was asked to join "
            f"{n_classes} classes in one loss; use multiclass='one_vs_rest'."
        )
    check_function(name, kernel)
    n, pairs = X.shape[0], one_by_one(codes, n_classes, prices)
    needed = len(pairs) * n * n * NUMBER
    if needs_all(solver) and needed > 1e6 * cache_size:
        raise IncompatibleError(
            f"{name} holds the kernel matrix of all {n} samples for {len(pairs)} problem(s), {needed / 1e6:.0f} MB; "
            f"cache_size={cache_size:g} MB. Use solver='scs', or raise cache_size."
        )
    bias, is_joint = constant_feature(fit_intercept, intercept_scaling), multiclass != "one_vs_rest"
    parts = []
    for mine, C in pairs:
        total = float(C.sum())
        lam = 1.0 / ((2.0 if is_joint else 1.0) * total)
        # Times total, certificates are in the units of KernelSVC.
        parts.append(KernelHinge(kernel, X, 2.0 * mine - 1.0, lam=lam, weights=C, bias=bias, scale=total))
    return parts[0] if is_joint else OneVsRest(parts)


# --- landmarks -----------------------------------------------------------------------------------------------


class Approximation(NamedTuple):
    """What a fit on Nystroem features leaves: enough to make a model of a point."""

    landmarks: Landmarks
    n: int
    is_sample: bool  # the features of all rows did not fit, and some were drawn

    def model(self, problem: Any, point: Any, classes: Array, info: Mapping[str, Any]) -> KernelExpansion:
        """Turn a point of the linear problem into an expansion over the landmarks."""
        weights, free = coef_and_intercept(problem, point)
        landmarks = self.landmarks
        coef = landmarks.expanded(weights.T)
        intercept = free + landmarks.bias**2 * coef.sum(axis=0)
        return KernelExpansion(
            classes, landmarks.kernel, landmarks.vectors, landmarks.rows, self.n, coef, intercept, info
        )

    def told(self, certificate: Certificate) -> Certificate:
        """Return the certificate under the name it deserves."""
        return certificate._replace(kind="sample gap") if self.is_sample else certificate


def approximates(approximation: str | None, solver: Any, kernel: Any, n: int) -> bool:
    """Say whether landmarks shall stand for all rows; "auto" is so beyond ``EXACT_ROWS``, for solver="auto" only."""
    if approximation not in APPROXIMATIONS:
        raise IncompatibleError(f"approximation={approximation!r} is unknown; choose None, 'auto' or 'nystroem'.")
    if approximation == "auto":
        is_free = isinstance(solver, str) and solver == "auto" and kernel.name not in ("linear", "precomputed")
        return is_free and n > EXACT_ROWS
    return approximation is not None


def approximate(
    X: Any,
    codes: Array,
    n_classes: int,
    prices: Array,
    *,
    kernel: Any,
    multiclass: str,
    loss: str,
    fit_intercept: bool,
    intercept_scaling: float,
    n_components: int,
    cache_size: float,
    rng: np.random.Generator,
) -> tuple[Any, Approximation]:
    """Build the linear problem on the features of ``n_components`` landmarks, and what makes a model of its points.

    Landmarks are drawn by price. The constant feature of the hinge is one of the kernel's, so that the model is a
    point of the exact problem too.
    """
    check_kind(multiclass, loss, n_classes)
    check_function("approximation='nystroem'", kernel)
    is_squared = loss == "squared_hinge"
    bias = 0.0 if is_squared else constant_feature(fit_intercept, intercept_scaling)
    weights = prices if np.ptp(prices) > 0.0 else None
    landmarks = choose_landmarks(kernel, X, n_components, rng, weights, bias=bias)
    n = X.shape[0]
    most = max(int(1e6 * cache_size / (4 * landmarks.map.shape[1])), 1)
    if n > most:
        drawn = np.sort(rng.choice(n, most, replace=False, p=None if weights is None else weights / weights.sum()))
        # Drawn by price, they share the price of all.
        X, codes, prices = X[drawn], codes[drawn], np.full(most, prices.sum() / most)
    problem = linear_problem(
        landmarks.transform(X),
        codes,
        n_classes,
        prices,
        multiclass=multiclass,
        loss=loss,
        fit_intercept=fit_intercept and is_squared,
        intercept_scaling=intercept_scaling,
    )
    return problem, Approximation(landmarks, n, n > most)
