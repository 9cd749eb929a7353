"""Every block returns the minimiser of its little quadratic program, from any warm start, for any v and C."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from helpers import block_kkt, block_optimum, block_value
from reference.optimum import block_minimiser
from softmargin.blocks import BLOCKS, WestonWatkinsGreedy, minimise_block
from softmargin.blocks.softmax import move_logit, solve_logit
from softmargin.core.errors import IncompatibleError
from softmargin.problems import MulticlassSVM
from softmargin.solvers import DualBlockDescent
from softmargin.testing import check_block

# The greedy block is inexact by design; with these settings it is driven to the last digits.
EXACT = [
    pytest.param(multiclass, WestonWatkinsGreedy(1e-14, 10_000) if name == "greedy" else block, id=name)
    for multiclass, members in BLOCKS.items()
    for name, block in members.items()
]
PER_CLASS = [case for case in EXACT if case.values[1].per_class_C]
EPS = np.finfo(float).eps
SHARE = 1e-13  # of C: what a block is allowed to leave of a row's gap

finite = st.floats(-4.0, 4.0).map(lambda x: round(x, 12) + 0.0)
# Ties are the hard case: few distinct values, often repeated, and shifted by exactly C.
tied = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0])
vectors = st.one_of(st.lists(finite, min_size=1, max_size=13), st.lists(tied, min_size=1, max_size=13)).map(np.array)
prices = st.one_of(
    st.sampled_from([0.0, 1e-16, 1e-10, 0.25, 0.5, 1.0, 1e8]), st.floats(1e-3, 10.0).map(lambda x: round(x, 9))
)
shares = st.lists(st.floats(0.0, 1.0), min_size=13, max_size=13).map(np.array)


def feasible_start(multiclass, C, share):
    return C * share if multiclass == "weston_watkins" else C * share / max(share.sum(), 1.0)


def rounding(v, C, start=0.0):
    """Return what float64 may lose on numbers of this size."""
    return 64 * EPS * (1.0 + np.abs(v).max() + np.sum(start) + (np.max(C) if np.max(C) < 1e3 else 0.0))


def size_of_C(multiclass, C):
    """Return what the projection may lose: it works on numbers of the size of C."""
    return 8 * EPS * C if multiclass == "crammer_singer" else 0.0


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
@given(v=vectors, C=prices)
def test_cold_block_is_the_optimum(multiclass, block, v, C):
    b = minimise_block(block, v, C)
    slack = rounding(v, C) + size_of_C(multiclass, C)
    np.testing.assert_allclose(b, block_optimum(multiclass, v, C), rtol=0, atol=min(slack, 1e-9 * C))
    assert block_kkt(multiclass, v, b, C) <= 20 * slack


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
@given(v=vectors, C=prices.filter(lambda C: C < 1e3), share=shares)
def test_warm_block_is_the_optimum(multiclass, block, v, C, share):
    """A row whose gap is below 1e-13 C may stay, so the value is compared, and b to the square root of that."""
    start = feasible_start(multiclass, C, share[: len(v)])
    b = minimise_block(block, v, C, start=start)
    best = block_optimum(multiclass, v, C)
    left = block_value(v, b) - block_value(v, best)
    slack = rounding(v, C, start)
    assert -slack <= left <= SHARE * C + slack
    assert np.abs(b - best).max() <= np.sqrt(2 * SHARE * C) + slack


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
@given(v=vectors, share=shares)
def test_huge_price_hides_no_violation(multiclass, block, v, share):
    """C = 1e8: a start next to the optimum is improved although its gap is a tiny share of C."""
    best = block_optimum(multiclass, v, 1e8)
    b = minimise_block(block, v, 1e8, start=best + 1e-6 * share[: len(v)])
    np.testing.assert_allclose(b, best, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
@given(v=vectors, C=prices)
def test_start_at_the_optimum_stays(multiclass, block, v, C):
    best = block_optimum(multiclass, v, C)
    slack = rounding(v, C) + size_of_C(multiclass, C)
    np.testing.assert_allclose(minimise_block(block, v, C, start=best), best, rtol=0, atol=slack)


@pytest.mark.parametrize(("multiclass", "block"), PER_CLASS)
@given(v=vectors, C=st.lists(prices.filter(lambda C: C < 1e3), min_size=13, max_size=13).map(np.array), share=shares)
def test_every_class_may_have_its_own_price(multiclass, block, v, C, share):
    C = C[: len(v)]
    b = minimise_block(block, v, C)
    np.testing.assert_allclose(b, block_optimum(multiclass, v, C), rtol=0, atol=rounding(v, C))
    warm = minimise_block(block, v, C, start=C * share[: len(v)])
    slack = SHARE * C.max() + rounding(v, C, C)
    assert block_value(v, warm) <= block_value(v, block_optimum(multiclass, v, C)) + slack


def test_one_dear_class_does_not_hide_the_others():
    """Per-class C = (1e12, 1, 1): the violation of a cheap class counts in full."""
    v, C = np.array([-1.0, 2e-5, 1e-5]), np.array([1e12, 1.0, 1.0])
    b = minimise_block(BLOCKS["weston_watkins"]["newton"], v, C)
    np.testing.assert_allclose(b, block_optimum("weston_watkins", v, C), rtol=0, atol=1e-12)


def test_one_price_blocks_refuse_a_price_per_class():
    with pytest.raises(IncompatibleError, match="takes one C for all classes; use WestonWatkinsNewton"):
        minimise_block(BLOCKS["weston_watkins"]["sort"], np.ones(3), np.ones(3))


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
def test_bisection_and_cvxpy_agree_on_the_optimum(multiclass, block):
    rng = np.random.default_rng(0)
    for k, C in ((2, 1.0), (5, 0.3), (12, 2.0)):
        v = np.round(3 * rng.standard_normal(k - 1), 1)
        np.testing.assert_allclose(block_minimiser(multiclass, v, C), block_optimum(multiclass, v, C), atol=1e-5)
        np.testing.assert_allclose(minimise_block(block, v, C), block_optimum(multiclass, v, C), atol=1e-13)


@pytest.mark.parametrize(("multiclass", "block"), [case for case in EXACT if case.id != "greedy"])
@pytest.mark.parametrize("C", [1e-4, 10.0])
def test_a_hundred_thousand_classes_are_no_harder(multiclass, block, C):
    v = np.random.default_rng(1).standard_normal(100_000) * 3
    b = minimise_block(block, v, C)
    np.testing.assert_allclose(b, block_optimum(multiclass, v, C), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
@pytest.mark.parametrize("C", [0.0, 1e-10, 1.0, 1e8])
@pytest.mark.parametrize("k", [2, 3, 9])
def test_nothing_to_gain_leaves_zero(multiclass, block, C, k):
    """All v <= 0: the optimum is b = 0, whatever the start."""
    v = -np.arange(1.0, k)
    np.testing.assert_array_equal(minimise_block(block, v, C), np.zeros(k - 1))
    start = feasible_start(multiclass, C, np.full(k - 1, 0.5))
    np.testing.assert_allclose(minimise_block(block, v, C, start=start), 0.0, atol=1e-15 * max(C, 1.0) * k)


@given(v=vectors, C=prices.filter(lambda C: 0 < C < 1e3), share=shares)
def test_greedy_keeps_its_promise(v, C, share):
    """Where it ends before its step budget, no coordinate violates its KKT condition by more than ``accuracy``."""
    block = WestonWatkinsGreedy(steps_per_class=10_000)
    start = C * share[: len(v)]
    b = minimise_block(block, v, C, start=start)
    gradient = b + b.sum() - v
    slack = block.accuracy + rounding(v, C, start)
    assert (gradient[b < C] >= -slack).all()
    assert (gradient[b > 0] <= slack).all()


@pytest.mark.parametrize("family", ["ties", "shifted by C", "near fixed points", "C below the last digit"])
def test_sorted_block_survives_where_exact_comparisons_fall_through(family):
    """Maths: errata 004.2: rounding makes Algorithm 2 end without an answer; the block still gives the optimum."""
    rng = np.random.default_rng(2)
    block = BLOCKS["weston_watkins"]["sort"]
    for _ in range(400):
        k = int(rng.integers(2, 14))
        C = float(rng.choice([0.1, 0.3, 1 / 3, 1.0]))
        v = rng.integers(-3, 8, size=k) / 10
        if family == "shifted by C":
            v = v + C * rng.integers(0, 3, size=k)
        elif family == "near fixed points":
            b = block_optimum("weston_watkins", v, C)
            v = np.where(rng.random(k) < 0.5, b.sum() + C * rng.integers(0, 2, size=k), v)
        elif family == "C below the last digit":
            v, C = 3 * rng.standard_normal(k), 1e-16
        best = block_optimum("weston_watkins", v, C)
        np.testing.assert_allclose(minimise_block(block, v, C), best, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("multiclass", "name"),
    [(multiclass, name) for multiclass in BLOCKS for name in BLOCKS[multiclass] if name != "greedy"],
)
@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 9))
def test_row_gap_is_the_duality_gap_and_vanishes_at_the_optimum(multiclass, name, seed, k):
    """With one sample the row's gap before the step is P - D; after one exact step there is none."""
    solver = DualBlockDescent(block=name, working_set=False)
    rng = np.random.default_rng(seed)
    problem = MulticlassSVM(rng.standard_normal((1, 3)), [k - 1], C=0.8, multiclass=multiclass, n_classes=k)
    alpha = problem.feasible(-rng.random((1, k)))
    before = problem.primal(problem.point(alpha).weights).value - problem.dual(alpha).value
    state = solver.step(problem, solver.start(problem, problem.point(alpha), rng))
    assert state.gap == pytest.approx(before, abs=1e-12)
    state = solver.step(problem, state)
    assert abs(state.gap) <= 1e-13
    assert problem.certificate(solver.point(problem, state)).gap <= 1e-12


@pytest.mark.parametrize(("multiclass", "block"), EXACT)
def test_block_keeps_the_contract(multiclass, block):
    check_block(block, multiclass)


@pytest.mark.parametrize("multiclass", BLOCKS)
def test_a_broken_block_is_caught(multiclass):
    """A block of the other loss minimises over another set; a greedy one that stops early is not optimal."""
    other = "crammer_singer" if multiclass == "weston_watkins" else "weston_watkins"
    with pytest.raises(AssertionError, match="violates its optimality conditions"):
        check_block(next(iter(BLOCKS[other].values())), multiclass)
    with pytest.raises(AssertionError, match="violates its optimality conditions"):
        check_block(WestonWatkinsGreedy(1e-2), "weston_watkins")


@given(u=st.floats(-1e3, 1e3), Q=st.floats(1e-6, 1e6), start=st.floats(-800.0, 800.0))
def test_logit_of_two_classes_is_found_from_any_start(u, Q, start):
    """Newton's plain steps go back and forth for ever where Q is large, as from t = 5.4 at u = 5.4, Q = 37."""
    t, p = solve_logit(u, Q, start, 1e-6)
    assert abs(t + Q * expit(t) - u) <= 1e-5 * (1.0 + Q) * max(abs(t), 1.0)
    assert p == pytest.approx(expit(t), abs=1e-9)


@pytest.mark.parametrize("Q", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("length", [-0.5, -0.1, 0.1, 0.5])
def test_a_short_step_of_a_logit_needs_no_exponential(Q, length):
    """Where the share is known, a step leads to the solution but for its third power, and the share follows it."""
    for start in np.linspace(-12.0, 12.0, 25):
        u = start + length + Q * expit(start + length)
        t, p, is_found = move_logit(u, Q, start, expit(start), 0.6)
        assert is_found
        assert abs(t - start - length) <= 0.3 * abs(length) ** 3
        assert abs(p - expit(t)) <= 0.1 * abs(length) ** 4 * expit(t)
        assert not move_logit(u, Q, start, expit(start), 0.05)[2]
