"""The protocols of pieces: what a penalty, a loss and a set of weights offer to the problems made of them.

n is the number of samples, d of features, k of columns of the weights.
"""

from typing import Any, ClassVar, Protocol, runtime_checkable

from numpy.typing import NDArray

from softmargin.core.rounding import Rounded

__all__ = ["Array", "Atom", "ConvexSet", "EntrywiseLoss", "Penalty"]

Array = NDArray[Any]


@runtime_checkable
class Penalty(Protocol):
    """A penalty that is separable by features: g(W) = sum_j g(W_j), with W_j (k,) the weights of feature j.

    It is a ``NamedTuple`` of numbers, compiled by ``@compiled_struct("prox_row")``. W, V and the results are (d, k).
    """

    is_convex: bool
    has_bound: bool  # the conjugate is finite near zero: then a duality gap can be proven, else only stationarity
    is_entrywise: bool  # g(W_j) is a sum over the entries of W_j; ``penalties.checked`` adds it to a class without it

    def value(self, W: Array) -> float:
        """Return g(W); inf where W is not allowed."""

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t), row by row; t > 0 is a number or (d, 1)."""

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Do the same in place for one row, row[first : first + k] of flat memory; compiled."""

    def conjugate(self, V: Array) -> float:
        """Return sup over W of <V, W> - g(W); inf where it is unbounded."""

    def reach(self, V: Array) -> float:
        """Return the largest s in [0, 1] at which the conjugate of s V is finite."""

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row V_j to the subdifferential of g at W_j; shape (d,)."""


class EntrywiseLoss(Protocol):
    """A loss f(s, t) of a score and its target, entry by entry; all arguments are arrays, or broadcast to one shape.

    A loss may offer ``compiled``, a struct for compiled loops as in ``losses.compiled_entries``; without it, solvers
    use the methods below, and dual coordinate ascent refuses the loss. A loss of whole rows (``losses.joint``) returns
    values (n, 1), and has ``bend_along(scores, target, move)`` in the place of ``bend``.
    """

    is_joint: ClassVar[bool]  # is it a loss of rows?

    @property
    def curvature(self) -> float:
        """A bound on the second derivative; inf where the loss is not smooth."""

    @property
    def dual_curvature(self) -> float:
        """A bound on the second derivative of the conjugate, inf where there is none; only ``steps="paper"`` asks."""

    @property
    def steepest(self) -> float:
        """A bound on the size of the slope, inf where there is none; the slopes of a margin loss are <= 0 in t s."""

    @property
    def is_margin(self) -> bool:
        """Whether targets are -1 and +1."""

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds."""

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative; any value where it jumps."""

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*(u, t) = sup over s of u s - f(s, t); inf outside its domain. The least loss is 0: f*(0, t) = 0."""

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return argmax over v of s v - f*(v, t) - |v - u|^2 / (2 r); only primal-dual methods need it."""


class Atom(Protocol):
    """A corner of a convex set: a matrix (d, k) that is cheap to multiply and to add."""

    def toarray(self) -> Array:
        """Return it as an array."""

    def times(self, X: Any) -> Array:
        """Return X W."""

    def inner(self, G: Array) -> float:
        """Return <W, G>."""

    def sqnorm(self) -> float:
        """Return |W|^2."""

    def add_to(self, W: Array, step: float) -> None:
        """Add a multiple of it to an array, in place."""


@runtime_checkable
class ConvexSet(Protocol):
    """A closed, bounded, convex set of weights (d, k)."""

    def project(self, V: Array) -> Array:
        """Return the nearest point."""

    def lmo(self, G: Array) -> Atom:
        """Return a corner that minimises <W, G> over the set (linear minimisation oracle)."""

    def least(self, Z: Array, l2: float) -> float:
        """Return the minimum of l2 / 2 |W|^2 + <Z, W> over the set."""

    def size(self, W: Any) -> float:
        """Return how much of the set W uses: at most 1 inside it, 1 on its boundary."""

    def excess(self, W: Any) -> float:
        """Return by which share, at most, W is outside the set: a scaled W is inside; inf beyond rounding."""

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value as ``least`` does, where column c of Z is within errors_c of an exact one; (k,)."""

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
