"""copt over a ball, with the value and the gradient written in NumPy as its users write them.

    accelerated     minimize_proximal_gradient(accelerated=True)
    vanilla         minimize_frank_wolfe
    pairwise        minimize_frank_wolfe(variant="pairwise"), from a corner of the l1 ball; no other ball has an oracle

All have copt's own line search; that of Frank-Wolfe lets the value rise by the rounding of single precision, and may
stay as far from the optimum. Each is given a number of iterations, 4, 6, 8, 11, 16, ... until the gap will do; eps is
one over it.
"""

import contextlib
import io
import warnings
from abc import abstractmethod
from typing import Any

import numpy as np

from benchmark_utils.racing import EpsSolver

_WARM_STEPS = 0.25  # eps of four iterations
_LONGEST = 40  # half powers of two: a million iterations


class CoptSolver(EpsSolver):
    """One method of copt; a subclass names its ball."""

    name = "copt"
    requirements = ["pip::copt"]
    leans_on_bound = False
    eps_grid = tuple(1.0 / round(2.0 ** (power / 2)) for power in range(4, _LONGEST + 1))

    @abstractmethod
    def ball(self) -> Any:
        """Return copt's ball."""

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem."""
        self.problem = problem

    def warm_up(self) -> None:
        """Make the first call, which is slower than others."""
        self.run(_WARM_STEPS)

    def run(self, eps: float) -> None:
        """Make as many iterations as eps stands for."""
        n_iter = round(1.0 / min(eps, self.eps_grid[0]))
        # It prints its first guess of a step, and warns that max_iter was the end of it.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            self.W = self._minimised(n_iter).reshape(self.problem.shape)

    def get_result(self) -> dict[str, Any]:
        """Return the weights; there is no intercept."""
        return {"weights": self.W, "intercept": np.zeros(self.W.shape[1])}

    def _minimised(self, n_iter: int) -> np.ndarray:
        from copt import minimize_frank_wolfe, minimize_proximal_gradient

        ball, w = self.ball(), np.zeros(np.prod(self.problem.shape))
        settings = {"jac": True, "tol": 0.0, "max_iter": n_iter}
        if self.variant == "accelerated":
            return minimize_proximal_gradient(self._loss, w, prox=ball.prox, accelerated=True, **settings).x
        if self.variant == "vanilla":
            return minimize_frank_wolfe(self._loss, w, ball.lmo, **settings).x
        steepest = -self._loss(w)[1]
        first = int(np.argmax(np.abs(steepest)))
        sign = np.sign(steepest[first])
        w[first] = sign * ball.alpha

        def oracle(direction: np.ndarray, w: np.ndarray, corners: dict[Any, float]) -> Any:
            # copt puts a corner that was dropped back with weight zero; moving away from it is no move at all.
            for corner in [corner for corner, weight in corners.items() if weight <= 0.0]:
                del corners[corner]
            return ball.lmo_pairwise(direction, w, corners)

        return minimize_frank_wolfe(self._loss, w, oracle, variant="pairwise", x0_rep=(sign, first), **settings).x

    def _loss(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        X, target, loss, l2 = self.problem.X, self.problem.target, self.problem.loss, self.problem.l2
        W = w.reshape(self.problem.shape)
        scores = X @ W
        value = loss.value(scores, target).sum() / len(target) + 0.5 * l2 * (w @ w)
        return value, (X.T @ (loss.slope(scores, target) / len(target)) + l2 * W).ravel()
