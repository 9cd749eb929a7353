"""SVMs: from labels and settings to a problem.

    loss             multiclass                         problem                                        intercept
    hinge            weston_watkins, crammer_singer     one joint SVM                                  penalised
    hinge            one_vs_rest                        a joint SVM of two classes per class, C / 2    penalised
    hinge            one_vs_rest                        a HingeSVM per class, C                        "free"
    hinge            a joint loss of two classes        half a HingeSVM, 2 C                           "free"
    squared_hinge    one_vs_rest; any of two classes    an L2SVM per class, 2 C                        free
    squared_hinge    the same, linear                   the same with a column more                    "penalized"
    either           one_vs_one                         the same for every pair of classes, on its     as above
                                                        rows: LIBSVM's; two classes as one_vs_rest

A binary hinge SVM is twice the joint SVM of two classes with half its C (maths: notation, eq. 4). ``C`` means here what
it means in scikit-learn, C sum_i xi_i^2; the L2SVM charges C / 2 sum_i xi_i^2. A penalised intercept is the weight of a
constant feature, as in LIBLINEAR; for the squared hinge a column of its own in a copy of X.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import home_of, is_foreign
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import Number, OneOf, Truth, checked
from softmargin.kernels import Linear
from softmargin.losses import LOSSES
from softmargin.matrices.forms import Canonical, canonical, thinned, with_constant
from softmargin.matrices.gram import Gram
from softmargin.matrices.origin import NOWHERE, Origin, moved, near_zero
from softmargin.matrices.pair_gram import PairGram
from softmargin.problems import (
    L2SVM,
    EveryPair,
    HingeSVM,
    KernelMulticlassSVM,
    KernelOneVsOne,
    MulticlassSVM,
    OneVsRest,
    RestHinges,
)

__all__ = [
    "FIT_INTERCEPT",
    "HINGES",
    "MULTICLASS",
    "SvmData",
    "SvmSettings",
    "binary_labels",
    "cache_megabytes",
    "kernel_problem",
    "linear_problem",
    "streamed_problem",
]

Array = NDArray[Any]

HINGES = ("hinge", "squared_hinge")
MULTICLASS = (*LOSSES, "one_vs_rest", "one_vs_one")
FIT_INTERCEPT = (Truth(), OneOf("free", "penalized"))
INTERCEPT_SCALING = Number(above=0.0, most=1e100)  # its square is a kernel value
CACHE_SIZE = 1000.0  # megabytes: what cache_size="auto" is in the memory of the processor; by hand
DEVICE_SHARE = 0.7  # of the free memory of a device, for cache_size="auto": solvers need some, too; by hand


class SvmSettings(NamedTuple):
    """What linear and kernel SVMs are asked for."""

    multiclass: str = "weston_watkins"
    loss: str = "hinge"
    fit_intercept: bool | str = True  # or "free", or "penalized"; True is the latter for the hinge, else the former
    intercept_scaling: float = 1.0  # value of the constant feature of a penalised one

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the squared hinge."""
        return self.loss == "squared_hinge"

    @property
    def is_joint(self) -> bool:
        """Whether all classes share one loss."""
        return self.multiclass in LOSSES

    @property
    def is_free(self) -> bool:
        """Whether the intercept of the hinge is not penalised."""
        return not self.is_squared and self.fit_intercept == "free"

    @property
    def has_free_bias(self) -> bool:
        """Whether there is an intercept that is not penalised."""
        return self.is_free or (self.is_squared and bool(self.fit_intercept) and self.fit_intercept != "penalized")

    @property
    def bias(self) -> float:
        """The value of the constant feature whose weight gives the intercept; 0 for none."""
        if not self.fit_intercept or self.has_free_bias:
            return 0.0
        return float(checked("intercept_scaling", self.intercept_scaling, INTERCEPT_SCALING))

    def check(self, n_classes: int) -> None:
        """Refuse unknown names, and losses that cannot be joined."""
        checked("multiclass", self.multiclass, OneOf(*MULTICLASS))
        checked("loss", self.loss, OneOf(*HINGES))
        checked("fit_intercept", self.fit_intercept, *FIT_INTERCEPT)
        if self.is_squared and self.is_joint and n_classes > 2:
            raise IncompatibleError(
                f"loss='squared_hinge' is a loss of two classes, but multiclass={self.multiclass!r} was asked to join "
                f"{n_classes} in one; use multiclass='one_vs_rest' or 'one_vs_one', or loss='hinge'."
            )
        if self.is_free and self.is_joint and n_classes > 2:
            raise IncompatibleError(
                f"fit_intercept='free' is for two classes, one-vs-rest or one-vs-one, but multiclass="
                f"{self.multiclass!r} was asked to join {n_classes} classes in one loss; use multiclass='one_vs_rest' "
                "or 'one_vs_one', or fit_intercept=True with a large intercept_scaling."
            )

    def check_kernel(self) -> None:
        """Refuse a penalised intercept of the squared hinge, which kernel models do not have."""
        if self.is_squared and self.fit_intercept == "penalized":
            raise IncompatibleError(
                "fit_intercept='penalized' with loss='squared_hinge' is for linear models; that of a kernel model is "
                "free. Use LinearSVC, loss='hinge', or fit_intercept=True."
            )

    def claim(self, C: float) -> dict[str, Any]:
        """Return what a model remembers of its problem: enough for ``certify`` to build it again."""
        return {
            "problem": "l2_svm" if self.is_squared else "multiclass_svm",
            # Two classes need no joint loss; what was solved is one class against the other.
            "multiclass": "one_vs_rest" if self.is_squared and self.is_joint else self.multiclass,
            "loss": self.loss,
            "C": float(C),
            "intercept_scaling": float(self.intercept_scaling),
        }


def binary_labels(codes: Array, n_classes: int) -> list[Array]:
    """Return which samples are positive in each binary problem, 0 and 1: one problem where there are two classes."""
    positives = [codes == 1] if n_classes == 2 else [codes == c for c in range(n_classes)]
    return [mine.astype(np.int32) for mine in positives]


class SvmData(NamedTuple):
    """Labelled rows with the price of each, and what they are asked for."""

    X: Any  # (n, d) array or CSR matrix
    codes: Array  # (n,) class codes 0 .. k-1
    n_classes: int
    prices: Array  # (n,), or (n, k) to charge a sample differently in every class of one-vs-rest
    settings: SvmSettings

    def binary_problems(self) -> list[tuple[Array, Array]]:
        """Return (codes 0 and 1, prices) of each binary problem."""
        labels = binary_labels(self.codes, self.n_classes)
        return list(zip(labels, self.prices.T if self.prices.ndim == 2 else [self.prices] * len(labels), strict=True))

    @property
    def has_pairs(self) -> bool:
        """Whether every pair of classes has a problem of its own."""
        return self.settings.multiclass == "one_vs_one" and self.n_classes > 2


def linear_problem(data: SvmData) -> Any:
    """Build the problem of a linear SVM."""
    data.settings.check(data.n_classes)
    X = thinned(canonical(data.X))
    if data.has_pairs:
        return _linear_pairs(X, data)
    if data.settings.is_squared or data.settings.is_free:
        constant = data.settings.bias
        X, origin = moved(near_zero(X, data.settings.has_free_bias))
        return _free_bias_parts(Gram(Linear(), with_constant(X, constant) if constant else X), data, origin=origin)
    return _hinge_parts(partial(MulticlassSVM, Canonical(X), bias=data.settings.bias), data)


def streamed_problem(data: SvmData) -> Any:
    """Build the problem of a linear SVM on a chunk of a stream: the hinges of all classes as one."""
    settings = data.settings
    if settings.is_squared or settings.is_free or data.n_classes == 2 or settings.multiclass != "one_vs_rest":
        return linear_problem(data)
    settings.check(data.n_classes)
    return RestHinges(data.X, data.codes, C=data.prices, n_classes=data.n_classes, bias=settings.bias)


def kernel_problem(data: SvmData, kernel: Any, cache_size: float = CACHE_SIZE, gram: Gram | None = None) -> Any:
    """Build the problem of a kernel SVM: as ``linear_problem``, with a kernel object and megabytes for its values.

    ``gram`` has the values that a problem of the same rows, kernel and settings has computed.
    """
    data.settings.check(data.n_classes)
    data.settings.check_kernel()
    if data.has_pairs and is_foreign(data.X):
        raise IncompatibleError(
            "multiclass='one_vs_one' is not done on a device; use another multiclass, or pass X as a NumPy array."
        )
    if data.has_pairs:
        return _kernel_pairs(data, kernel, cache_size, is_expansion=True)
    is_free = data.settings.is_squared or data.settings.is_free
    if gram is None:
        bias = 0.0 if is_free else data.settings.bias
        gram = _gram_for(data.X)(kernel, data.X, bias=bias, cache_size=cache_size)
    if is_free:
        return _free_bias_parts(gram, data, is_expansion=True)
    return _hinge_parts(partial(KernelMulticlassSVM, gram), data)


def _gram_for(X: Any) -> Any:
    """Return the class of the kernel matrix of X: in memory, or where X lies."""
    if not is_foreign(X):
        return Gram
    from softmargin.matrices.device_gram import DeviceGram

    return DeviceGram


def cache_megabytes(cache_size: Any, X: Any) -> float:
    """Return how many megabytes kernel values may fill; "auto" asks the device that X lies on, where it tells."""
    if not isinstance(cache_size, str):
        return float(cache_size)
    free = home_of(X).free_bytes if is_foreign(X) else None
    return CACHE_SIZE if free is None else DEVICE_SHARE * free / 1e6


def _kernel_pairs(data: SvmData, kernel: Any, cache_size: Any, *, is_expansion: bool) -> KernelOneVsOne:
    settings, codes = data.settings, data.codes
    is_squared, bias = settings.is_squared, settings.bias
    megabytes = cache_megabytes(cache_size, data.X)
    gram = PairGram(kernel, data.X, codes, data.n_classes, bias=bias, cache_size=megabytes)
    own = {"has_bias": settings.has_free_bias, "is_expansion": is_expansion}
    return KernelOneVsOne(
        gram, (2.0 if is_squared else 1.0) * data.prices, loss=L2SVM if is_squared else HingeSVM, **own
    )


def _linear_pairs(X: Any, data: SvmData) -> EveryPair:
    settings = data.settings
    if settings.is_free:
        return _kernel_pairs(data._replace(X=X), Linear(), CACHE_SIZE, is_expansion=False)

    if settings.is_squared and settings.fit_intercept == "penalized":
        raise IncompatibleError(
            "fit_intercept='penalized' with loss='squared_hinge' is for two classes or one-vs-rest; with "
            "multiclass='one_vs_one' it is free. Use fit_intercept=True, or loss='hinge'."
        )

    near, origin = moved(near_zero(X, settings.has_free_bias))

    def squared(rows: Array, y: Array, C: Array) -> L2SVM:
        return L2SVM(Gram(Linear(), near[rows]), y, C=2.0 * C, has_bias=settings.has_free_bias, origin=origin)

    def hinge(rows: Array, y: Array, C: Array) -> MulticlassSVM:
        return MulticlassSVM(X[rows], (y > 0.0).astype(np.int32), C=C / 2.0, bias=settings.bias, n_classes=2)

    if settings.is_squared:
        return EveryPair(squared, data.codes, data.n_classes, data.prices)
    return EveryPair(hinge, data.codes, data.n_classes, data.prices, scale=2.0)


def _hinge_parts(pose: Callable[..., Any], data: SvmData) -> Any:
    if data.settings.is_joint:
        return pose(data.codes, C=data.prices, multiclass=data.settings.multiclass, n_classes=data.n_classes)
    return OneVsRest([pose(mine, C=C / 2.0, n_classes=2) for mine, C in data.binary_problems()], scale=2.0)


def _free_bias_parts(gram: Gram, data: SvmData, *, is_expansion: bool = False, origin: Origin = NOWHERE) -> OneVsRest:
    settings, pairs = data.settings, data.binary_problems()
    own: dict[str, Any] = {"is_expansion": is_expansion, "origin": origin}
    if settings.is_squared:
        own["has_bias"] = settings.has_free_bias
        own["constant"] = float(gram.dtype.type(settings.bias))  # as the column of X has it
        return OneVsRest([L2SVM(gram, 2.0 * mine - 1.0, C=2.0 * C, **own) for mine, C in pairs])
    scale = 0.5 if settings.is_joint else 1.0
    parts = [HingeSVM(gram, 2.0 * mine - 1.0, C=C / scale, **own) for mine, C in pairs]
    return OneVsRest(parts, scale=scale)
