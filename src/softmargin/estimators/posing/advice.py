"""What would help a fit that ended without its certificate, by what the run and the data show."""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.run import Result, Status
from softmargin.solvers.hand_over import distance_of, steps_left

__all__ = ["AdviceTuning", "advice_for", "meaning_of"]


class AdviceTuning(NamedTuple):
    """What counts as near, and as badly scaled; by hand."""

    near: float = 0.5  # a residual below which its fall so far tells what is to come
    large: float = 10.0  # a feature beyond it has hundreds of times the weight of one near 1 in |x|^2
    ratio: float = 100.0  # of the largest magnitudes of two features


TUNING = AdviceTuning()
# Ends that further work would change.
_UNFINISHED = (Status.MAX_ITER, Status.MAX_SECONDS, Status.STOPPED, Status.INTERRUPTED)


def advice_for(result: Result, tol: float, problem: Any = None) -> str:
    """Return sentences: which tolerance was met, how far it is to the one asked for, which scales are in the way."""
    if result.status not in _UNFINISHED:
        return ""
    found = [_distance(result, tol), None if problem is None else _scales(problem)]
    return " ".join(sentence for sentence in found if sentence)


def meaning_of(result: Result, problem: Any = None) -> str:
    """Return the sentence of the status; of a failure by a kernel that is none, one that names it."""
    gram = getattr(problem, "gram", None)
    if result.status is not Status.FAILED or gram is None or not (eigenvalue := gram.negative_eigenvalue()) < 0.0:
        return result.status.sentence
    return (
        f"The objective is not bounded, or not a finite number: the {gram.kernel.name} kernel is not positive "
        f"semi-definite (an eigenvalue is at most {eigenvalue:.2g}). Use another kernel or other parameters of it; "
        "dual variables are bounded with loss='hinge', and not with the squared hinge."
    )


def _distance(result: Result, tol: float) -> str:
    """Tell how many passes are missing at the rate of the last certificates, and which tol was met."""
    residual = result.certificate.residual
    if not 0.0 < residual <= TUNING.near:
        return ""
    met = f"The point returned meets tol={_rounded_up(residual):g}."
    rows = [row for row in result.trace if row.solver == result.trace[-1].solver]
    left = math.inf
    if len(rows) > 1 and rows[-1].iteration > rows[-2].iteration:
        before, now = (distance_of(row.certificate) for row in rows[-2:])
        left = steps_left(before, now, rows[-2].iteration, rows[-1].iteration, tol)
    rate = f"At the last rate of {rows[-1].solver} about {left:.2g} passes more would meet tol={tol:g}."
    return f"{met} {rate}" if 0.0 < left < math.inf else met


def _rounded_up(value: float) -> float:
    """Return the least number of one digit that is not below a positive one."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.ceil(value / power * (1.0 - 1e-12)) * power:.1g}")


def _scales(problem: Any, tuning: AdviceTuning = TUNING) -> str | None:
    """Tell where features have other scales than 1, or than each other; they are those that the solver sees."""
    part = problem.parts[0] if hasattr(problem, "parts") else problem
    gram = getattr(part, "gram", None)
    X = getattr(part, "X", None) if gram is None else None if gram.is_given else gram.X
    if X is None or 0 in X.shape:
        return None
    sizes = np.maximum(_columns(X, "max"), -_columns(X, "min"))
    sizes = sizes[sizes > 0.0]
    if len(sizes) == 0 or not (sizes.max() > tuning.large or sizes.max() > tuning.ratio * sizes.min()):
        return None
    return (
        f"The largest magnitudes of the features reach from {sizes.min():.2g} to {sizes.max():.2g}: scale them to "
        "values near 1 (StandardScaler, MaxAbsScaler), which is another problem, and an easier one."
    )


def _columns(X: Any, verb: str) -> Any:
    found = getattr(X, verb)(axis=0)
    return np.asarray(found if isinstance(X, np.ndarray) else found.toarray()).ravel()
