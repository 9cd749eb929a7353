"""Names and defaults of the command line.

The rooms know most of these names, but asking them would import Numba; tests hold the copies to the originals.
"""

from typing import Any

__all__ = [
    "APPROXIMATIONS",
    "BENCHES",
    "DEFAULT_SEED",
    "DEFAULT_TEST_SIZE",
    "KERNELS",
    "KERNEL_DEFAULTS",
    "LOSSES",
    "MODELS",
    "MULTICLASS",
    "SOFTMAX_DEFAULTS",
    "SOLVERS",
    "SVM_DEFAULTS",
]

MODELS = ("linear-svc", "kernel-svc", "softmax")
SOLVERS = {
    "linear hinge": ("auto", "block_descent", "walrus", "shark"),
    "linear squared_hinge": ("auto", "newton", "smo", "dual_prox_gradient"),
    "kernel hinge": (
        "auto",
        "block_descent",
        "pair_descent",
        "projected_gradient",
        "frank_wolfe",
        "block_frank_wolfe",
        "pairwise_frank_wolfe",
    ),
    "kernel squared_hinge": ("auto", "smo", "dual_prox_gradient"),
    "sampled kernel": ("auto", "scs", "wolfe", "pegasos"),
    "softmax ridge": (
        "auto",
        "lbfgs",
        "newton",
        "newton_cg",
        "trust_newton",
        "dual_descent",
        "prox_newton",
        "mm_descent",
        "accelerated_gradient",
        "block_prox_gradient",
        "svrg",
    ),
    "softmax": ("auto", "prox_newton", "mm_descent", "accelerated_gradient", "block_prox_gradient", "svrg"),
    "l1 ball": (
        "auto",
        "dual_descent",
        "working_set",
        "accelerated_gradient",
        "primal_dual_bfw",
        "pairwise_frank_wolfe",
        "frank_wolfe",
        "block_frank_wolfe",
        "svrg",
        "scgs",
        "storc",
    ),
    "trace ball": (
        "auto",
        "accelerated_gradient",
        "primal_dual_bfw",
        "frank_wolfe",
        "block_frank_wolfe",
        "svrg",
        "scgs",
        "storc",
    ),
}
LOSSES = ("hinge", "squared_hinge")
BENCHES = ("quick", "walrus", "large-scale-svms", "softmax", "balls", "scs", "peers", "scaling")
MULTICLASS = ("weston_watkins", "crammer_singer", "one_vs_rest")
KERNELS = ("rbf", "linear", "laplacian", "polynomial", "sigmoid")
APPROXIMATIONS = ("auto", "none", "nystroem")
# Filled in by `train` for the models that have them: that one of these was given at all is a mistake with another.
SVM_DEFAULTS: dict[str, Any] = {"loss": "hinge", "multiclass": None, "intercept_scaling": 1.0}
KERNEL_DEFAULTS: dict[str, Any] = {
    "kernel": "rbf",
    "gamma": "scale",
    "degree": 3,
    "coef0": 0.0,
    "cache_size": 1000.0,
    "approximation": "auto",
    "n_components": 500,
}
SOFTMAX_DEFAULTS = {"l1_ratio": 0.0}
DEFAULT_TEST_SIZE = 0.25
DEFAULT_SEED = 0
