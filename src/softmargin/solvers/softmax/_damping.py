"""How much is added to a Hessian that is of no use where the solver stands.

Far from the optimum F is all but flat along some directions, and a Newton step is far too long; then a share of the
largest diagonal that the Hessian can have is added to it, until steps are taken whole again.
"""

__all__ = ["next_damping"]

LEAST, WORSE = 1e-4, 10.0  # the first share, and the factor from one to the next


def next_damping(damping: float, *, helped: bool) -> float:
    """Return the next share: less where the last direction helped, else more, and at most all of the diagonal."""
    if helped:
        return damping / WORSE if damping > LEAST else 0.0
    return min(max(LEAST, WORSE * damping), 1.0)
