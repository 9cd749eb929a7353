"""The scikit-learn contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import LinearSVC


# The checks compare two fits to 1e-7; a gap of 1e-14 pins W down to about that, and rounding may stop just above it.
@pytest.mark.filterwarnings("ignore::softmargin.NotCertifiedWarning")
@parametrize_with_checks(
    [
        LinearSVC(tol=1e-14, random_state=0),
        LinearSVC(multiclass="crammer_singer", tol=1e-14, random_state=0),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)
