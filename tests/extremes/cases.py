"""Extreme data and settings for every estimator: what hypothesis draws from."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from softmargin import KernelSVC, L1BallClassifier, LinearSVC, SoftmaxRegression, TraceBallClassifier

_OVR = {"multiclass": "one_vs_rest"}
_SQUARED = {**_OVR, "loss": "squared_hinge"}
ESTIMATORS = {
    "linear ww": lambda C: LinearSVC(C),
    "linear cs": lambda C: LinearSVC(C, multiclass="crammer_singer"),
    "linear ovr": lambda C: LinearSVC(C, **_OVR),
    "linear squared": lambda C: LinearSVC(C, **_SQUARED),
    "kernel ww": lambda C: KernelSVC(C),
    "kernel cs, linear": lambda C: KernelSVC(C, kernel="linear", multiclass="crammer_singer"),
    "kernel ovr": lambda C: KernelSVC(C, **_OVR),
    "kernel squared": lambda C: KernelSVC(C, **_SQUARED),
    "softmax l2": lambda C: SoftmaxRegression(C),
    "softmax l1": lambda C: SoftmaxRegression(C, l1_ratio=1.0),
    "l1 ball": lambda C: L1BallClassifier(C),
    "trace ball": lambda C: TraceBallClassifier(C),
}
# Solvers by name that ``auto`` hands hard problems to, or that solve Newton systems.
_NAMED = {
    "linear ww": ("interior_point",),
    "linear cs": ("interior_point",),
    "linear ovr": ("interior_point", "augmented_lagrangian"),
    "linear squared": ("newton",),
    "softmax l2": ("newton", "newton_cg", "trust_newton", "primal_dual_newton"),
    "softmax l1": ("prox_newton", "interior_point"),
}
FITS = [
    *((name, "auto") for name in ESTIMATORS),
    *((name, solver) for name, solvers in _NAMED.items() for solver in solvers),
]
# Those that reach the optimum whatever the data (the augmented Lagrangian: where ``auto`` takes it).
FINISHERS = [(name, solver) for name, solver in FITS if solver in ("interior_point", "augmented_lagrangian")]


class Extreme(NamedTuple):
    """Data (X is an array; y are codes), a price, and whether the estimator is given CSR."""

    X: np.ndarray
    y: np.ndarray
    C: float
    is_sparse: bool

    @property
    def given(self):
        return csr_matrix(self.X) if self.is_sparse else self.X

    @property
    def steepness(self):
        """C times the mean squared length of a row, the constant feature included."""
        return self.C * ((self.X**2).sum() / len(self.X) + 1.0)


def made(seed, k, labels, twists, powers, price, is_sparse):
    """Return extreme data: columns times 10^powers, C = 10^price, and what the twists say."""
    rng = np.random.default_rng(seed)
    n, d = 6 * k, len(powers)
    X = np.round(rng.standard_normal((n, d)), 2)
    y = np.arange(n) % k
    if labels == "separable":
        X[:, 0] += 9.0 * y
    elif labels == "overlapping":
        X += 0.5 * y[:, None]
    if "copied rows" in twists:
        X[n // 2 :] = X[: n - n // 2]
    if "contradictions" in twists:  # a row and its copy have different labels
        X[1::2] = X[::2]
    if "constant column" in twists:
        X[:, -1] = 3.0
    if "empty column" in twists:
        X[:, 0] = 0.0
    X = X * 10.0 ** np.array(powers)
    if "copied column" in twists:
        X = np.column_stack([X, X[:, 0]])
    return Extreme(X, y, 10.0**price, is_sparse)


TWISTS = ("copied rows", "contradictions", "constant column", "empty column", "copied column")
extremes = st.builds(
    made,
    seed=st.integers(0, 99),
    k=st.sampled_from([2, 3]),
    labels=st.sampled_from(["random", "separable", "overlapping"]),
    twists=st.sets(st.sampled_from(TWISTS), max_size=2),
    powers=st.lists(st.sampled_from([-8, -3, 0, 3, 8]), min_size=1, max_size=3),
    price=st.sampled_from([-6, -2, 0, 2, 5, 8]),
    is_sparse=st.booleans(),
)

_rng = np.random.default_rng(0)
_SIX = np.arange(6) % 3
# Data on which Newton systems are singular, or nearly so.
DEGENERATE = {
    "no features": (np.zeros((6, 2)), _SIX),
    "a constant": (np.full((6, 1), 3.0), _SIX),
    "one point, all labels": (np.tile([1.0, -2.0], (6, 1)), _SIX),
    "more features than rows": (_rng.standard_normal((6, 20)), _SIX),
    "features of rank one": (np.outer(np.arange(6.0), [1.0, 2.0, 3.0]), _SIX),
    "copies of a feature, almost": (np.arange(6.0)[:, None] + [0.0, 1e-9, 2e-9], _SIX),
    "a row for a class": (np.eye(4), np.arange(4)),
    "one row of a second class": (_rng.standard_normal((9, 2)), (np.arange(9) == 0).astype(int)),
    "an outlier": (np.vstack([_rng.standard_normal((8, 2)), [[1e9, -1e9]]]), np.arange(9) % 2),
}
