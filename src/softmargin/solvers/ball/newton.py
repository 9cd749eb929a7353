"""Newton's method for one column of weights in a trace ball: its trace norm is the Euclidean one, |w| <= radius.

    F(w) = min over b of sum_i p_i f(s_i + b, t_i) + l2 / 2 |w|^2 ,    s = X w ,    |w| <= radius
    v    = argmin of the quadratic model of F at w over |v| <= radius :   (H + theta) v = H w - g ,   theta >= 0
    w   <- w + t (v - w) ,    t in [0, 1] by a line search: the ball is convex

g and H are the gradient and the Hessian of F, H = X' (diag h - h h' / sum h) X + l2 with h_i = p_i f''. Where the model
is least inside the ball, theta = 0; else |v| = radius, and theta is the root of the secular equation

    1 / |v(theta)| = 1 / radius ,      |v(theta)|^2 = sum_j c_j^2 / (lambda_j + theta)^2

with c and lambda in the eigenvectors of H: nearly a line in theta, on which Newton's method rises to the root. Where X
has fewer rows than columns, w lies in the span of the rows (common.rotation): H has no more rows than X.

Source: More and Sorensen (1983), for the model; maths: ball, section 4.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import eigh

from softmargin.core.deadline import check_time
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.core.threads import wide_blas
from softmargin.matrices.operator import adjoint_product
from softmargin.problems.constrained import BallPoint
from softmargin.sets import TraceBall
from softmargin.solvers.ball._class_hessian import class_hessian
from softmargin.solvers.ball._iterate import BallIterate, BallSolver
from softmargin.solvers.ball._objective import checked_ball
from softmargin.solvers.common.rotation import Rotation, find_rotation

__all__ = ["BallNewton", "BallNewtonState", "BallNewtonTuning", "secular_root", "step_work"]

LEAST = 1e-14  # share of the largest number of a model below which an eigenvalue is rounding
EIGH = 10.0  # multiplications of all eigenvectors, in cubes of the size; LAPACK's count is about 9


class BallNewtonTuning(NamedTuple):
    """Constants of the secular equation."""

    exact: float = 1e-12  # share of the radius to which |v| meets it; about rounding
    max_steps: int = 50  # of Newton's method, which takes fewer than ten; a guard


_TUNING = BallNewtonTuning()


@dataclass(kw_only=True)
class BallNewtonState(BallIterate):
    """The point; and the coordinates of the weights, as scratch."""

    rotation: Rotation | None = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class BallNewton(BallSolver):
    """Newton's method over a Euclidean ball; it has no settings. One step is one quadratic model."""

    tuning: BallNewtonTuning = _TUNING

    state_type: ClassVar = BallNewtonState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallNewtonState:
        """Begin at zero, or at ``init``."""
        checked_ball(problem, "BallNewton", "BallGradient", TraceBall)
        if problem.shape[1] != 1:
            raise IncompatibleError(
                f"BallNewton needs one column of weights: two classes, or one target; found {problem.shape[1]}. Use "
                "LowRankGradient."
            )
        return BallNewtonState.at(problem, init)

    def step(self, problem: ConstrainedProblem, state: BallNewtonState) -> BallNewtonState:
        """Minimise a model over the ball, and F on the way to its minimum."""
        ball = checked_ball(problem, "BallNewton", "BallGradient", TraceBall)
        rotation = state.rotation = state.rotation or find_rotation(problem.X)
        A, l2 = rotation.A, problem.l2
        check_time(step_work(*A.shape))
        here = state.scores + state.intercept
        h = problem.weights * problem.loss.bend(here, problem.target)[:, 0]
        H = class_hessian(A, h, is_centred=problem.fit_intercept)
        # The part of w that X does not see costs as much as the other, and only that.
        u = rotation.inward(state.W)[:, 0]
        g = adjoint_product(A, problem.slopes(state.scores, state.intercept))[:, 0] + l2 * u
        with wide_blas(EIGH * len(H) ** 3.0):
            values, Q = eigh(H, check_finite=False, overwrite_a=True)
        values = np.maximum(values, 0.0) + l2
        # Without curvature, theta is |g| / radius.
        steepest = float(values.max(initial=0.0))  # of none, where X has nothing but zeros and more columns than rows
        scale = max(steepest, float(np.linalg.norm(g)) / ball.radius, np.finfo(float).tiny / LEAST)
        values = np.maximum(values, LEAST * scale)
        c = values * (Q.T @ u) - Q.T @ g
        theta = secular_root(values, c, ball.radius, self.tuning)
        v = rotation.outward((Q @ (c / (values + theta)))[:, None])
        state.approach(problem, v)
        return state


def secular_root(values: Array, c: Array, radius: float, tuning: BallNewtonTuning = _TUNING) -> float:
    """Return the theta >= 0 with sum_j c_j^2 / (values_j + theta)^2 = radius^2; 0 where the sum is less at 0."""
    theta = 0.0
    for _ in range(tuning.max_steps):
        v = c / (values + theta)
        size = float(np.linalg.norm(v))
        if size <= radius * (1.0 + tuning.exact):
            break
        # Newton's step for 1 / |v| - 1 / radius, a concave function: it does not go beyond the root.
        theta += (size / radius - 1.0) * size**2 / float(v @ (v / (values + theta)))
    return theta


def step_work(n: int, d: int) -> float:
    """Count the multiplications of a step: those of H, and of its eigenvectors."""
    r = float(min(n, d))
    return n * r**2 + EIGH * r**3
