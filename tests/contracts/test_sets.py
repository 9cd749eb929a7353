"""Sets: nearest points, corners and least values of every ball; three ways to the nearest balanced point.

The claims about balls are made of every member, on matrices of every shape, with ties, zeros and extreme radii.
"""

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csc_matrix, csr_matrix

from reference.l2_optimum import nearest_balanced
from softmargin.core.errors import IncompatibleError
from softmargin.core.pieces import ConvexSet
from softmargin.sets import BALANCERS, Box, L1Ball, LowRank, Simplex, SingleEntry, TraceBall, project_balanced
from softmargin.sets.balls import checked_radius
from softmargin.sets.truncated import TruncationTuning, first_basis, is_whole, leading
from softmargin.testing import check_set

every_balancer = pytest.mark.parametrize("method", sorted(BALANCERS))
numbers = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.5]),  # ties
    st.floats(-5, 5),
    st.floats(-1e8, 1e8),
    st.floats(-1e-8, 1e-8),
)


@st.composite
def cases(draw, values=numbers, least=1):
    n = draw(st.integers(least, 9))
    beta = np.array(draw(st.lists(values, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    return beta, y


def slope(root, z, y, w):
    """g(root): what the positives still have above the root, less what the negatives have below it."""
    return float((w * np.where(y > 0, np.maximum(z - root, 0.0), np.minimum(z - root, 0.0))).sum())


@every_balancer
@given(case=cases())
def test_projection_is_feasible_and_idempotent(method, case):
    beta, y = case
    size = np.abs(beta).max() + 1e-300
    a, _ = project_balanced(beta, y, method=method)
    assert (a >= 0).all()
    assert abs(y @ a) <= 1e-14 * len(y) * size
    again, _ = project_balanced(a, y, method=method)
    np.testing.assert_allclose(again, a, atol=1e-13 * len(y) * size)


@given(case=cases())
def test_all_balancers_find_the_same_point(case):
    beta, y = case
    points = [project_balanced(beta, y, method=method)[0] for method in BALANCERS]
    for point in points[1:]:
        np.testing.assert_allclose(point, points[0], rtol=1e-12, atol=1e-14 * len(y) * np.abs(beta).max())


@given(case=cases(), other=cases(least=9))
def test_no_feasible_point_is_nearer(case, other):
    """The distance to the projection makes an obtuse angle with the way to every other feasible point."""
    beta, y = case
    a, _ = project_balanced(beta, y)
    candidate, _ = project_balanced(other[0][: len(y)], y, method="sort")
    scale = (np.abs(beta).max() + np.abs(candidate).max() + 1e-300) ** 2
    assert (beta - a) @ (candidate - a) <= 1e-13 * len(y) * scale


@every_balancer
@pytest.mark.parametrize("seed", range(4))
def test_projection_agrees_with_a_qp(method, seed):
    rng = np.random.default_rng(seed)
    beta, y = rng.standard_normal(12).round(seed), np.where(rng.random(12) < 0.4, 1.0, -1.0)
    np.testing.assert_allclose(project_balanced(beta, y, method=method)[0], nearest_balanced(beta, y), atol=1e-6)


@every_balancer
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_single_class_has_only_the_origin(method, label):
    a, _ = project_balanced(np.array([3.0, -1.0, 2.0, 2.0]), np.full(4, label), method=method)
    np.testing.assert_array_equal(a, 0.0)


@every_balancer
@given(case=cases(), start=st.floats(-1e9, 1e9), seed=st.integers(0, 99))
def test_weighted_root_balances_both_sides_from_any_start(method, case, start, seed):
    """Where no root is exact in floating point, g changes its sign within rounding of the root."""
    z, y = case
    w = np.random.default_rng(seed).exponential(size=len(z)) + 0.01
    root = BALANCERS[method](z, y, w, start)
    near = 1e-14 * (len(z) + 1) * np.abs(z).max() + 1e-300
    assert slope(root - near, z, y, w) >= -1e-15
    assert slope(root + near, z, y, w) <= 1e-15


def test_weight_two_is_the_point_twice():
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal(20), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    w = np.where(np.arange(20) % 3 == 0, 2, 1)
    for balance in BALANCERS.values():
        assert balance(z, y, w) == pytest.approx(balance(np.repeat(z, w), np.repeat(y, w)), abs=1e-14)


RADII = [1e-9, 1.0, 1e9]
every_ball = pytest.mark.parametrize(
    "ball",
    [
        *(kind(radius) for kind in (L1Ball, Simplex, TraceBall) for radius in RADII),
        Box(-1.0, 2.0),
        Box(0.5, 0.5 + 1e-6),
        Box(-1e9, -1.0),
    ],
    ids=repr,
)
entries = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-5, 5), st.floats(-1e6, 1e6))
shapes = st.sampled_from([(1, 1), (1, 4), (5, 1), (3, 2), (2, 3), (4, 4)])


@every_ball
def test_ball_has_every_verb_of_a_convex_set(ball):
    assert isinstance(ball, ConvexSet)


@st.composite
def matrices(draw, count=1):
    shape = draw(shapes)
    drawn = [draw(arrays(np.float64, shape, elements=entries)) for _ in range(count)]
    return drawn[0] if count == 1 else drawn


def scale_of(ball, *points):
    """Return the size of the numbers at hand, for rounding."""
    own = max(abs(ball.low), abs(ball.high)) if isinstance(ball, Box) else ball.radius
    return max(own, *(float(np.abs(point).max()) for point in points))


def size_without_rounding(ball, W, scale):
    """Return 1 at most where W is in the ball but for rounding."""
    if isinstance(ball, Simplex):
        near = W.min() >= 0.0 and abs(W.sum() - ball.radius) <= 1e-14 * W.size * scale
        return 1.0 if near else np.inf
    if isinstance(ball, Box):
        return 1.0 if ball.low <= W.min() and W.max() <= ball.high else np.inf
    return ball.size(W) / (1.0 + 1e-12)


@every_ball
@given(V=matrices())
def test_nearest_point_is_feasible_and_stays(ball, V):
    W = ball.project(V)
    scale = scale_of(ball, V)
    assert W.shape == V.shape
    assert size_without_rounding(ball, W, scale) <= 1.0
    np.testing.assert_allclose(ball.project(W), W, atol=1e-14 * V.size * scale)


@every_ball
@given(pair=matrices(count=2))
def test_no_feasible_point_is_nearer_to_the_matrix(ball, pair):
    """The way to any other feasible point makes an obtuse angle with the way to the matrix."""
    V, other = pair
    W, candidate = ball.project(V), ball.project(other)
    assert np.vdot(V - W, candidate - W) <= 1e-13 * V.size * scale_of(ball, V, other) ** 2


@every_ball
@given(pair=matrices(count=2))
def test_corner_is_feasible_and_nothing_goes_further_against_the_gradient(ball, pair):
    G, other = pair
    corner = ball.lmo(G)
    scale = scale_of(ball, G)
    assert corner.shape == G.shape
    assert size_without_rounding(ball, corner.toarray(), scale) <= 1.0
    rounding = 1e-13 * G.size * scale * scale_of(ball, other) + 1e-13 * G.size * scale**2
    assert corner.inner(G) <= np.vdot(ball.project(other), G) + rounding
    assert corner.inner(G) == pytest.approx(np.vdot(corner.toarray(), G), abs=rounding)


@every_ball
@given(pair=matrices(count=2), l2=st.sampled_from([0.0, 1e-3, 1.0, 50.0]))
def test_least_value_is_reached_and_never_undercut(ball, pair, l2):
    Z, other = pair

    def value(W):
        return 0.5 * l2 * np.vdot(W, W) + np.vdot(Z, W)

    least = ball.least(Z, l2)
    best = ball.lmo(Z).toarray() if l2 == 0.0 else ball.project(-Z / l2)
    rounding = 1e-13 * Z.size * scale_of(ball, Z) * max(scale_of(ball, Z), scale_of(ball, Z) / (l2 or 1.0))
    rounding += 1e-13 * l2 * scale_of(ball, best) ** 2
    assert least == pytest.approx(value(best), rel=1e-12, abs=rounding)
    candidate = ball.project(other)
    assert least <= value(candidate) + rounding + 1e-13 * abs(value(candidate))


@pytest.mark.parametrize("shape", [(1, 5), (6, 1), (5, 4)])
@pytest.mark.parametrize("ball", [L1Ball(1.5), Simplex(1.5), TraceBall(1.5), Box(-0.2, 0.4)], ids=repr)
def test_least_value_is_what_a_conic_program_finds(ball, shape):
    Z, l2 = np.random.default_rng(0).standard_normal(shape), 0.3
    W = cp.Variable(shape)
    inside = {
        L1Ball: lambda: [cp.sum(cp.abs(W)) <= ball.radius],
        Simplex: lambda: [W >= 0, cp.sum(W) == ball.radius],
        TraceBall: lambda: [cp.normNuc(W) <= ball.radius],
        Box: lambda: [ball.low <= W, ball.high >= W],
    }[type(ball)]()
    cp.Problem(cp.Minimize(0.5 * l2 * cp.sum_squares(W) + cp.sum(cp.multiply(Z, W))), inside).solve(solver=cp.CLARABEL)
    assert ball.least(Z, l2) == pytest.approx(0.5 * l2 * np.sum(W.value**2) + np.vdot(Z, W.value), rel=1e-6)
    np.testing.assert_allclose(ball.project(-Z / l2), W.value, atol=1e-4)


@pytest.mark.parametrize("apart", range(10, 40, 2))
def test_the_digits_of_a_projection_do_not_hang_on_where_arrays_lie(apart):
    """Compiled loops have versions for arrays that may overlap: both must sum in the same order."""
    rng, ball, memory = np.random.default_rng(0), L1Ball(2.0), np.zeros(100)
    for _ in range(20):
        V, pulls = 2.0 * rng.standard_normal((2, 5)), rng.random(2)
        near, far = memory[:10].reshape(2, 5), np.empty((2, 5))
        out = memory[apart : apart + 10].reshape(2, 5)
        near[:] = V
        assert ball.pull_into(near, pulls, 0.0, out) == ball.pull_into(V, pulls, 0.0, far)
        np.testing.assert_array_equal(out, far)
        theta = ball.level(V)
        ball.shrink_into(near, theta, 1.0, out)
        ball.shrink_into(V, theta, 1.0, far)
        np.testing.assert_array_equal(out, far)


@pytest.mark.parametrize("kind", [L1Ball, TraceBall])
@given(V=matrices())
def test_size_is_the_share_of_the_radius(kind, V):
    norm = np.abs(V).sum() if kind is L1Ball else np.linalg.svd(V, compute_uv=False).sum()
    assert kind(2.0).size(V) == pytest.approx(norm / 2.0, rel=1e-12, abs=1e-300)


def test_size_of_simplex_and_box():
    assert Simplex(2.0).size(np.array([[0.5, 1.5]])) == 1.0
    assert Simplex(2.0).size(np.array([[0.5, 1.0]])) == np.inf
    assert Simplex(2.0).size(np.array([[-0.5, 2.5]])) == np.inf
    assert Box(-1.0, 3.0).size(np.array([[1.0, 2.0]])) == 0.5
    assert Box(-1.0, 3.0).size(np.array([[-3.0, 2.0]])) == 2.0


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_radius_must_be_positive_and_finite(radius):
    with pytest.raises(IncompatibleError, match="radius must be a finite number > 0"):
        checked_radius(radius)


@pytest.mark.parametrize("shape", [(90, 80), (5, 200)])
@pytest.mark.parametrize("kind", ["gaussian", "zero", "ties"])
def test_corner_of_a_large_matrix_is_that_of_its_whole_decomposition(shape, kind):
    G = np.random.default_rng(0).standard_normal(shape)
    if kind != "gaussian":
        G = np.zeros(shape) if kind == "zero" else np.eye(*shape)
    ball = TraceBall(3.0)
    corner = ball.lmo(G)
    assert corner.inner(G) == pytest.approx(-3.0 * np.linalg.norm(G, 2), rel=1e-10)
    assert ball.size(corner) == pytest.approx(1.0, rel=1e-12)


class Counted:
    """A matrix known by its products, which are counted."""

    def __init__(self, M):
        self.M, self.shape, self.columns, self.formed = M, M.shape, [], False

    def times(self, V):
        self.columns.append(V.shape[1])
        return self.M @ V

    def adjoint(self, Q):
        return self.M.T @ Q

    def toarray(self):
        self.formed = True
        return self.M


def nothing(shape):
    return LowRank(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))


def falling(d=90, k=70, *, rate=0.8, seed=0):
    """Return a matrix with singular values rate^i."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((size, min(d, k))))[0] for size in (d, k))
    return (U * 10.0 * rate ** np.arange(min(d, k))) @ V.T


SPECTRA = {
    "falling": falling(),
    "steep": falling(rate=0.3),
    "wide": falling(40, 120),
    "ties": falling()[:, :60] @ np.eye(60, 70) + 3.0 * np.eye(90, 70),
    "low rank": falling()[:, :3] @ falling()[:3],
    "zero": np.zeros((90, 70)),
    "one column": falling(90, 1),
    "one row": falling(1, 90),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("radius", [1e-3, 1.0, 20.0, 1e5])
def test_truncated_projection_is_the_whole_one(name, radius):
    M, ball = SPECTRA[name], TraceBall(radius)
    matrix = Counted(M)
    top = leading(matrix, first_basis(nothing(M.shape)), ball.theta, accuracy=1e-9)
    W = ball.shrink(top)
    np.testing.assert_allclose(W.toarray(), ball.project(M), atol=1e-7 * max(1.0, np.abs(M).max()))
    assert ball.least_by(top.s, 1.0) == pytest.approx(ball.least(M, 1.0), rel=1e-9, abs=1e-12)
    if top.rotation is None:
        assert matrix.formed
    else:
        assert not matrix.formed
        assert top.s[-1] <= max(ball.theta(top.s), 1e-14 * top.s[0])  # the exactness test
        np.testing.assert_allclose(top.U.T @ top.U, np.eye(len(top.s)), atol=1e-12)
        np.testing.assert_allclose(M.T @ top.U, top.V * top.s, atol=1e-12 * max(1.0, top.s[0]))


def test_columns_double_until_the_least_value_is_below_the_threshold():
    M = falling(200, 180, rate=0.9)
    matrix = Counted(M)
    top = leading(matrix, first_basis(nothing(M.shape)), TraceBall(60.0).theta, accuracy=1e-6)
    widths = sorted(set(matrix.columns))
    spare = TruncationTuning().spare
    assert widths == [spare * 2**step for step in range(len(widths))]
    assert len(widths) > 1
    assert len(top.s) == widths[-1]
    capped = leading(Counted(M), first_basis(nothing(M.shape)), TraceBall(60.0).theta, most=spare)
    assert len(capped.s) == spare
    assert capped.s[-1] > TraceBall(60.0).theta(capped.s)


def test_known_basis_needs_one_sweep():
    M, ball = falling(rate=0.5), TraceBall(5.0)
    cold, warm = Counted(M), Counted(M)
    top = leading(cold, first_basis(nothing(M.shape)), ball.theta, accuracy=1e-9)
    leading(warm, top.V, ball.theta, accuracy=1e-6)
    assert len(warm.columns) == 1 < len(cold.columns)


def test_whole_decomposition_is_for_half_of_all_triples():
    assert is_whole(5, (10, 100))
    assert not is_whole(4, (10, 100))


ATOMS = {
    "entry": SingleEntry(2, 1, -1.5, (5, 3)),
    "low rank": LowRank(np.arange(10.0).reshape(5, 2), np.array([2.0, -1.0]), np.arange(6.0).reshape(3, 2) - 2.0),
    "rank 0": LowRank(np.zeros((5, 0)), np.zeros(0), np.zeros((3, 0))),
    "corner": Box(-1.0, 2.0).lmo(np.arange(15.0).reshape(5, 3) - 7.0),
}


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, csc_matrix])
@pytest.mark.parametrize("name", ATOMS)
def test_atom_does_what_its_array_does(name, form):
    atom, rng = ATOMS[name], np.random.default_rng(0)
    W, G, X = atom.toarray(), rng.standard_normal((5, 3)), rng.standard_normal((7, 5))
    assert atom.shape == W.shape == (5, 3)
    np.testing.assert_allclose(atom.times(form(X)), X @ W, atol=1e-12)
    assert atom.inner(G) == pytest.approx(np.vdot(W, G), abs=1e-12)
    added = G.copy()
    atom.add_to(added, -0.7)
    np.testing.assert_allclose(added, G - 0.7 * W, atol=1e-12)


@pytest.mark.parametrize("name", ["low rank", "rank 0"])
def test_orthogonal_factors_are_the_singular_triples(name):
    W = ATOMS[name]
    again = W.orthogonal()
    np.testing.assert_allclose(again.toarray(), W.toarray(), atol=1e-12)
    np.testing.assert_allclose(again.U.T @ again.U, np.eye(W.rank), atol=1e-12)
    np.testing.assert_allclose(again.V.T @ again.V, np.eye(W.rank), atol=1e-12)
    np.testing.assert_allclose(again.s, np.linalg.svd(W.toarray(), compute_uv=False)[: W.rank], atol=1e-12)
    assert W.sqnorm() == pytest.approx(np.sum(W.toarray() ** 2), abs=1e-12)
    assert TraceBall(2.0).size(W) == pytest.approx(TraceBall(2.0).size(W.toarray()), abs=1e-12)


@every_ball
@pytest.mark.parametrize("seed", range(3))
def test_set_keeps_the_contract(ball, seed):
    check_set(ball, seed=seed)


BROKEN_SETS = {
    "project, outside": ("project", lambda ball: lambda V: 1.01 * ball.project(V), "outside|nearest point"),
    "project, not nearest": ("project", lambda ball: lambda V: 0.9 * ball.project(V), "is nearer|nearest point"),
    "lmo, not the least": ("lmo", lambda ball: lambda G: ball.lmo(np.roll(G, 1)), "at the corner|least is"),
    "least, too low": ("least", lambda ball: lambda Z, l2: ball.least(Z, l2) - 1e-3, "least is"),
    "size, too small": ("size", lambda ball: lambda W: 1.5 * ball.size(W), "outside"),
}


@pytest.mark.parametrize("name", BROKEN_SETS)
@pytest.mark.parametrize("ball", [L1Ball(1.0), TraceBall(1.0)], ids=repr)
def test_a_broken_set_is_caught(ball, name):
    verb, make, sentence = BROKEN_SETS[name]
    broken = SimpleNamespace(**{each: getattr(ball, each) for each in ("project", "lmo", "least", "size")})
    setattr(broken, verb, make(ball))
    with pytest.raises(AssertionError, match=sentence):
        check_set(broken)
