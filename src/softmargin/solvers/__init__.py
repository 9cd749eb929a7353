"""Solvers: one algorithm a file; settings plus start / step / point / estimate. Each is imported when it is used."""

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AcceleratedGradient": "accelerated_gradient",
    "BlockFrankWolfe": "block_frank_wolfe",
    "BlockProxGradient": "block_prox_gradient",
    "DualBlockDescent": "dual_block_descent",
    "DualProxGradient": "dual_prox_gradient",
    "EachClass": "one_vs_rest",
    "FrankWolfe": "frank_wolfe",
    "KernelBlockDescent": "kernel_block_descent",
    "Lbfgs": "lbfgs",
    "MMDescent": "mm_descent",
    "NewtonCG": "newton_cg",
    "PairwiseFrankWolfe": "pairwise_frank_wolfe",
    "PrimalNewton": "newton",
    "ProjectedGradient": "projected_gradient",
    "ProxNewton": "prox_newton",
    "QuadraticProgram": "quadratic_program",
    "Smo": "smo",
    "SoftmaxDualDescent": "softmax_dual_descent",
    "Svrg": "svrg",
    "TrustNewton": "trust_newton",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from softmargin.solvers.accelerated_gradient import AcceleratedGradient as AcceleratedGradient
    from softmargin.solvers.block_frank_wolfe import BlockFrankWolfe as BlockFrankWolfe
    from softmargin.solvers.block_prox_gradient import BlockProxGradient as BlockProxGradient
    from softmargin.solvers.dual_block_descent import DualBlockDescent as DualBlockDescent
    from softmargin.solvers.dual_prox_gradient import DualProxGradient as DualProxGradient
    from softmargin.solvers.frank_wolfe import FrankWolfe as FrankWolfe
    from softmargin.solvers.kernel_block_descent import KernelBlockDescent as KernelBlockDescent
    from softmargin.solvers.lbfgs import Lbfgs as Lbfgs
    from softmargin.solvers.mm_descent import MMDescent as MMDescent
    from softmargin.solvers.newton import PrimalNewton as PrimalNewton
    from softmargin.solvers.newton_cg import NewtonCG as NewtonCG
    from softmargin.solvers.one_vs_rest import EachClass as EachClass
    from softmargin.solvers.pairwise_frank_wolfe import PairwiseFrankWolfe as PairwiseFrankWolfe
    from softmargin.solvers.projected_gradient import ProjectedGradient as ProjectedGradient
    from softmargin.solvers.prox_newton import ProxNewton as ProxNewton
    from softmargin.solvers.quadratic_program import QuadraticProgram as QuadraticProgram
    from softmargin.solvers.smo import Smo as Smo
    from softmargin.solvers.softmax_dual_descent import SoftmaxDualDescent as SoftmaxDualDescent
    from softmargin.solvers.svrg import Svrg as Svrg
    from softmargin.solvers.trust_newton import TrustNewton as TrustNewton


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'softmargin.solvers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softmargin.solvers.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
