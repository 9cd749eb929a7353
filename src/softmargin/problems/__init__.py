"""Problems: data + loss + penalty. They own the objective, and they alone certify a point."""

from softmargin.problems.composite import Composite, CompositePoint, RidgeComposite, softmax_problem
from softmargin.problems.constrained import BallPoint, Constrained
from softmargin.problems.hinge_svm import HingePoint, HingeSVM
from softmargin.problems.kernel_hinge import ExpansionPoint, KernelHinge
from softmargin.problems.l2_svm import L2SVM, L2Point
from softmargin.problems.multiclass_svm import DualPoint, Expansion, KernelMulticlassSVM, KernelPoint, MulticlassSVM
from softmargin.problems.one_vs_rest import OneVsRest

__all__ = [
    "L2SVM",
    "BallPoint",
    "Composite",
    "CompositePoint",
    "Constrained",
    "DualPoint",
    "Expansion",
    "ExpansionPoint",
    "HingePoint",
    "HingeSVM",
    "KernelHinge",
    "KernelMulticlassSVM",
    "KernelPoint",
    "L2Point",
    "MulticlassSVM",
    "OneVsRest",
    "RidgeComposite",
    "softmax_problem",
]
