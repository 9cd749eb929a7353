"""
Digits: one joint loss, or one against the rest?
================================================

A joint loss asks that the right class beats every other one by a margin; one-vs-rest asks of every class on its own
that its members are positive. The two are different models, each trained to the same certificate.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split

from softmargin import LinearSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)

models = {}
for multiclass in ("weston_watkins", "crammer_singer", "one_vs_rest"):
    models[multiclass] = LinearSVC(C=0.1, multiclass=multiclass, random_state=0).fit(X_train, y_train)
    certificate, score = models[multiclass].certificate_, models[multiclass].score(X_test, y_test)
    print(f"{multiclass:15s} {score:.3f} right, gap {certificate.residual:.1e}")

# %%
# The weights of the joint model, one picture a digit, and what it mistakes for what.

figure, panels = plt.subplots(2, 5, figsize=(8, 3.4), layout="constrained")
joint = models["weston_watkins"]
for panel, digit, weights in zip(panels.flat, joint.classes_, joint.coef_, strict=True):
    limit = abs(joint.coef_).max()
    panel.imshow(weights.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    panel.set(title=str(digit), xticks=[], yticks=[])

ConfusionMatrixDisplay.from_estimator(joint, X_test, y_test, colorbar=False)
plt.show()
