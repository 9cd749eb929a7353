"""The one warning of the estimators."""

from typing import Any

from sklearn.exceptions import ConvergenceWarning

__all__ = ["NotCertifiedWarning", "not_certified"]


class NotCertifiedWarning(ConvergenceWarning):
    """A fit ended before its certificate met the tolerance; the message states the gap and what to do."""


def not_certified(result: Any, tol: float) -> str:
    """Say how far a run came and what to do."""
    certificate = result.certificate
    return (
        f"stopped after {result.n_iter} passes with {certificate.kind} {certificate.gap:.1e} "
        f"= {certificate.residual:.1e} * primal, above tol {tol:.1e}. {result.status.sentence}"
    )
