"""
Comparing solvers by certificate
================================

Solvers stop on rules of their own, which say little about each other. The certified gap is one measure for all: here
the seconds that solvers of one kernel SVM take to the same proven gap.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from softmargin import KernelSVC

X, y = load_digits(return_X_y=True)
X, y = X[:300] / 16, y[:300]

seconds = {}
for solver in ("auto", "splitting", "pairwise_frank_wolfe", "projected_gradient"):
    for _ in range(2):  # the first fit compiles
        clf = KernelSVC(C=1.0, solver=solver, tol=1e-3, random_state=0).fit(X, y)
    seconds[solver] = clf.trace_[-1].seconds
    print(f"{solver:22s} gap {clf.certificate_.residual:.1e} after {clf.n_iter_} steps")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.barh(list(seconds), list(seconds.values()))
axes.set(xlabel="seconds to a proven gap of 1e-3", xscale="log")
axes.invert_yaxis()
