"""Solvers: a folder per family of problems, a file per algorithm. Each is imported when it is first used."""

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AcceleratedGradient": "softmax.accelerated_gradient",
    "AtDualPoint": "at_dual_point",
    "BallBlockFrankWolfe": "ball.block_frank_wolfe",
    "BallDualDescent": "ball.dual_descent",
    "BallFrankWolfe": "ball.frank_wolfe",
    "BallGradient": "ball.accelerated_gradient",
    "BallPairwise": "ball.pairwise_frank_wolfe",
    "BallSvrg": "ball.svrg",
    "BallWorkingSet": "ball.working_set",
    "BlockFrankWolfe": "kernel_svm.block_frank_wolfe",
    "BlockProxGradient": "softmax.block_prox_gradient",
    "ConjugateSubgradient": "sampled_kernel.conjugate_subgradient",
    "DualBlockDescent": "linear_svm.block_descent",
    "DualProxGradient": "squared_hinge.dual_prox_gradient",
    "EachClass": "each_class",
    "FrankWolfe": "kernel_svm.frank_wolfe",
    "KernelBlockDescent": "kernel_svm.block_descent",
    "KernelPairDescent": "kernel_svm.pair_descent",
    "Lbfgs": "softmax.lbfgs",
    "LowRankGradient": "ball.low_rank_gradient",
    "LowRankPDBFW": "ball.low_rank_pdbfw",
    "MMDescent": "softmax.mm_descent",
    "NewtonCG": "softmax.newton_cg",
    "PairwiseFrankWolfe": "kernel_svm.pairwise_frank_wolfe",
    "Pegasos": "sampled_kernel.pegasos",
    "PrimalDualBFW": "ball.primal_dual_bfw",
    "PrimalNewton": "squared_hinge.newton",
    "ProjectedGradient": "kernel_svm.projected_gradient",
    "ProxNewton": "softmax.prox_newton",
    "QuadraticProgram": "quadratic_program",
    "Scgs": "ball.scgs",
    "Smo": "squared_hinge.smo",
    "SoftmaxDualDescent": "softmax.dual_descent",
    "SoftmaxNewton": "softmax.newton",
    "Storc": "ball.storc",
    "Svrg": "softmax.svrg",
    "TrustNewton": "softmax.trust_newton",
    "Wolfe": "sampled_kernel.wolfe",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from softmargin.solvers.at_dual_point import AtDualPoint as AtDualPoint
    from softmargin.solvers.ball.accelerated_gradient import BallGradient as BallGradient
    from softmargin.solvers.ball.block_frank_wolfe import BallBlockFrankWolfe as BallBlockFrankWolfe
    from softmargin.solvers.ball.dual_descent import BallDualDescent as BallDualDescent
    from softmargin.solvers.ball.frank_wolfe import BallFrankWolfe as BallFrankWolfe
    from softmargin.solvers.ball.low_rank_gradient import LowRankGradient as LowRankGradient
    from softmargin.solvers.ball.low_rank_pdbfw import LowRankPDBFW as LowRankPDBFW
    from softmargin.solvers.ball.pairwise_frank_wolfe import BallPairwise as BallPairwise
    from softmargin.solvers.ball.primal_dual_bfw import PrimalDualBFW as PrimalDualBFW
    from softmargin.solvers.ball.scgs import Scgs as Scgs
    from softmargin.solvers.ball.storc import Storc as Storc
    from softmargin.solvers.ball.svrg import BallSvrg as BallSvrg
    from softmargin.solvers.ball.working_set import BallWorkingSet as BallWorkingSet
    from softmargin.solvers.each_class import EachClass as EachClass
    from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent as KernelBlockDescent
    from softmargin.solvers.kernel_svm.block_frank_wolfe import BlockFrankWolfe as BlockFrankWolfe
    from softmargin.solvers.kernel_svm.frank_wolfe import FrankWolfe as FrankWolfe
    from softmargin.solvers.kernel_svm.pair_descent import KernelPairDescent as KernelPairDescent
    from softmargin.solvers.kernel_svm.pairwise_frank_wolfe import PairwiseFrankWolfe as PairwiseFrankWolfe
    from softmargin.solvers.kernel_svm.projected_gradient import ProjectedGradient as ProjectedGradient
    from softmargin.solvers.linear_svm.block_descent import DualBlockDescent as DualBlockDescent
    from softmargin.solvers.quadratic_program import QuadraticProgram as QuadraticProgram
    from softmargin.solvers.sampled_kernel.conjugate_subgradient import ConjugateSubgradient as ConjugateSubgradient
    from softmargin.solvers.sampled_kernel.pegasos import Pegasos as Pegasos
    from softmargin.solvers.sampled_kernel.wolfe import Wolfe as Wolfe
    from softmargin.solvers.softmax.accelerated_gradient import AcceleratedGradient as AcceleratedGradient
    from softmargin.solvers.softmax.block_prox_gradient import BlockProxGradient as BlockProxGradient
    from softmargin.solvers.softmax.dual_descent import SoftmaxDualDescent as SoftmaxDualDescent
    from softmargin.solvers.softmax.lbfgs import Lbfgs as Lbfgs
    from softmargin.solvers.softmax.mm_descent import MMDescent as MMDescent
    from softmargin.solvers.softmax.newton import SoftmaxNewton as SoftmaxNewton
    from softmargin.solvers.softmax.newton_cg import NewtonCG as NewtonCG
    from softmargin.solvers.softmax.prox_newton import ProxNewton as ProxNewton
    from softmargin.solvers.softmax.svrg import Svrg as Svrg
    from softmargin.solvers.softmax.trust_newton import TrustNewton as TrustNewton
    from softmargin.solvers.squared_hinge.dual_prox_gradient import DualProxGradient as DualProxGradient
    from softmargin.solvers.squared_hinge.newton import PrimalNewton as PrimalNewton
    from softmargin.solvers.squared_hinge.smo import Smo as Smo


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'softmargin.solvers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softmargin.solvers.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
