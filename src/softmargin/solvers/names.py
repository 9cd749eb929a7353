"""The solvers that users may ask for by name, one table per kind of problem (``problem.kind``).

It imports nothing, so that ``softmargin --help`` needs neither NumPy nor Numba, and a fit loads only the solver that it
runs: classes are named here, and imported by ``softmargin.solvers`` when they are first used.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["SAMPLING", "SOLVERS", "SolverName", "choices"]


class SolverName(NamedTuple):
    """What a name stands for."""

    home: str  # a class of softmargin.solvers
    settings: Mapping[str, Any] = MappingProxyType({})


_PROGRAM = {"qp": SolverName("QuadraticProgram")}  # needs the extra "bench"
_ANY_PENALTY = {
    "prox_newton": SolverName("ProxNewton"),
    "mm_descent": SolverName("MMDescent"),
    "accelerated_gradient": SolverName("AcceleratedGradient"),
    "block_prox_gradient": SolverName("BlockProxGradient"),
    "svrg": SolverName("Svrg"),
}
_ANY_BALL = {
    "frank_wolfe": SolverName("BallFrankWolfe"),
    "block_frank_wolfe": SolverName("BallBlockFrankWolfe"),
    "stochastic_frank_wolfe": SolverName("BallStochasticFrankWolfe"),
    "svrg": SolverName("BallSvrg"),
    "scgs": SolverName("Scgs"),
    "storc": SolverName("Storc"),
    "primal_dual": SolverName("BallPrimalDual"),
}
_NOT_SMOOTH = {"primal_dual": _ANY_BALL["primal_dual"]}
# Algorithm 1 of paper 000 as it stands there.
_PLAIN = {"accelerated": False, "restart": False, "projection": "bisection", "centred": False}
_DUAL_SQUARED = {
    "smo": SolverName("Smo"),
    "dual_prox_gradient": SolverName("DualProxGradient"),
    "plain_prox_gradient": SolverName("DualProxGradient", _PLAIN),
    **_PROGRAM,
}
SAMPLING = "sampled kernel"  # the kind of problem whose solvers look at samples
# "auto" is the first name of a kind, unless estimators.posing.fit has a rule for the kind.
SOLVERS: dict[str, dict[str, SolverName]] = {
    "linear hinge": {
        "block_descent": SolverName("DualBlockDescent"),
        "walrus": SolverName("DualBlockDescent", {"block": "sort", "working_set": False}),
        "shark": SolverName("DualBlockDescent", {"block": "greedy", "working_set": False}),
        "gram_descent": SolverName("GramDescent"),
        "interior_point": SolverName("InteriorPoint"),
        "smoothed_newton": SolverName("SmoothedNewton"),
        "smoothed_interior_point": SolverName("SmoothedInteriorPoint"),
        "augmented_lagrangian": SolverName("AugmentedLagrangian"),
        **_PROGRAM,
    },
    "linear squared_hinge": {
        "newton": SolverName("PrimalNewton"),
        "dual_descent": SolverName("SquaredHingeDescent"),
        **_DUAL_SQUARED,
    },
    "kernel hinge": {
        "block_descent": SolverName("KernelBlockDescent"),
        "pair_descent": SolverName("KernelPairDescent"),
        "splitting": SolverName("Splitting"),
        "projected_gradient": SolverName("ProjectedGradient"),
        "frank_wolfe": SolverName("FrankWolfe"),
        "frank_wolfe_oblivious": SolverName("FrankWolfe", {"step_rule": "oblivious"}),
        "block_frank_wolfe": SolverName("BlockFrankWolfe"),
        # Algorithm 3 of paper 000, which draws its rows, with either of its steps.
        "block_frank_wolfe_optimal": SolverName("BlockFrankWolfe", {"order": "uniform"}),
        "block_frank_wolfe_oblivious": SolverName("BlockFrankWolfe", {"step_rule": "oblivious", "order": "uniform"}),
        "pairwise_frank_wolfe": SolverName("PairwiseFrankWolfe"),
        "away_frank_wolfe": SolverName("AwayFrankWolfe"),
        **_PROGRAM,
    },
    "kernel hinge with a free bias": {
        "pair_descent": SolverName("FreePairDescent"),
        "smo": SolverName("Smo"),
        "frank_wolfe": SolverName("FreeFrankWolfe"),
        "frank_wolfe_oblivious": SolverName("FreeFrankWolfe", {"step_rule": "oblivious"}),
        **_PROGRAM,
    },
    "kernel hinge without a free bias": {"smo": SolverName("Smo")},  # parts of one-vs-one
    "kernel squared_hinge": _DUAL_SQUARED,
    "one-vs-one": {"each_pair": SolverName("EachPair")},  # and those of its parts, pair by pair
    SAMPLING: {
        "scs": SolverName("ConjugateSubgradient"),
        "wolfe": SolverName("Wolfe"),
        "pegasos": SolverName("Pegasos"),
    },
    "softmax ridge": {
        "lbfgs": SolverName("Lbfgs"),
        "newton": SolverName("SoftmaxNewton"),
        "newton_cg": SolverName("NewtonCG"),
        "trust_newton": SolverName("TrustNewton"),
        "dual_descent": SolverName("SoftmaxDualDescent"),
        "primal_dual_newton": SolverName("PrimalDualNewton"),
        **_ANY_PENALTY,
    },
    "softmax l1": {**_ANY_PENALTY, "interior_point": SolverName("L1InteriorPoint")},
    "softmax": _ANY_PENALTY,
    "l1 ball": {
        "dual_descent": SolverName("BallDualDescent"),
        "working_set": SolverName("BallWorkingSet"),
        "newton": SolverName("L1BallNewton"),
        "accelerated_gradient": SolverName("BallGradient"),
        "primal_dual_bfw": SolverName("PrimalDualBFW"),
        "pairwise_frank_wolfe": SolverName("BallPairwise"),
        **_ANY_BALL,
    },
    "trace ball": {
        "accelerated_gradient": SolverName("LowRankGradient"),
        "newton": SolverName("BallNewton"),
        "newton_cg": SolverName("LowRankNewton"),
        "interior_point": SolverName("TraceBallInteriorPoint"),
        "primal_dual_bfw": SolverName("LowRankPDBFW"),
        **_ANY_BALL,
    },
    "penalized": {"accelerated_gradient": SolverName("PenalizedGradient")},
    # Rows in blocks, on this machine or on others.
    "summed ridge": {
        "newton": SolverName("SummedNewton"),
        "newton_cg": SolverName("SummedNewton", {"hessian": "products"}),
        "lbfgs": SolverName("SummedLbfgs"),
    },
    "summed penalty": {"prox_newton": SolverName("SummedProxNewton")},
    "summed ball": {"prox_newton": SolverName("SummedProxNewton")},
    "l1 ball hinge": _NOT_SMOOTH,
    "trace ball hinge": _NOT_SMOOTH,
}


def choices(kind: str) -> tuple[str, ...]:
    """Return what ``solver=`` may be for a kind of problem."""
    return ("auto", *SOLVERS[kind])
