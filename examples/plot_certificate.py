"""
Reading a certificate
=====================

Every fit ends with a certificate: the objective of the model (``primal``), a number that no weights can go below
(``bound``), and the relative gap between the two. The gap is proven at the model that you get, whatever the solver did.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from softmargin import LinearSVC

X, y = load_digits(return_X_y=True)
X = X / 16
clf = LinearSVC(C=1.0, tol=1e-5, random_state=0).fit(X, y)
print(clf.certificate_)
share = 100 * clf.certificate_.residual
print(f"no weights have an objective more than {share:.4f} % below")

# %%
# ``trace_`` has the certificates along the way. Objective and bound enclose the optimum; the gap between them falls
# until it meets ``tol``.

rows = list(clf.trace_)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogy([row.iteration for row in rows], [row.certificate.residual for row in rows], marker="o")
axes.axhline(clf.tol, color="k", linestyle=":", label="tol")
axes.set(xlabel="passes over the data", ylabel="relative gap, proven")
axes.legend()

# %%
# A budget ends a fit early, with a warning and an honest gap.

import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    early = LinearSVC(C=1.0, tol=1e-5, max_iter=3, random_state=0).fit(X, y)
print(early.status_, early.certificate_.residual)
print(caught[0].message)
