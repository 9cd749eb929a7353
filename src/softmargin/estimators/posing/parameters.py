"""What the parameters of all estimators may be: one table by name, read at the start of every fit.

Where an estimator means something else by a name, it says so in its own ``_allowed``. What only the data can tell
(labels of ``class_weight``, the solvers of a kind of problem) is checked where they are known, and a penalty by
``penalties.checked``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from softmargin.core.parameters import (
    NONE,
    NOT_NEGATIVE,
    POSITIVE,
    RANDOM_STATE,
    Given,
    Number,
    Numbers,
    OneOf,
    Truth,
    Whole,
)
from softmargin.core.threads import N_JOBS
from softmargin.estimators.posing.auto import SOLVER
from softmargin.estimators.posing.fit import CLASS_WEIGHT
from softmargin.estimators.posing.kernels import APPROXIMATIONS
from softmargin.estimators.posing.svm import HINGES, INTERCEPT_SCALING, MULTICLASS
from softmargin.kernels import GAMMA, KERNEL
from softmargin.models.probabilities import METHODS
from softmargin.run.asked import WATCHERS
from softmargin.run.budget import MAX_ITER, MAX_SECONDS, TOL

__all__ = ["PARAMETERS", "QUESTIONS"]

_MOST_POINTS = 100_000  # of a grid


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _is_splitter(value: Any) -> bool:
    if isinstance(value, type | str | bytes | Mapping | np.ndarray):
        return False
    return hasattr(value, "split") or isinstance(value, Iterable)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, tuple | list | np.ndarray) and len(value) > 0


def _is_shape(value: Any) -> bool:
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    return is_pair and all(isinstance(side, int | np.integer) and side > 0 for side in value)


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "C": (POSITIVE,),
    "Cs": (Whole(1, _MOST_POINTS), Numbers(above=0.0, is_finite=False)),
    "l1_ratio": (Number(least=0.0, most=1.0),),
    "l1_ratios": (Numbers(least=0.0, most=1.0),),
    "eps": (Number(above=0.0, below=1.0),),
    "cv": (
        NONE,
        Whole(2),
        Given("a splitter, or an iterable of pairs of rows (train, test)", _is_splitter),
    ),
    "scoring": (
        NONE,
        Given("a name of scikit-learn's", lambda value: isinstance(value, str)),
        Given("a function of estimator, X and y", _is_function),
    ),
    "refit": (Truth(),),
    "early_end": (Truth(),),
    "coarse_tol": TOL,
    "kernel": KERNEL,
    "gamma": GAMMA,
    "gammas": (Given("a sequence of numbers > 0, 'scale' and 'auto'", _is_sequence),),
    "degree": (Whole(1),),
    "coef0": (Number(),),
    "cache_size": (POSITIVE, OneOf("auto")),
    "device": (NONE, Given("the name of a device, such as 'cuda'", lambda value: isinstance(value, str))),
    "approximation": (NONE, OneOf(*[name for name in APPROXIMATIONS if name is not None])),
    "n_components": (Whole(1),),
    "probability": (NONE, Truth(), OneOf(*METHODS)),
    "radius": (POSITIVE,),
    "shape": (Given("two whole numbers above zero (rows, columns)", _is_shape),),
    "radii": (Whole(1, _MOST_POINTS), Numbers(above=0.0)),
    "l2": (NOT_NEGATIVE,),
    "multiclass": (OneOf(*MULTICLASS),),
    "decision_function_shape": (OneOf("ovr", "ovo"),),
    "loss": (OneOf(*HINGES),),
    "fit_intercept": (Truth(),),
    "intercept_scaling": (INTERCEPT_SCALING,),
    "solver": SOLVER,
    "tol": TOL,
    "max_iter": MAX_ITER,
    "max_seconds": (NONE, *MAX_SECONDS),
    "class_weight": CLASS_WEIGHT,
    "warm_start": (Truth(),),
    "sparse": (Truth(),),
    "random_state": RANDOM_STATE,
    "n_jobs": N_JOBS,
    "verbose": (Whole(0), Truth()),
}
# What ``certify`` may be asked: the model says what is left out.
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "C": (NONE, Number(above=0.0, is_finite=False)),
    "multiclass": (NONE, *PARAMETERS["multiclass"]),
    "loss": (NONE, *PARAMETERS["loss"]),
    "bound_tol": TOL,
    "max_seconds": MAX_SECONDS,
    "watchers": WATCHERS,
}
