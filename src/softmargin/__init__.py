"""Margin classifiers trained to a certificate: every fit says how far from the optimum it is.

Names are imported when they are first used, so that ``import softmargin`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AcceleratedGradient": "solvers",
    "BallBlockFrankWolfe": "solvers",
    "BallDualDescent": "solvers",
    "BallFrankWolfe": "solvers",
    "BallGradient": "solvers",
    "BallPairwise": "solvers",
    "BallSvrg": "solvers",
    "BallWorkingSet": "solvers",
    "BlockFrankWolfe": "solvers",
    "BlockProxGradient": "solvers",
    "Certificate": "core.certificate",
    "Constrained": "problems",
    "DataError": "core.errors",
    "DualBlockDescent": "solvers",
    "DualProxGradient": "solvers",
    "EachClass": "solvers",
    "FrankWolfe": "solvers",
    "Gram": "matrices.gram",
    "HingeSVM": "problems.hinge_svm",
    "InactiveBallWarning": "estimators.frame.warnings",
    "IncompatibleError": "core.errors",
    "IndefiniteKernelWarning": "estimators.frame.warnings",
    "KernelBlockDescent": "solvers",
    "KernelPairDescent": "solvers",
    "KernelExpansion": "models",
    "KernelMulticlassSVM": "problems",
    "KernelSVC": "estimators.kernel_svc",
    "L1Ball": "sets",
    "L1BallClassifier": "estimators.l1_ball",
    "L1BallRegressor": "estimators.l1_ball",
    "L2SVM": "problems",
    "Lbfgs": "solvers",
    "LinearModel": "models",
    "LinearSVC": "estimators.linear_svc",
    "LowRankGradient": "solvers",
    "LowRankPDBFW": "solvers",
    "MMDescent": "solvers",
    "ModelFileError": "core.errors",
    "MulticlassSVM": "problems",
    "NewtonCG": "solvers",
    "NotCertifiedWarning": "estimators.frame.warnings",
    "OneVsRest": "problems",
    "PairwiseFrankWolfe": "solvers",
    "PrimalDualBFW": "solvers",
    "PrimalNewton": "solvers",
    "ProjectedGradient": "solvers",
    "ProxNewton": "solvers",
    "RadiusPath": "estimators.radius_path",
    "RandomBinning": "features",
    "Scgs": "solvers",
    "Smo": "solvers",
    "SoftmarginError": "core.errors",
    "SoftmaxDualDescent": "solvers",
    "SoftmaxNewton": "solvers",
    "SoftmaxPath": "estimators.softmax_path",
    "SoftmaxRegression": "estimators.softmax_regression",
    "SoftmaxRegressionCV": "estimators.softmax_regression_cv",
    "Status": "run",
    "Stop": "run",
    "Storc": "solvers",
    "Svrg": "solvers",
    "TraceBall": "sets",
    "TraceBallClassifier": "estimators.trace_ball",
    "TraceBallRegressor": "estimators.trace_ball",
    "TrustNewton": "solvers",
    "certify": "estimators.certify",
    "load_model": "models",
    "make_kernel": "kernels",
    "radius_path": "estimators.radius_path",
    "read_liblinear": "models",
    "softmax_path": "estimators.softmax_path",
    "softmax_problem": "problems",
    "solve": "run",
    "write_liblinear": "models",
}

_ROOMS = ("penalties",)  # rooms users reach into, as softmargin.penalties.L1

__all__ = [*sorted(_HOMES), *_ROOMS, "__version__"]

if TYPE_CHECKING:
    from softmargin import penalties as penalties
    from softmargin.core.certificate import Certificate as Certificate
    from softmargin.core.errors import DataError as DataError
    from softmargin.core.errors import IncompatibleError as IncompatibleError
    from softmargin.core.errors import ModelFileError as ModelFileError
    from softmargin.core.errors import SoftmarginError as SoftmarginError
    from softmargin.estimators.certify import certify as certify
    from softmargin.estimators.frame.warnings import InactiveBallWarning as InactiveBallWarning
    from softmargin.estimators.frame.warnings import IndefiniteKernelWarning as IndefiniteKernelWarning
    from softmargin.estimators.frame.warnings import NotCertifiedWarning as NotCertifiedWarning
    from softmargin.estimators.kernel_svc import KernelSVC as KernelSVC
    from softmargin.estimators.l1_ball import L1BallClassifier as L1BallClassifier
    from softmargin.estimators.l1_ball import L1BallRegressor as L1BallRegressor
    from softmargin.estimators.linear_svc import LinearSVC as LinearSVC
    from softmargin.estimators.radius_path import RadiusPath as RadiusPath
    from softmargin.estimators.radius_path import radius_path as radius_path
    from softmargin.estimators.softmax_path import SoftmaxPath as SoftmaxPath
    from softmargin.estimators.softmax_path import softmax_path as softmax_path
    from softmargin.estimators.softmax_regression import SoftmaxRegression as SoftmaxRegression
    from softmargin.estimators.softmax_regression_cv import SoftmaxRegressionCV as SoftmaxRegressionCV
    from softmargin.estimators.trace_ball import TraceBallClassifier as TraceBallClassifier
    from softmargin.estimators.trace_ball import TraceBallRegressor as TraceBallRegressor
    from softmargin.features import RandomBinning as RandomBinning
    from softmargin.kernels import make_kernel as make_kernel
    from softmargin.matrices.gram import Gram as Gram
    from softmargin.models import KernelExpansion as KernelExpansion
    from softmargin.models import LinearModel as LinearModel
    from softmargin.models import load_model as load_model
    from softmargin.models import read_liblinear as read_liblinear
    from softmargin.models import write_liblinear as write_liblinear
    from softmargin.problems import L2SVM as L2SVM
    from softmargin.problems import Constrained as Constrained
    from softmargin.problems import KernelMulticlassSVM as KernelMulticlassSVM
    from softmargin.problems import MulticlassSVM as MulticlassSVM
    from softmargin.problems import OneVsRest as OneVsRest
    from softmargin.problems import softmax_problem as softmax_problem
    from softmargin.problems.hinge_svm import HingeSVM as HingeSVM
    from softmargin.run import Status as Status
    from softmargin.run import Stop as Stop
    from softmargin.run import solve as solve
    from softmargin.sets import L1Ball as L1Ball
    from softmargin.sets import TraceBall as TraceBall
    from softmargin.solvers import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"softmargin.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'softmargin' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softmargin.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
