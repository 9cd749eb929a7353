"""
Probabilities of an SVM
=======================

Scores of an SVM are no probabilities. ``probability=`` fits a map from one to the other, on scores of rows that
were held out, in folds that start at the solution of the fit.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from softmargin import LinearSVC

X, y = make_classification(6000, 20, n_informative=4, flip_y=0.15, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, train_size=2000)

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
for method in ("sigmoid", "temperature", "isotonic"):
    clf = LinearSVC(C=1.0, probability=method, random_state=0).fit(X_train, y_train)
    probabilities = clf.predict_proba(X_test)[:, 1]
    print(f"{method:12s} log loss {log_loss(y_test, probabilities):.4f}, gap {clf.certificate_.residual:.1e}")
    CalibrationDisplay.from_predictions(y_test, probabilities, n_bins=10, name=method, ax=axes)
