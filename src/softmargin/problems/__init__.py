"""Problems: data + loss + penalty. They own the objective, and they alone certify a point."""

from softmargin.problems.composite import Composite, CompositePoint, L1Composite, RidgeComposite, softmax_problem
from softmargin.problems.constrained import BallPoint, Constrained
from softmargin.problems.free_bias import BiasPoint
from softmargin.problems.hinge_svm import HingeSVM
from softmargin.problems.kernel_hinge import ExpansionPoint, KernelHinge
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM, KernelPoint
from softmargin.problems.l2_svm import L2SVM
from softmargin.problems.margin_models import Expansion
from softmargin.problems.multiclass_svm import DualPoint, MulticlassSVM
from softmargin.problems.one_vs_one import EveryPair, KernelOneVsOne
from softmargin.problems.one_vs_rest import OneVsRest
from softmargin.problems.penalized import Penalized
from softmargin.problems.rest_hinges import RestHinges

__all__ = [
    "L2SVM",
    "BallPoint",
    "BiasPoint",
    "Composite",
    "CompositePoint",
    "Constrained",
    "DualPoint",
    "EveryPair",
    "Expansion",
    "ExpansionPoint",
    "HingeSVM",
    "KernelHinge",
    "KernelMulticlassSVM",
    "KernelOneVsOne",
    "KernelPoint",
    "L1Composite",
    "MulticlassSVM",
    "OneVsRest",
    "Penalized",
    "RestHinges",
    "RidgeComposite",
    "softmax_problem",
]
