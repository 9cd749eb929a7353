"""
Many classes, few directions
============================

Where classes are alike, the weights of all of them need few directions. A bound on the sum of the singular values (the
trace norm) finds such weights; they are stored as factors.
"""

import matplotlib.pyplot as plt
import numpy as np

from softmargin import SoftmaxRegression, TraceBallClassifier

rng = np.random.default_rng(0)
k, d, rank, n = 30, 40, 3, 900
centres = rng.normal(size=(k, rank)) @ rng.normal(size=(rank, d))
y = np.arange(n) % k
X = centres[y] + 0.7 * rng.normal(size=(n, d))
X_test = centres[y] + 0.7 * rng.normal(size=(n, d))

low = TraceBallClassifier(radius=20.0, loss="multinomial", tol=1e-2).fit(X, y)
full = SoftmaxRegression(C=0.05).fit(X, y)
print(f"trace ball: {len(low.coef_factors_[1])} directions, {low.score(X_test, y):.3f} right")
print(f"softmax:    {min(k, d)} directions, {full.score(X_test, y):.3f} right")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, coef in (("trace ball", low.coef_), ("softmax", full.coef_)):
    values = np.linalg.svd(np.asarray(coef), compute_uv=False)
    axes.semilogy(np.arange(1, len(values) + 1), np.maximum(values, 1e-6), marker=".", label=name)
axes.set(xlabel="singular value", ylabel="size", ylim=(1e-4, None))
axes.legend()
