"""Names and defaults of the command line; those of solvers are in ``solvers.names``.

The packages that define these names import NumPy or Numba; tests compare these copies with the originals.
"""

from typing import Any

BALLS = ("l1-ball", "trace-ball")
REGRESSORS = ("l1-ball-regressor", "trace-ball-regressor")
SVMS = ("linear-svc", "kernel-svc")
PATH_MODELS = ("softmax", *SVMS, *BALLS, *REGRESSORS)  # the default first
MODELS = (*SVMS, "softmax", *BALLS, *REGRESSORS)
LOSSES = ("hinge", "squared_hinge")
LOGISTIC = ("logistic",)  # of other libraries' one-vs-rest models, which `certify` measures
BALL_LOSSES = ("smooth_hinge", "squared_hinge", "logistic", "multinomial", "crammer_singer", "weston_watkins")
BENCHES = ("quick", "walrus", "large-scale-svms", "softmax", "balls", "scs", "peers", "migration", "hard", "scaling")
MULTICLASS = ("weston_watkins", "crammer_singer", "one_vs_rest", "one_vs_one")
KERNELS = ("rbf", "linear", "laplacian", "polynomial", "sigmoid")
NORMALIZE = ("none", "rows", "maxabs", "standard", "quantile")
EXPORTS = ("onnx", "json", "liblinear", "libsvm")
MISSING = ("error", "mean", "drop")
PROBABILITIES = ("sigmoid", "temperature", "isotonic")
APPROXIMATIONS = ("auto", "none", "nystroem")
# Filled in by `train` for the models that have them: with another model, giving one of these is an error.
SVM_DEFAULTS: dict[str, Any] = {
    "multiclass": None,
    "intercept_scaling": 1.0,
    "free_intercept": False,
    "penalized_intercept": False,
    "probabilities": None,
}
PRICE_DEFAULTS = {"C": 1.0}
BALL_DEFAULTS = {"radius": 1.0, "l2": 1e-4}
POINTS = 10  # of a grid
FOLDS = 5  # of a search
# What `path` and --search vary: along a row of a grid, and from row to row.
SEARCHED = {
    "softmax": ("C", "l1_ratio"),
    "linear-svc": ("C",),
    "kernel-svc": ("C", "gamma"),
    **dict.fromkeys((*BALLS, *REGRESSORS), ("radius",)),
}
KERNEL_DEFAULTS: dict[str, Any] = {
    "kernel": "rbf",
    "gamma": "scale",
    "degree": 3,
    "coef0": 0.0,
    "cache_size": 1000.0,
    "approximation": "auto",
    "n_components": 500,
}
SOFTMAX_DEFAULTS: dict[str, Any] = {"l1_ratio": 0.0, "penalty": None, "pinned": None}
# Each with its numbers in their order: those left out have defaults.
PENALTIES = {
    "l1": "STRENGTH",
    "l2": "STRENGTH",
    "elastic_net": "L1,L2",
    "group": "STRENGTH",
    "sparse_group": "GROUP,L1,L2",
    "nonnegative": "L1,L2",
    "box": "LOW,HIGH,L1,L2",
    "mcp": "STRENGTH,GAMMA",
    "scad": "STRENGTH,A",
    "l0": "STRENGTH",
    "group_mcp": "STRENGTH,GAMMA",
    "group_scad": "STRENGTH,A",
    "group_l0": "STRENGTH",
}
DEFAULT_SEED = 0
