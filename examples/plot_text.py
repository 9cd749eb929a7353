"""
Text: which library is a docstring of?
======================================

Sparse rows of many features, one column per word. A joint linear SVM on the docstrings of three libraries that are
installed with softmargin.
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.stats
import sklearn.cluster
import sklearn.linear_model
import sklearn.metrics
import sklearn.preprocessing
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from softmargin import LinearSVC

MODULES = {
    "numpy": (np, np.linalg, np.random, np.ma),
    "scipy": (scipy.linalg, scipy.optimize, scipy.sparse, scipy.stats),
    "sklearn": (sklearn.cluster, sklearn.linear_model, sklearn.metrics, sklearn.preprocessing),
}


def docstrings(modules):
    """Return what the public functions and classes of some modules say of themselves, without the library's name."""
    members = [member for module in modules for _, member in inspect.getmembers(module) if callable(member)]
    texts = {inspect.getdoc(member) or "" for member in members}
    texts = [text.replace("scikit-learn", "").replace("sklearn", "") for text in sorted(texts) if len(text) > 200]
    return [text.replace("numpy", "").replace("np.", "").replace("scipy", "") for text in texts]


texts, labels = [], []
for library, modules in MODULES.items():
    found = docstrings(modules)
    texts += found
    labels += [library] * len(found)

train, test, y_train, y_test = train_test_split(texts, labels, random_state=0, stratify=labels)
model = make_pipeline(TfidfVectorizer(sublinear_tf=True, token_pattern=r"[a-zA-Z_]{3,}"), LinearSVC(C=1.0))
model.fit(train, y_train)
print(f"{len(train)} texts, {len(model[0].vocabulary_)} words, {model.score(test, y_test):.3f} right on others")
print(model[-1].certificate_)

# %%
# The words that speak most for each library.

words = model[0].get_feature_names_out()
figure, panels = plt.subplots(1, 3, figsize=(9, 3.5), layout="constrained")
for panel, library, weights in zip(panels, model[-1].classes_, model[-1].coef_, strict=True):
    top = np.argsort(weights)[-10:]
    panel.barh(words[top], weights[top])
    panel.set_title(library)
