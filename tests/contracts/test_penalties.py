"""Every penalty keeps the contract of ``softmargin.testing.check_penalty``, also where rounding makes that hard."""

import itertools
import math
import pickle
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from softmargin.core.errors import DataError, SoftmarginError
from softmargin.penalties import (
    L0,
    L1,
    L2,
    MCP,
    PENALTIES,
    SCAD,
    Box,
    ElasticNet,
    Group,
    Grouped,
    GroupL0,
    GroupMCP,
    GroupSCAD,
    Nonnegative,
    SparseGroup,
    checked,
    parts,
)
from softmargin.penalties.parts import prox_by_rows, sums_over_entries
from softmargin.testing import check_penalty

INF = math.inf
MEMBERS = ("is_convex", "has_bound", "is_entrywise", "value", "prox", "prox_row", "conjugate", "reach", "distance")
DEFAULTS = [make() for make in PENALTIES.values()]
OTHERS = [
    L1(0.3),
    L2(4.0),
    ElasticNet(0.3, 2.0),
    ElasticNet(0.0, 0.0),
    Group(0.2),
    SparseGroup(0.0, 0.0, 0.0),
    SparseGroup(0.0, 0.4, 0.0),
    SparseGroup(2.0, 0.3, 0.0),
    SparseGroup(0.5, 0.2, 0.7),
    Nonnegative(0.5),
    Nonnegative(0.0, 2.0),
    Nonnegative(0.5, 2.0),
    Box(-INF, INF),
    Box(-INF, 2.0, 1.0),
    Box(0.5, 2.0),
    Box(-3.0, -1.0, 0.3, 0.1),
    Box(1.0, 1.0),
    MCP(0.3, 1.5),
    MCP(2.0, 0.1),
    MCP(0.0),
    SCAD(0.4, 2.1),
    SCAD(2.0, 30.0),
    L0(0.01),
    L0(0.0),
    GroupMCP(0.3, 1.5),
    GroupSCAD(0.5, 2.5),
    GroupL0(0.1),
]
EVERY = [pytest.param(penalty, id=str(penalty)) for penalty in [*DEFAULTS, *OTHERS]]
ONE_OF_EACH = [pytest.param(penalty, id=name) for name, penalty in zip(PENALTIES, DEFAULTS, strict=True)]


@pytest.mark.parametrize("penalty", EVERY)
def test_contract_is_kept(penalty):
    check_penalty(penalty)


@pytest.mark.parametrize("k", [1, 17])
@pytest.mark.parametrize("penalty", ONE_OF_EACH)
def test_contract_is_kept_for_any_number_of_classes(penalty, k):
    check_penalty(penalty, k=k, seed=k)


# Where one formula ends and the next begins: t = gamma = 3, t = a - 1 = 2.7, t = a + 1 = 4.7, next to them, far away.
ENDS = np.array([3.0, 3.7 - 1.0, 4.7])
STEPS = [*ENDS, *(ENDS - 0.4), *(ENDS + 0.4), *np.nextafter(ENDS, 0.0), *np.nextafter(ENDS, 9.0)]
STEPS = [float(t) for t in (*STEPS, 1e-300, 1e-12, 0.01, 1.0, 20.0, 1e12)]
NUDGES = [1.0, 1.0 - 2e-16, 1.0 + 3e-16, 1.0 - 1e-6, 1.0 + 1e-6]


def thresholds(t):
    """Return where some prox changes its formula: strength = 1, gamma = 3, a = 3.7, bounds 0 and 1."""
    roots = np.sqrt([2.0 * t, 3.0 * t, 4.7 * t])
    return [float(v) for v in (0.0, t, 2.0 * t, 1.0, 1.0 + t, 2.0 + t, 3.0, 3.7, 0.5 * (4.7 + t), *roots)]


def prox_is_no_worse(penalty, v, t, rivals):
    """Compare t g(w) + (w - v)^2 / 2 at w = prox(v) with the rivals."""

    def objective(w):
        return t * penalty.value(np.array([[w]])) + 0.5 * (w - v) ** 2

    best = objective(float(penalty.prox(np.array([[v]]), t)[0, 0]))
    return best <= min(objective(w) for w in rivals) + 1e-13 * (0.5 * v * v + abs(best)) < INF


@pytest.mark.parametrize("penalty", ONE_OF_EACH)
def test_prox_is_a_global_minimiser_at_every_threshold(penalty):
    for t in STEPS:
        for v in np.outer(thresholds(t), NUDGES).ravel():
            rivals = [0.0, v, 1.0, -1.0, 3.0, 3.7, max(v - t, 0.0), max(v - t, 0.0) / (1.0 + t)]
            assert prox_is_no_worse(penalty, v, t, rivals)
            assert prox_is_no_worse(penalty, -v, t, [-w for w in rivals])


@pytest.mark.parametrize("penalty", ONE_OF_EACH)
@given(v=st.floats(-8.0, 8.0), t=st.one_of(st.sampled_from(STEPS), st.floats(-6.0, 6.0).map(lambda x: 10.0**x)))
def test_prox_is_a_global_minimiser_on_a_grid(penalty, v, t):
    p = float(penalty.prox(np.array([[v]]), t)[0, 0])
    rivals = [*np.linspace(-1.1, 1.1, 121) * v, p * (1.0 - 1e-6), p * (1.0 + 1e-6)]
    assert prox_is_no_worse(penalty, v, t, rivals)


@pytest.mark.parametrize("penalty", ONE_OF_EACH)
def test_prox_row_is_prox_at_every_threshold(penalty):
    """At the threshold itself, where there are two minimisers, rounding may pick the other one."""
    for t in STEPS:
        V = np.outer(thresholds(t), NUDGES).reshape(-1, 1)
        for v, compiled in zip(V[:, 0], prox_by_rows(penalty, V, t)[:, 0], strict=True):
            row = np.array([v])
            penalty.prox_row(row, 0, 1, t)
            objectives = [t * penalty.value(np.array([[w]])) + 0.5 * (w - v) ** 2 for w in (row[0], compiled)]
            is_same = row[0] == pytest.approx(compiled, rel=1e-9, abs=1e-12)
            assert is_same or (not penalty.is_convex and objectives[0] == pytest.approx(objectives[1], rel=1e-12))


sizes = st.floats(-300.0, 6.0).map(lambda x: 10.0**x)
matrices = st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=4).map(np.array)


@pytest.mark.parametrize("kind", [L1, Group, Nonnegative, lambda strength: SparseGroup(strength, strength / 3.0)])
@given(V=matrices, strength=sizes)
def test_conjugate_is_finite_at_reach_in_floating_point_and_not_far_beyond(kind, V, strength):
    penalty = kind(strength)
    s = penalty.reach(V)
    assert 0.0 <= s <= 1.0
    assert penalty.conjugate(s * V) == 0.0
    assert penalty.conjugate(-s * -V) == 0.0
    if 1e-290 < s < 1.0 and strength > 1e-150:  # below, squares underflow and s may be too small
        assert penalty.conjugate(s * (1.0 + 1e-9) * V) == INF


def test_sparse_group_reaches_the_root_that_bisection_finds():
    rng = np.random.default_rng(0)
    for _ in range(30):
        V = rng.standard_normal((6, 9)) * 10.0 ** rng.uniform(-1, 3, (6, 1))
        penalty = SparseGroup(*10.0 ** rng.uniform(-3, 1, 2), 0.0)
        low, high = 0.0, 1.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if penalty.conjugate(middle * V) == 0.0 else (low, middle)
        assert penalty.reach(V) == pytest.approx(high, rel=1e-13)


@pytest.mark.parametrize("penalty", EVERY)
def test_memory_layout_does_not_matter(penalty):
    """Solvers hand over padded rows and transposed views."""
    V = np.random.default_rng(3).standard_normal((6, 4)) * 2.0
    W = penalty.prox(V, 0.5)
    padded, turned = np.full((6, 7), np.nan), np.asfortranarray(V)
    padded[:, :4] = V
    for view in (padded[:, :4], turned):
        np.testing.assert_allclose(penalty.prox(view, 0.5), W, rtol=1e-15)
        assert penalty.reach(view) == pytest.approx(penalty.reach(V), rel=1e-14)
        assert math.isfinite(penalty.conjugate(penalty.reach(view) * view))
        np.testing.assert_allclose(penalty.distance(W, view), penalty.distance(W, V), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("penalty", EVERY)
def test_nan_stays_nan(penalty):
    """A run that has gone wrong must be seen."""
    V = np.array([[0.5, np.nan, 3.0]])
    assert np.isnan(penalty.prox(V, 0.7)[0, 1])
    assert np.isnan(prox_by_rows(penalty, V, 0.7)[0, 1])


def test_penalties_that_contain_others_agree_with_them():
    V = np.random.default_rng(4).standard_normal((20, 5)) * 3.0
    for general, special in (
        (SparseGroup(0.0, 0.7, 0.3), ElasticNet(0.7, 0.3)),
        (Box(-INF, INF, 0.7, 0.3), ElasticNet(0.7, 0.3)),
        (SCAD(0.7, 1e9), L1(0.7)),
        (MCP(0.7, 1e9), L1(0.7)),
        (Grouped(MCP(0.7, 1e9)), Group(0.7)),
    ):
        W = special.prox(V, 0.4)
        np.testing.assert_allclose(general.prox(V, 0.4), W, rtol=1e-7, atol=1e-12)
        assert general.value(W) == pytest.approx(special.value(W), rel=1e-7)
        np.testing.assert_allclose(general.distance(W, V), special.distance(W, V), rtol=1e-6)
        if general.is_convex:
            assert general.conjugate(V) == pytest.approx(special.conjugate(V), rel=1e-12)


def test_bound_is_claimed_just_where_there_is_one():
    with_bound = [L1(), L2(), ElasticNet(), Group(), SparseGroup(0, 0, 1), Nonnegative(1), Nonnegative(0, 1), Box()]
    without = [
        ElasticNet(0, 0),
        SparseGroup(0, 0, 0),
        Nonnegative(),
        Box(0, INF),
        Box(-INF, 1),
        MCP(),
        GroupSCAD(),
        L0(),
    ]
    assert all(checked(penalty).has_bound for penalty in [*with_bound, Box(-INF, 1, l1=1), Box(-INF, 1, l2=1)])
    assert not any(checked(penalty).has_bound for penalty in without)


def test_entrywise_is_claimed_just_where_the_values_say_so():
    entrywise = [L1(), L2(), ElasticNet(), MCP(), SCAD(), L0(), Box(-0.2, 0.3), Box(0.1, 0.5), Nonnegative()]
    of_rows = [Group(), SparseGroup(), GroupMCP(), GroupSCAD(), GroupL0(), SparseGroup(1e-3, 1.0, 1.0)]
    for penalty in (*entrywise, *of_rows, SparseGroup(0.0, 1.0, 1.0)):
        assert penalty.is_entrywise == sums_over_entries(penalty), penalty
    assert all(penalty.is_entrywise for penalty in entrywise)
    assert not any(penalty.is_entrywise for penalty in of_rows)


@pytest.mark.parametrize("base", [L1(0.5), Group(0.5)], ids=str)
def test_a_penalty_that_leaves_out_is_entrywise_is_given_it(base):
    """As a penalty written before there was one, or for somebody's own use."""
    members = {name: vars(type(base))[name] for name in (*MEMBERS, "check") if name != "is_entrywise"}
    bare = type(next(names), (namedtuple("Bare", base._fields),), members)(*base)
    assert not hasattr(bare, "is_entrywise")
    assert checked(bare).is_entrywise == base.is_entrywise


@pytest.mark.parametrize("penalty", EVERY)
def test_penalties_pickle(penalty):
    copy = pickle.loads(pickle.dumps(penalty))
    assert copy == penalty
    assert type(copy) is type(penalty)


@pytest.fixture
def uncached(monkeypatch):
    """Keep classes of this file out of Numba's cache on disk: a program that cannot import them could not read it."""
    if hasattr(parts._prox_rows, "py_func"):
        monkeypatch.setattr(parts, "_prox_rows", njit(parts._prox_rows.py_func))


names = (f"Broken{number}" for number in itertools.count())  # Numba takes classes of one name for one class


def broken(base: type, /, **members: Any) -> Any:
    """Return a penalty with some of its members replaced."""
    return type(next(names), (base,), members)()


def prox_twice_as_long(self, V, t):
    return ElasticNet.prox(self, V, 2.0 * t)


def row_of_l1(self, row, first, k, t):
    for c in range(first, first + k):
        row[c] = max(row[c] - t, 0.0) + min(row[c] + t, 0.0)


def row_too_long(self, row, first, k, t):
    for c in range(first, first + k):
        row[c] = (max(row[c] - t, 0.0) + min(row[c] + t, 0.0)) / (1.0 + t)
    row[first - 1] = 0.0


def prox_in_place(self, V, t):
    V[:] = ElasticNet.prox(self, V, t)
    return V


def prox_of_first_step(self, V, t):
    return ElasticNet.prox(self, V, np.ravel(t)[0])


@pytest.mark.parametrize(
    ("base", "members", "sentence"),
    [
        pytest.param(ElasticNet, {"prox": prox_twice_as_long}, "prox_row", id="prox of 2 t"),
        pytest.param(ElasticNet, {"prox": prox_in_place}, "leave its argument alone", id="prox in place"),
        pytest.param(ElasticNet, {"prox": prox_of_first_step}, "prox_row", id="prox of one t"),
        pytest.param(ElasticNet, {"prox_row": row_of_l1}, "prox_row, as plain Python", id="prox_row"),
        pytest.param(ElasticNet, {"prox_row": row_too_long}, "outside", id="prox_row outside"),
        pytest.param(ElasticNet, {"value": lambda s, W: 1.0 + ElasticNet.value(s, W)}, "sum of the values", id="value"),
        pytest.param(ElasticNet, {"value": lambda s, W: 2.0 * ElasticNet.value(s, W)}, "does not minimise", id="2 g"),
        pytest.param(ElasticNet, {"conjugate": lambda s, V: 2.0 * ElasticNet.conjugate(s, V)}, "must be", id="2 g*"),
        pytest.param(ElasticNet, {"conjugate": lambda s, V: 0.5 * ElasticNet.conjugate(s, V)}, "below", id="g* / 2"),
        pytest.param(ElasticNet, {"distance": lambda s, W, V: np.zeros(len(W))}, "short prox step", id="no distance"),
        pytest.param(ElasticNet, {"distance": lambda s, W, V: np.abs(V).max(axis=1)}, "subgradient", id="distance"),
        pytest.param(ElasticNet, {"reach": lambda s, V: 0.5}, "finite at", id="reach too short"),
        pytest.param(SparseGroup, {"reach": lambda s, V: 1.0}, "infinite there", id="reach too long"),
        pytest.param(L0, {"is_convex": True}, "further apart", id="not convex"),
        pytest.param(MCP, {"shrink": lambda s, v, t: v}, "prox", id="shrink"),
        pytest.param(MCP, {"slope": lambda s, size: 0.0 * size}, "distance", id="slope"),
    ],
)
@pytest.mark.usefixtures("uncached")
def test_check_penalty_catches(base, members, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_penalty(broken(base, **members))


@pytest.mark.usefixtures("uncached")
def test_check_penalty_catches_a_prox_that_is_wrong_in_both_forms():
    def prox_row(self, row, first, k, t):
        for c in range(first, first + k):
            row[c] = (max(row[c] - t, 0.0) + min(row[c] + t, 0.0)) / (1.0 + 1.01 * t)

    def prox(self, V, t):
        return np.sign(V) * np.maximum(np.abs(V) - t, 0.0) / (1.0 + 1.01 * t)

    with pytest.raises(AssertionError, match="does not minimise"):
        check_penalty(broken(ElasticNet, prox=prox, prox_row=prox_row))


@pytest.mark.parametrize(
    ("penalty", "advice"),
    [
        (L1(-1.0), "l1 must be finite and not negative"),
        (L2(INF), "l2 must be finite"),
        (L2(math.nan), "l2 of penalty=.* must be a number; found nan"),
        (ElasticNet("1", 0.0), "l1 of penalty=.* must be a number; found '1'"),
        (SparseGroup(-0.1), "group must be finite and not negative"),
        (Nonnegative(-1.0), "l1 must be"),
        (Box(2.0, 1.0), "low must not be above high"),
        (Box(INF, INF), "finite number"),
        (MCP(1.0, 0.0), "gamma must be above 0"),
        (MCP(-1.0), "strength must be"),
        (SCAD(1.0, 2.0), "a must be above 2"),
        (GroupSCAD(1.0, 1.0), "a must be above 2"),
        (GroupL0(-1.0), "strength must be"),
        (Grouped(L1()), "the inner penalty has no shrink and no slope"),
        (Grouped(3.0), "the inner penalty has no shrink"),
        (MCP, "such as L1"),
        (L1, "such as L1"),
        ("l1", "it has no is_convex, no has_bound, no value, no prox"),
        (None, "it has no is_convex"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(penalty, advice):
    with pytest.raises(SoftmarginError, match=advice) as refused:
        checked(penalty)
    assert "penalty=" in str(refused.value)


def test_what_lacks_a_member_is_refused_by_its_name():
    class Half(NamedTuple):
        strength: float = 1.0
        is_convex = True
        has_bound = True

        def value(self, W):
            return 0.0

        def prox(self, V, t):
            return V

        def distance(self, W, V):
            return np.zeros(len(W))

    with pytest.raises(DataError, match="it has no prox_row, no conjugate, no reach"):
        checked(Half())


def test_a_penalty_that_is_no_named_tuple_is_refused():
    class Loose:
        pass

    for name in MEMBERS:
        setattr(Loose, name, getattr(ElasticNet, name))
    with pytest.raises(DataError, match="Loose is no NamedTuple"):
        checked(Loose())


def test_integers_become_floats_so_that_loops_compile_once():
    assert all(type(number) is float for number in checked(SparseGroup(1, np.float32(2), 0)))
    assert all(type(number) is float for number in checked(GroupMCP(1, 3)).inner)
