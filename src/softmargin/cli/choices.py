"""Names and defaults of the command line; those of solvers are in ``solvers.names``.

The packages that define these names import NumPy or Numba; tests compare these copies with the originals.
"""

from typing import Any

MODELS = ("linear-svc", "kernel-svc", "softmax")
LOSSES = ("hinge", "squared_hinge")
BENCHES = ("quick", "walrus", "large-scale-svms", "softmax", "balls", "scs", "peers", "scaling")
MULTICLASS = ("weston_watkins", "crammer_singer", "one_vs_rest")
KERNELS = ("rbf", "linear", "laplacian", "polynomial", "sigmoid")
APPROXIMATIONS = ("auto", "none", "nystroem")
# Filled in by `train` for the models that have them: with another model, giving one of these is an error.
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
