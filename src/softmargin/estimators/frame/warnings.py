"""The warnings of the estimators."""

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from softmargin.core.warn import warn_caller
from softmargin.estimators.posing.advice import advice_for, meaning_of
from softmargin.run import Status

__all__ = [
    "InactiveBallWarning",
    "IndefiniteKernelWarning",
    "NotCertifiedWarning",
    "inactive_ball",
    "indefinite_kernel",
    "interrupted_fit",
    "not_certified",
    "warn_of_path",
]


class NotCertifiedWarning(ConvergenceWarning):
    """A fit ended before its certificate met the tolerance; the message states the gap and what to do."""


class IndefiniteKernelWarning(UserWarning):
    """The kernel matrix has a negative eigenvalue: the problem is not convex, and a gap proves nothing."""


class InactiveBallWarning(UserWarning):
    """The solution lies inside the ball: its radius has no effect, and the weights are neither few nor of low rank."""


def inactive_ball(norm: str, size: float, problem: Any) -> InactiveBallWarning:
    """Return the warning: how large the weights are, and what to do."""
    advice = f"Choose a radius below {size:.4g}, or a model without a ball."
    if size == 0.0:
        advice = "The weights are zero at every radius: look for features that tell something of y."
    return InactiveBallWarning(
        f"the solution lies inside the ball: the {norm} norm of its weights is {size:.4g}, the radius "
        f"{problem.ball.radius:.4g}. The radius has no effect from {size:.4g} up, and only l2={problem.l2:.3g} "
        f"regularises. {advice}"
    )


def not_certified(result: Any, tol: float, problem: Any = None) -> str:
    """Return the sentences: how far a run came, and what would help it."""
    return (
        f"stopped after {_passes(result.n_iter)} with {_amount(result.certificate)}, above tol {tol:.1e}. "
        f"{meaning_of(result, problem)} {advice_for(result, tol, problem)}"
    ).rstrip()


def _passes(n: int) -> str:
    return "1 pass" if n == 1 else f"{n} passes"


def _amount(certificate: Any) -> str:
    is_gap = certificate.kind != "stationarity"
    amount = f"{certificate.gap:.1e} = {certificate.residual:.1e} * primal" if is_gap else f"{certificate.residual:.1e}"
    return f"{certificate.kind} {amount}"


def interrupted_fit(estimator: Any) -> str:
    """Return the sentences: what is left of a fit that Ctrl-C has ended, and how to go on."""
    but = ", without probabilities" if getattr(estimator, "probability", None) not in (None, False) else ""
    further = "With warm_start=True, fit goes on from it." if "warm_start" in estimator.get_params() else ""
    return (
        f"after {_passes(estimator.n_iter_)}, with {_amount(estimator.certificate_)} (tol {estimator.tol:.1e}). The "
        f"point reached is kept as a model to predict by{but}. {further}"
    ).rstrip()


def warn_of_path(results: list[Any], tol: float) -> None:
    """Warn once if points of a path were not certified, with advice for the worst."""
    missed = [result for result in results if result.status is not Status.CONVERGED]
    if missed:
        worst = max(missed, key=lambda result: result.certificate.residual)
        message = f"{len(missed)} of {len(results)} fits along the path were not certified; the worst of them "
        warn_caller(message + not_certified(worst, tol), NotCertifiedWarning)


def indefinite_kernel(kernel: Any, eigenvalue: float) -> IndefiniteKernelWarning:
    """Return the warning: what a proven negative eigenvalue means, and what to do."""
    return IndefiniteKernelWarning(
        f"the {kernel.name} kernel is not positive semi-definite on these samples: an eigenvalue is at most "
        f"{eigenvalue:.2g}. The objective is then not convex, and a certificate is no proof. Use an rbf, laplacian "
        "or linear kernel, a polynomial one with coef0 >= 0, or add a constant to the diagonal of a precomputed matrix."
    )
