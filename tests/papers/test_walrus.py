"""Claims of paper 004 (Walrus), and the erratum without which its Algorithm 2 is wrong."""

import numpy as np
import pytest

from helpers import block_optimum
from softmargin.blocks import BLOCKS, WestonWatkinsGreedy, find_block, minimise_block
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs, load
from softmargin.problems import MulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import EarlyStop
from softmargin.solvers import DualBlockDescent
from softmargin.solvers.names import SOLVERS

PLAIN = DualBlockDescent(block="sort", working_set=False)  # Algorithm 1 with Algorithm 2 inside


def algorithm_2(v, C, *, as_printed):
    """Run Algorithm 2 line by line with 1-based v_<i>; return gamma, or None where it ends without output."""
    ranked = [np.nan, *sorted(v, reverse=True)]  # v_<0> does not exist
    k = len(v) + 1
    if ranked[1] <= 0:
        return 0.0
    values = [(x, 0, "dn") for x in v if x > 0] + [(x - C, 1, "up") for x in v if x > C]
    values.sort(key=lambda entry: (-entry[0], -entry[1]))  # Subroutine 3: of equal values the "up" comes first
    n_up = n_mid = 0
    total = 0.0
    for _, _, symbol in values:
        if symbol == "up":  # Subroutine 4
            total -= ranked[n_up if as_printed else n_up + 1]
            n_up, n_mid = n_up + 1, n_mid - 1
        else:
            n_mid += 1
            total += ranked[n_up + n_mid]
        gamma = (C * n_up + total) / (n_mid + 1)
        holds = n_up == 0 or C + gamma <= ranked[n_up]  # Subroutine 5
        holds &= n_mid == 0 or (ranked[n_up + 1] <= C + gamma and gamma <= ranked[n_up + n_mid])
        holds &= n_up + n_mid == k - 1 or ranked[n_up + n_mid + 1] <= gamma
        if holds:
            return gamma
    return None


def test_algorithm_2_as_printed_ends_without_an_answer():
    """With v = (3, 1.5), C = 1: gamma = 1.25 and b = (1, 0.25), but line 3 of Subroutine 4 asks for v_<0>."""
    v, C = np.array([3.0, 1.5]), 1.0
    assert algorithm_2(v, C, as_printed=True) is None
    gamma = algorithm_2(v, C, as_printed=False)
    assert gamma == 1.25
    best = block_optimum("weston_watkins", v, C)
    np.testing.assert_allclose(best, [1.0, 0.25])
    for name, block in BLOCKS["weston_watkins"].items():
        np.testing.assert_allclose(minimise_block(block, v, C), best, atol=1e-6 if name == "greedy" else 1e-15)


def test_corrected_algorithm_2_is_right_where_the_printed_one_mostly_fails():
    """Maths: errata 004.1: about two in three random cases fail as printed, none with S^t = S^{t-1} - v_<n_u^t>."""
    rng = np.random.default_rng(0)
    failures = 0
    for _ in range(300):
        v = 3 * rng.standard_normal(int(rng.integers(1, 12)))
        C = float(rng.uniform(0.05, 2.0))
        best = block_optimum("weston_watkins", v, C)
        gammas = [algorithm_2(v, C, as_printed=as_printed) for as_printed in (True, False)]
        wrong = [gamma is None or np.abs(np.clip(v - gamma, 0, C) - best).max() > 1e-9 for gamma in gammas]
        failures += wrong[0]
        assert not wrong[1]
        np.testing.assert_allclose(minimise_block(BLOCKS["weston_watkins"]["sort"], v, C), best, atol=1e-13)
    assert failures > 150


def test_dual_gap_falls_linearly():
    """Theorem 3.6: the dual suboptimality falls like r^t with r < 1, so it is about squared when t doubles."""
    X, y = blobs(60, 8, 4, seed=0)
    problem = MulticlassSVM(X, y, C=0.1)
    best = solve(problem, DualBlockDescent(), stop=Stop(1e-14, 50_000), rng=0).certificate.bound
    left = []

    def note(progress):
        left.append(best - problem.dual(PLAIN.point(problem, progress.state).alpha).value)
        return left[-1] <= 1e-9 * best

    solve(problem, PLAIN, stop=Stop(0.0, 5000), rng=0, watchers=[EarlyStop(note)])
    assert left[-1] <= 1e-9 * best, "no linear rate: not even 1e-9 in 5000 passes"
    half, end = left[len(left) // 2], left[-1]
    assert end <= half * 1e-2
    # On a log scale the curve is about a line: its middle lies near the mean of its ends.
    start, middle, finish = np.log10([left[len(left) // 5], left[3 * len(left) // 5], end])
    assert middle == pytest.approx((start + finish) / 2, abs=0.25 * (start - finish))


def test_the_accuracy_of_sharks_block_limits_the_gap():
    """Maths: linear SVM, section 3: the gap stays where no row has a violation of ``accuracy`` left to remove."""
    X, y = blobs(60, 8, 4, seed=0)
    problem = MulticlassSVM(X, y, C=0.1)
    limits = {}
    for accuracy in (1e-2, 1e-4, 1e-6):
        shark = DualBlockDescent(block=WestonWatkinsGreedy(accuracy), working_set=False)
        result = solve(problem, shark, stop=Stop(0.0, 1000), rng=0)
        limits[accuracy] = result.certificate.residual
        assert result.certificate.gap <= 3 * problem.C.sum() * accuracy
        later = solve(problem, shark, stop=Stop(0.0, 1000), rng=1, init=result.point)
        assert later.certificate.residual == pytest.approx(result.certificate.residual, rel=0.1)
    assert limits[1e-2] > 20 * limits[1e-4] > 400 * limits[1e-6]
    assert find_block("weston_watkins", SOLVERS["linear hinge"]["shark"].settings["block"]).accuracy == 1e-6


def test_a_block_of_another_loss_is_refused():
    X, y = blobs(20, 3, 3, seed=0)
    with pytest.raises(IncompatibleError, match="solves weston_watkins, not crammer_singer"):
        solve(MulticlassSVM(X, y, multiclass="crammer_singer"), DualBlockDescent(block=WestonWatkinsGreedy()))


def test_dna_accuracy_is_the_papers():
    """Table 6 (delta = 0.0009), DNA at C = 2^-4: 95.11 % of the test set."""
    data = load("dna")
    classes, codes = np.unique(data.y, return_inverse=True)
    problem = MulticlassSVM(data.X, codes, C=2.0**-4)
    result = solve(problem, PLAIN, stop=Stop(0.0, 2000, decay=0.0009), rng=0)
    assert result.status is Status.DECAYED
    gaps = [row.certificate.gap for row in result.trace]
    assert len(gaps) == result.n_iter
    assert gaps[-1] <= 0.0009 * gaps[0] < min(gaps[:-1])
    scores = data.X_test @ result.point.weights[:-1]
    accuracy = 100 * np.mean(classes[scores.argmax(axis=1)] == data.y_test)
    assert accuracy == pytest.approx(95.11, abs=0.5)
