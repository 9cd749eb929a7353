"""While one thread fits an estimator again, others predict with the old model or the new one, never with a mixture."""

import threading

import numpy as np
import pytest

from softmargin import KernelSVC, L1BallClassifier, LinearSVC, SoftmaxRegression, TraceBallRegressor
from softmargin.data import blobs

REFITS = 12


def data(k, d=6):
    """Return as many samples as there is time for, and labels or targets."""
    X, y = blobs(40 + 10 * k, d, k, seed=k)
    return X, y


ESTIMATORS = {
    "linear": LinearSVC(max_iter=3),
    "kernel": KernelSVC(gamma=0.1, max_iter=3),
    "softmax": SoftmaxRegression(max_iter=3),
    "l1 ball": L1BallClassifier(max_iter=3),
    "trace ball": TraceBallRegressor(max_iter=3),
}


def fitted(model, k):
    X, y = data(k)
    targets = np.eye(k)[y] if isinstance(model, TraceBallRegressor) else y
    return model.fit(X, targets)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_during_a_refit_are_those_of_one_model(name):
    model = ESTIMATORS[name]
    model.set_params(random_state=0) if "random_state" in model.get_params() else None
    rows = data(3)[0][:20]
    known = {k: fitted(model, k).predict(rows) for k in (5, 3)}
    stop, trouble, seen = threading.Event(), [], []

    def predict():
        while not stop.is_set():
            try:
                found = model.predict(rows)
            except Exception as error:
                trouble.append(repr(error))
                return
            seen.append(any(found.shape == each.shape and (found == each).all() for each in known.values()))

    thread = threading.Thread(target=predict)
    thread.start()
    for t in range(REFITS):
        fitted(model, (5, 3)[t % 2])
    stop.set()
    thread.join()
    assert not trouble
    assert seen
    assert all(seen)


@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_fails_leaves_the_old_model():
    model = fitted(LinearSVC(max_iter=3), 3)
    before = model.predict(data(3)[0])
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((4, 2), np.inf), [0, 1, 0, 1])
    np.testing.assert_array_equal(model.predict(data(3)[0]), before)
