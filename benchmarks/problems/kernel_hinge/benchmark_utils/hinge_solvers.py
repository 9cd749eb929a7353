"""Solvers of the kernel hinge SVM: ours, evaluated after every step outside their time, and LIBSVM with its bias."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmark_utils.ours import SoftmarginSolver
from benchmark_utils.racing import EpsSolver, GapReached, Lap
from softmargin.matrices.gram import Gram
from softmargin.problems import BiasPoint, HingeSVM, KernelHinge, KernelMulticlassSVM
from softmargin.solvers.sampled_kernel.conjugate_subgradient import ConjugateSubgradient
from softmargin.solvers.sampled_kernel.pegasos import Pegasos
from softmargin.solvers.sampled_kernel.wolfe import Wolfe

METHODS = {
    "scs": ConjugateSubgradient(),
    "scs-paper": ConjugateSubgradient(geometry="euclidean", search="wolfe", reset=False, settle=False, test_size=None),
    "wolfe": Wolfe(),
    "wolfe-paper": Wolfe("euclidean", "wolfe"),
    "pegasos": Pegasos(),
}
_FEW = 40  # rows that are enough to compile everything
_WARM_STEPS = 3


class NearBound(GapReached):
    """End a curve near the proven bound alone: a stochastic solver may pause for a while and then continue."""

    def check_convergence(self, objective_list: list[dict[str, Any]]) -> tuple[bool, float]:
        """Return (stop, progress in [0, 1])."""
        return super().check_convergence(objective_list[-1:])


def joint_of(problem: KernelHinge) -> KernelMulticlassSVM:
    """Return the joint SVM of two classes that is the same problem: f = 2 lam times its objective."""
    codes = (problem.y > 0.0).astype(np.int32)
    price = 1.0 / (2.0 * problem.lam * problem.n)
    return KernelMulticlassSVM(Gram(problem.kernel, problem.X), codes, C=price, n_classes=2)


class LibsvmSolver(EpsSolver):
    """LIBSVM on all rows, C = 1 / (lam n). Its bias is free: f with it may be below the least f without.

    In a race its dual variables prove the gap of its own problem.
    """

    leans_on_bound = False
    stopping_criterion = GapReached(gap=1e-5)

    def set_objective(self, problem: KernelHinge, C: float) -> None:
        """Keep the problem."""
        self.problem = problem
        self.price = 1.0 / (problem.lam * problem.n)

    def laps(self, tols: Sequence[float], *, objective: Any, **race: Any) -> Iterator[Lap]:
        """Evaluate by the problem with a bias."""
        return super().laps(tols, objective=_WithBias(self.problem, self.price), **race)


class _WithBias:
    """The objective of LIBSVM's own problem."""

    def __init__(self, problem: KernelHinge, C: float) -> None:
        self.problem = HingeSVM(Gram(problem.kernel, problem.X), problem.y, C=C)

    def evaluate_result(self, samples: np.ndarray, alpha: np.ndarray, intercept: float) -> dict[str, float]:
        """Evaluate dual variables and the bias."""
        whole = np.zeros(self.problem.gram.n)
        whole[samples] = np.abs(alpha)
        return {"value": self.problem.certificate(BiasPoint(whole, intercept)).residual}


class StepSolver(SoftmarginSolver):
    """One solver of the library; a subclass says which."""

    sampling_strategy = "callback"
    stopping_criterion = NearBound(gap=1e-5)

    def stated(self, problem: KernelHinge) -> Any:
        """Return the problem as the solver needs it, with no kernel value computed yet."""
        return problem

    def expansion(self, problem: Any, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return samples and their coefficients."""
        point = self.method().point(problem, state)
        return point.samples, point.alpha

    def warm_up(self) -> None:
        """Compile on a few rows."""
        problem = self.problem
        few = np.concatenate([np.flatnonzero(problem.y == sign)[:_FEW] for sign in (-1.0, 1.0)])
        steps = iter(range(_WARM_STEPS))
        self._go(
            KernelHinge(problem.kernel, problem.X[few], problem.y[few], lam=problem.lam), lambda: next(steps, None)
        )

    def get_next(self, step: int) -> int:
        """Look again after a third more steps."""
        return step + max(step // 3, 1)

    def run(self, callback: Callable[[], bool]) -> None:
        """Step until the curve is complete."""
        self._go(self.problem, callback)

    def _go(self, problem: KernelHinge, callback: Callable[[], Any]) -> None:
        method, self.work = self.method(), self.stated(problem)
        self.state = method.start(self.work, None, np.random.default_rng(0))
        while callback() not in (None, False):
            self.state = method.step(self.work, self.state)

    def get_result(self) -> dict[str, Any]:
        """Return the expansion."""
        samples, alpha = self.expansion(self.work, self.state)
        return {"samples": samples, "alpha": alpha, "intercept": 0.0}
