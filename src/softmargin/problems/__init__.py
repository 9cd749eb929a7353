"""Problems: data + loss + penalty. They own the objective, and they alone judge a point."""

from softmargin.problems.multiclass_svm import DualPoint, MulticlassSVM

__all__ = ["DualPoint", "MulticlassSVM"]
