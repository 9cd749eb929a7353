"""
Rows that come in pieces
========================

``partial_fit`` looks at every row once. Its bound holds for all rows seen so far, and ``certify`` says how far the
model is from the best one, for whoever has all rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from softmargin import LinearSVC, certify

X, y = make_classification(20_000, 30, n_informative=10, n_classes=3, random_state=0)
X_test, y_test, X, y = X[:4000], y[:4000], X[4000:], y[4000:]

stream, seen, right = LinearSVC(C=0.01, random_state=0), [], []
for rows in np.array_split(np.arange(len(y)), 20):
    stream.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    seen.append(rows[-1] + 1)
    right.append(stream.score(X_test, y_test))
whole = LinearSVC(C=0.01, random_state=0).fit(X, y)
print(f"one look at every row: {right[-1]:.3f} right; all rows at once: {whole.score(X_test, y_test):.3f}")
print(f"gap on all rows: {certify(stream, X, y).residual:.1e}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(seen, right, marker=".", label="stream")
axes.axhline(whole.score(X_test, y_test), color="k", linestyle=":", label="all rows at once")
axes.set(xlabel="rows seen", ylabel="right on test rows")
axes.legend()
