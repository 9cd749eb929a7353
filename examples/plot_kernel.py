"""
A kernel of your own
====================

A function of two sets of rows that returns a matrix is a kernel. Where it is not positive semi-definite there is no
proof, and the fit says so.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from softmargin import KernelSVC

X, y = make_moons(300, noise=0.25, random_state=0)


def matern(A, B):
    """Return the Matérn kernel of smoothness 3/2 and length 0.7."""
    distances = np.sqrt(3.0) / 0.7 * np.linalg.norm(A[:, None, :] - B[None, :, :], axis=2)
    return (1.0 + distances) * np.exp(-distances)


figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
grid = np.stack(np.meshgrid(np.linspace(-1.8, 2.8, 90), np.linspace(-1.3, 1.8, 60)), axis=-1)
for panel, kernel in zip(panels, ("rbf", matern), strict=True):
    clf = KernelSVC(C=5.0, kernel=kernel, tol=1e-4, random_state=0).fit(X, y)
    scores = clf.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    panel.contourf(grid[..., 0], grid[..., 1], scores, levels=[-9, -1, 0, 1, 9], cmap="RdBu", alpha=0.5)
    panel.scatter(*X.T, c=y, cmap="RdBu", s=10, edgecolor="k", linewidth=0.3)
    name = kernel if isinstance(kernel, str) else kernel.__name__
    panel.set_title(f"{name}: {clf.n_support_.sum()} support vectors, gap {clf.certificate_.residual:.0e}")
