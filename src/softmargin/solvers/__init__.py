"""Solvers: one algorithm a file; settings plus start / step / point / estimate. Each is imported when it is used."""

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AcceleratedGradient": "accelerated_gradient",
    "BallBlockFrankWolfe": "ball_block_frank_wolfe",
    "BallDualDescent": "ball_dual_descent",
    "BallFrankWolfe": "ball_frank_wolfe",
    "BallGradient": "ball_gradient",
    "BallPairwise": "ball_pairwise",
    "BallSvrg": "ball_svrg",
    "BallWorkingSet": "ball_working_set",
    "BlockFrankWolfe": "block_frank_wolfe",
    "BlockProxGradient": "block_prox_gradient",
    "ConjugateSubgradient": "conjugate_subgradient",
    "DualBlockDescent": "dual_block_descent",
    "DualProxGradient": "dual_prox_gradient",
    "EachClass": "one_vs_rest",
    "FrankWolfe": "frank_wolfe",
    "KernelBlockDescent": "kernel_block_descent",
    "KernelPairDescent": "kernel_pair_descent",
    "Lbfgs": "lbfgs",
    "LowRankGradient": "low_rank_gradient",
    "LowRankPDBFW": "low_rank_pdbfw",
    "MMDescent": "mm_descent",
    "NewtonCG": "newton_cg",
    "PairwiseFrankWolfe": "pairwise_frank_wolfe",
    "Pegasos": "pegasos",
    "PrimalDualBFW": "primal_dual_bfw",
    "PrimalNewton": "newton",
    "ProjectedGradient": "projected_gradient",
    "ProxNewton": "prox_newton",
    "QuadraticProgram": "quadratic_program",
    "Scgs": "scgs",
    "Smo": "smo",
    "SoftmaxDualDescent": "softmax_dual_descent",
    "SoftmaxNewton": "softmax_newton",
    "Storc": "storc",
    "Svrg": "svrg",
    "TrustNewton": "trust_newton",
    "Wolfe": "wolfe",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from softmargin.solvers.accelerated_gradient import AcceleratedGradient as AcceleratedGradient
    from softmargin.solvers.ball_block_frank_wolfe import BallBlockFrankWolfe as BallBlockFrankWolfe
    from softmargin.solvers.ball_dual_descent import BallDualDescent as BallDualDescent
    from softmargin.solvers.ball_frank_wolfe import BallFrankWolfe as BallFrankWolfe
    from softmargin.solvers.ball_gradient import BallGradient as BallGradient
    from softmargin.solvers.ball_pairwise import BallPairwise as BallPairwise
    from softmargin.solvers.ball_svrg import BallSvrg as BallSvrg
    from softmargin.solvers.ball_working_set import BallWorkingSet as BallWorkingSet
    from softmargin.solvers.block_frank_wolfe import BlockFrankWolfe as BlockFrankWolfe
    from softmargin.solvers.block_prox_gradient import BlockProxGradient as BlockProxGradient
    from softmargin.solvers.conjugate_subgradient import ConjugateSubgradient as ConjugateSubgradient
    from softmargin.solvers.dual_block_descent import DualBlockDescent as DualBlockDescent
    from softmargin.solvers.dual_prox_gradient import DualProxGradient as DualProxGradient
    from softmargin.solvers.frank_wolfe import FrankWolfe as FrankWolfe
    from softmargin.solvers.kernel_block_descent import KernelBlockDescent as KernelBlockDescent
    from softmargin.solvers.kernel_pair_descent import KernelPairDescent as KernelPairDescent
    from softmargin.solvers.lbfgs import Lbfgs as Lbfgs
    from softmargin.solvers.low_rank_gradient import LowRankGradient as LowRankGradient
    from softmargin.solvers.low_rank_pdbfw import LowRankPDBFW as LowRankPDBFW
    from softmargin.solvers.mm_descent import MMDescent as MMDescent
    from softmargin.solvers.newton import PrimalNewton as PrimalNewton
    from softmargin.solvers.newton_cg import NewtonCG as NewtonCG
    from softmargin.solvers.one_vs_rest import EachClass as EachClass
    from softmargin.solvers.pairwise_frank_wolfe import PairwiseFrankWolfe as PairwiseFrankWolfe
    from softmargin.solvers.pegasos import Pegasos as Pegasos
    from softmargin.solvers.primal_dual_bfw import PrimalDualBFW as PrimalDualBFW
    from softmargin.solvers.projected_gradient import ProjectedGradient as ProjectedGradient
    from softmargin.solvers.prox_newton import ProxNewton as ProxNewton
    from softmargin.solvers.quadratic_program import QuadraticProgram as QuadraticProgram
    from softmargin.solvers.scgs import Scgs as Scgs
    from softmargin.solvers.smo import Smo as Smo
    from softmargin.solvers.softmax_dual_descent import SoftmaxDualDescent as SoftmaxDualDescent
    from softmargin.solvers.softmax_newton import SoftmaxNewton as SoftmaxNewton
    from softmargin.solvers.storc import Storc as Storc
    from softmargin.solvers.svrg import Svrg as Svrg
    from softmargin.solvers.trust_newton import TrustNewton as TrustNewton
    from softmargin.solvers.wolfe import Wolfe as Wolfe


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'softmargin.solvers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softmargin.solvers.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
