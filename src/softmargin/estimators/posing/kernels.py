"""Kernel SVMs: which problem stands for one, and from its points to a kernel model."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin import solvers
from softmargin.backends.arrays import home_of, is_foreign
from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import NONE, OneOf, checked
from softmargin.core.protocols import SampledProblem
from softmargin.estimators.posing.svm import CACHE_SIZE, SvmData, kernel_problem
from softmargin.kernels import find_gamma, make_kernel, scaled_gamma
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import row_blocks
from softmargin.problems import Expansion
from softmargin.solvers.names import SAMPLING, SOLVERS

__all__ = [
    "KernelSettings",
    "KernelTask",
    "kernel_claim",
    "kernel_of",
    "kernel_task",
    "looks_at_samples",
    "needs_all_samples",
]

Array = NDArray[Any]

APPROXIMATIONS = (None, "auto", "nystroem")
EXACT_ROWS = 20_000  # up to so many rows, approximation="auto" solves the problem itself; by hand


class KernelSettings(NamedTuple):
    """How a kernel SVM is to be solved."""

    kernel: Any  # a kernel object
    solver: Any = "auto"
    approximation: str | None = "auto"
    n_components: int = 500
    cache_size: float = CACHE_SIZE  # megabytes
    max_seconds: float = math.inf
    gram: Gram | None = None  # with kernel values of the same rows, where a fit has left them


class KernelTask(NamedTuple):
    """The problem that stands for a kernel SVM, and what makes a kernel model of its points."""

    problem: Any
    landmarks: Any = None  # whose features the problem is linear in; None where it is exact
    n_samples: int = 0
    is_sample: bool = False  # the features of all rows did not fit, and some were drawn

    def expansion(self, point: Any) -> Expansion:
        """Return the kernel model that a point is, without labels."""
        landmarks = self.landmarks
        if landmarks is None:
            expansion: Expansion = self.problem.expansion(point)
            return expansion
        weights, free = self.problem.coef_and_intercept(point)
        coef = landmarks.expanded(weights.T)
        intercept = free + landmarks.bias**2 * coef.sum(axis=0)
        return Expansion(landmarks.kernel, landmarks.vectors, landmarks.rows, self.n_samples, coef, intercept)

    def named(self, certificate: Certificate) -> Certificate:
        """Return the certificate under the name of what it proves."""
        return certificate._replace(kind="sample gap") if self.is_sample else certificate

    def negative_eigenvalue(self) -> float:
        """Return a proven negative eigenvalue of the kernel matrix, 0 for none; landmarks leave them out."""
        return 0.0 if self.landmarks is not None else float(self.problem.gram.negative_eigenvalue())


def kernel_of(kernel: Any, gamma: Any, degree: int, coef0: float, X: Any, sample_weight: Array | None = None) -> Any:
    """Return the kernel object; ``gamma="scale"`` looks at X, where a weight of 2 counts as the sample given twice."""
    # Not every kernel has a gamma, and the variance of a kernel matrix means nothing.
    needs_gamma = isinstance(kernel, str) and kernel not in ("linear", "precomputed")
    width = _gamma_of(gamma, X, sample_weight) if needs_gamma else 1.0
    return make_kernel(kernel, gamma=width, degree=degree, coef0=coef0)


def _gamma_of(gamma: Any, X: Any, sample_weight: Array | None) -> float:
    if is_foreign(X) and isinstance(gamma, str) and gamma == "scale":
        from softmargin.kernels.on_device import variance as device_variance

        return scaled_gamma(int(X.shape[1]), device_variance(X, home_of(X), sample_weight))
    if sample_weight is None or not (isinstance(gamma, str) and gamma == "scale"):
        return find_gamma(gamma, X)
    with np.errstate(all="ignore"):
        total = sample_weight.sum() * X.shape[1]
        mean = sum((weights @ entries for entries, weights in _weighted_entries(X, sample_weight)), 0.0) / total
        spread, mass = 0.0, 0.0
        for entries, weights in _weighted_entries(X, sample_weight):
            spread += weights @ (entries - mean) ** 2
            mass += weights.sum()
        variance = (spread + (total - mass) * mean**2) / total
    return scaled_gamma(X.shape[1], float(variance))


def _weighted_entries(X: Any, sample_weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the stored numbers of X, each with the weight of its row, one block of rows at a time."""
    for rows, block in row_blocks(X, 1):
        if isinstance(block, np.ndarray):
            yield block.ravel(), np.repeat(sample_weight[rows], block.shape[1])
        else:
            yield block.data, np.repeat(sample_weight[rows], np.diff(block.indptr))


def kernel_claim(kernel: Any) -> dict[str, Any]:
    """Return the name of a kernel and the settings it has, as a model remembers them."""
    names = [name for name in ("gamma", "degree", "coef0") if hasattr(kernel, name)]
    return {"kernel": kernel.name, **{name: getattr(kernel, name) for name in names}}


def looks_at_samples(solver: Any) -> bool:
    """Say whether a solver, or a name, is of those that look at samples of a kernel problem."""
    # maths: sampled kernel, section 1.
    return solver in SOLVERS[SAMPLING] if isinstance(solver, str) else SampledProblem in getattr(solver, "needs", ())


def needs_all_samples(solver: Any) -> bool:
    """Say whether a solver of sampled problems looks at all samples."""
    return isinstance(solver, solvers.Wolfe) or (isinstance(solver, str) and solver == "wolfe")


def kernel_task(data: SvmData, how: KernelSettings, seed: Callable[[], int]) -> KernelTask:
    """Build the problem that stands for a kernel SVM: on landmarks, on samples, or the problem itself."""
    data.settings.check_kernel()
    if is_foreign(data.X):
        _check_exact(how)
        return KernelTask(kernel_problem(data, how.kernel, how.cache_size, how.gram))
    if _is_approximate(how, data):
        # Imported where a kernel matrix is too large only: a default fit needs neither.
        from softmargin.estimators.posing.many_rows import on_landmarks

        return on_landmarks(data, how, np.random.default_rng(seed()))
    if not data.settings.is_squared and looks_at_samples(how.solver):
        from softmargin.estimators.posing.many_rows import sampled_problem

        return KernelTask(sampled_problem(data, how))
    return KernelTask(kernel_problem(data, how.kernel, how.cache_size, how.gram))


def _check_exact(how: KernelSettings) -> None:
    """Refuse what is not done on a device; there "auto" means the problem itself, whatever its size."""
    if how.approximation not in (None, "auto"):
        raise IncompatibleError(
            f"approximation={how.approximation!r} is not done on a device; use approximation=None, or pass X as a "
            "NumPy array."
        )
    if looks_at_samples(how.solver):
        raise IncompatibleError(
            f"solver={how.solver!r} looks at samples in the memory of the processor; on a device use "
            "solver='splitting', or pass X as a NumPy array."
        )


def _is_approximate(how: KernelSettings, data: SvmData) -> bool:
    """Say whether landmarks shall stand for all rows; "auto" is so beyond ``EXACT_ROWS``, for solver="auto" only.

    The problems of pairs of classes are small, so that they are never approximate.
    """
    checked("approximation", how.approximation, NONE, OneOf("auto", "nystroem"))
    if how.approximation == "auto":
        is_auto = isinstance(how.solver, str) and how.solver == "auto" and not data.has_pairs
        return is_auto and how.kernel.name not in ("linear", "precomputed") and data.X.shape[0] > EXACT_ROWS
    if how.approximation is not None and data.has_pairs:
        raise IncompatibleError(
            "approximation='nystroem' has landmarks for all classes, but multiclass='one_vs_one' a problem for every "
            "pair of them; use approximation=None, or multiclass='one_vs_rest'."
        )
    return how.approximation is not None
