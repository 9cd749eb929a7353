"""The constants of proximal Newton, and where a run of it stands."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.solvers.softmax.quadratic_model.by_samples import AndersonTuning
from softmargin.solvers.softmax.quadratic_model.dense import DenseTuning
from softmargin.solvers.softmax.quadratic_model.factored import FactoredTuning
from softmargin.solvers.softmax.quadratic_model.samples import SampleTuning

__all__ = ["ProxNewtonState", "ProxNewtonTuning"]

Array = NDArray[Any]


class ProxNewtonTuning(NamedTuple):
    """Constants of proximal Newton."""

    # Rows, or as many entries as they have, in the smallest working set; by hand (maths: softmax, section 10: 200)
    first_set: int = 100
    growth: int = 2  # working set over the nonzero blocks, at most; maths: softmax, section 10
    many: float = 2.0  # entries per tile of their rows above which descent goes by rows; by hand
    first_damping: float = 0.05  # by hand
    least_damping: float = 1e-6  # below, there is none; by hand
    risen_damping: float = 1e-3  # where it rises from nothing; by hand
    seen: float = 0.5  # share of the curvature along D, below which samples are too few: F need not fall at all
    fall: float = 3.0  # divides the damping after a good model; by hand
    rise: float = 6.0  # multiplies it after a bad one; by hand
    good: float = 0.75  # fall of F over the predicted one above which a model is good; by hand
    bad: float = 0.25  # the same below which it is bad; by hand
    flat: float = 1.2  # the same above which models get a share of H: below 2 (1 - 1 / e) = 1.26; by hand
    still_flat: float = 0.8  # the same above which they keep it; by hand
    share: float = 0.6  # of H; by hand, a test shows that it saves steps
    least_exact: float = 0.1  # change of the last pass over a model, as a share of the first; by hand
    most_exact: float = 1e-4  # the same after models that predicted well; by hand
    enough: float = 0.01  # share of the predicted fall that a step must bring; by hand
    floor: float = 1e-6  # share of the largest possible curvature that a block has at least; by hand
    max_halvings: int = 30  # of a step; by hand
    max_passes: int = 400  # over one model, where models are good and passes converge slowly; by hand
    # Factor on curvatures where the penalty is not convex: steps below 1 / L, maths: softmax, section 10
    concave_stretch: float = 1.1
    samples: SampleTuning = SampleTuning()
    anderson: AndersonTuning = AndersonTuning()
    dense: DenseTuning = DenseTuning()
    factored: FactoredTuning = FactoredTuning()


@dataclass
class ProxNewtonState:
    """Where the descent stands: arrays and plain numbers for a checkpoint, and scratch."""

    W: Array  # ((d + 1) * k,)
    scores: Array  # (n * k,)
    probabilities: Array  # (n * k,)
    G: Array  # ((d + 1) * k,)
    lipschitz: Array  # (d + 1,) bound on the second derivative by an entry
    width: int  # entries in a block
    loss: float
    penalty: float
    damping: float
    accuracy: float
    max_passes: int
    seed: int
    more: float = 1.0  # times as many samples as usual
    share: float = 1.0  # of the Hessian that models have
    n_steps: int = 0
    passes: float = 0.0  # of loops over all of X and W, in whose time models were minimised
    dual: Array = field(default_factory=lambda: np.zeros(0))  # (n * k,) q of the last model, where that was solved well
    residual: float = math.inf  # about that at the last step's end
    losses: Any = field(init=False, repr=False, default=None)  # scratch from here on
    layout: Any = field(init=False, repr=False, default=None)
    move: Array = field(init=False, repr=False)  # (n * k,) scores of D
    trial: Array = field(init=False, repr=False)  # (n * k,) scores at the end of D
    trial_probabilities: Array = field(init=False, repr=False)  # (n * k,) at these

    fixed: ClassVar[tuple[str, ...]] = ("width",)
    grows: ClassVar[dict[str, tuple[str, int]]] = {"dual": ("size", 0)}

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.move, self.trial, self.trial_probabilities = (zeros(len(self.scores)) for _ in range(3))
