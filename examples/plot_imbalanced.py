"""
Classes of very different size
==============================

``class_weight="balanced"`` multiplies C by class, so that a rare class costs as much as a common one. It is part of the
problem that the certificate speaks of.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import train_test_split

from softmargin import KernelSVC

X, y = make_classification(3000, 10, n_informative=5, n_classes=3, weights=[0.9, 0.07, 0.03], random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

recalls = {}
for weight in (None, "balanced"):
    clf = KernelSVC(C=1.0, class_weight=weight, random_state=0).fit(X_train, y_train)
    predicted = clf.predict(X_test)
    recalls[str(weight)] = recall_score(y_test, predicted, average=None)
    print(f"class_weight={weight}: balanced accuracy {balanced_accuracy_score(y_test, predicted):.3f}, "
          f"gap {clf.certificate_.residual:.1e}")  # fmt: skip

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for shift, (name, recall) in zip((-0.2, 0.2), recalls.items(), strict=True):
    axes.bar([c + shift for c in range(3)], recall, width=0.4, label=f"class_weight={name}")
axes.set(xticks=range(3), xlabel="class", ylabel="found of its test rows")
axes.legend()
