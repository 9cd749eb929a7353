"""
A path of penalties
===================

``softmax_path`` goes from the smallest C, at which all weights are zero, to a large one. Each fit starts at the last
solution, and each has its certificate.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from softmargin import softmax_path

X, y = load_wine(return_X_y=True)
path = softmax_path(StandardScaler().fit_transform(X), y, Cs=40, l1_ratio=1.0, tol=1e-6)
print(f"largest gap of {len(path.Cs)} fits: {max(each.residual for each in path.certificates):.1e}")

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogx(path.Cs, np.reshape(path.coefs, (len(path.Cs), -1)))
axes.set(xlabel="C", ylabel="weights of the three classes")
