"""
Penalties: by entries, by features, bounded
===========================================

Any separable penalty takes the place of the ridge. Here one digit in six pixels is enough: a group penalty drops a
pixel for all classes at once, where l1 drops weights one by one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from softmargin import SoftmaxRegression
from softmargin.penalties import Group, Nonnegative

X, y = load_digits(return_X_y=True)
X = X / 16
settings = {
    "ridge": {"C": 0.05},
    "l1": {"C": 0.05, "l1_ratio": 1.0},
    "Group(1)": {"C": 0.05, "penalty": Group(1.0)},
    "Nonnegative(l2=1)": {"C": 0.05, "penalty": Nonnegative(l2=1.0)},
}
figure, panels = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for panel, (name, own) in zip(panels, settings.items(), strict=True):
    clf = SoftmaxRegression(**own).fit(X, y)
    panel.imshow(np.abs(clf.coef_).max(axis=0).reshape(8, 8), cmap="viridis")
    panel.set(title=name, xticks=[], yticks=[])
    used = int((clf.coef_ != 0).any(axis=0).sum())
    print(f"{name:18s} {used} of 64 pixels, {clf.score(X, y):.3f} right, gap {clf.certificate_.residual:.1e}")
