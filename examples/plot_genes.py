"""
Few rows, many features: weights that are mostly zero
=====================================================

As with genes: 150 samples, 2000 features, of which a handful matter. An l1 penalty, or a bound on the sum of the
weights, leaves most weights at exactly zero, and the certificate holds for all 2000.
"""

import matplotlib.pyplot as plt
import numpy as np

from softmargin import L1BallClassifier, SoftmaxRegression

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 2000))
truth = np.zeros(2000)
truth[:8] = 2.0
y = (X @ truth + rng.normal(size=150) > 0).astype(int)

priced = SoftmaxRegression(C=0.2, l1_ratio=1.0, tol=1e-6).fit(X, y)
bounded = L1BallClassifier(radius=2.0, l2=1e-3, tol=1e-6).fit(X, y)
for name, clf in (("a price", priced), ("a bound", bounded)):
    found = np.flatnonzero(clf.coef_[0])
    print(
        f"{name}: {len(found)} weights, {np.sum(found < 8)} of the 8 that matter, gap {clf.certificate_.residual:.1e}"
    )

figure, panels = plt.subplots(2, 1, figsize=(7, 4), sharex=True, layout="constrained")
for panel, name, clf in zip(panels, ("l1 penalty", "l1 ball"), (priced, bounded), strict=True):
    used = np.flatnonzero(clf.coef_[0])
    panel.vlines(used, 0.0, clf.coef_[0][used])
    panel.set(title=name, ylabel="weight")
    panel.axvspan(-0.5, 7.5, alpha=0.2, color="tab:green")
panels[-1].set_xlabel("feature (the first eight matter)")
