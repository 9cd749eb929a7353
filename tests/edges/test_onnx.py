"""ONNX graphs score, label and give probabilities as our models do; judged by onnxruntime."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin import KernelSVC, L1BallClassifier, LinearSVC, SoftmaxRegression, TraceBallRegressor
from softmargin.cli import rows
from softmargin.core.errors import IncompatibleError
from softmargin.export import register_converters, to_onnx
from softmargin.features.scaling import fit_scaling
from softmargin.kernels import CallableKernel, Precomputed, make_kernel
from softmargin.models import KernelExpansion, LinearModel, LinearOneVsOne, LinearRegressor, OneVsOne
from softmargin.sets import LowRank

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6)).astype(np.float32)
X[3] = 0.0
LABELS = {
    "text": ["a", "<b>", "ü", "d"],
    "integers": np.array([-3, 0, 5, 9], dtype=np.int32),
    "floats": [0.1, 0.2, 1e9 + 0.1, 2e9],
    "bytes": np.array([b"a", b"b", b"c", b"d"]),
}
KERNELS = {
    "rbf": {"gamma": 0.2},
    "laplacian": {"gamma": 0.1},
    "polynomial": {"gamma": 0.3, "degree": 3, "coef0": 1.0},
    "sigmoid": {"gamma": 0.2, "coef0": -0.5},
    "linear": {},
}
POINTS = [[-2.0, 0.0, 0.5, 3.0], [-1.0, 1.0], [0.3], [-1.0, -0.5, 2.0]]
STEPS = [[0.01, 0.3, 0.4, 0.9], [0.2, 0.7], [0.5], [0.1, 0.1, 0.8]]
CALIBRATIONS = [
    {"method": "temperature", "slope": 1.7},
    {"method": "sigmoid", "slopes": [1.0, 2.0, 300.0, 0.5], "offsets": [0.0, -1.0, 0.3, 0.1]},
    {"method": "isotonic", "scores": POINTS, "probabilities": STEPS},
]


def of_two(calibration):
    return {name: value[:1] if isinstance(value, list) else value for name, value in calibration.items()}


def linear(labels, info=None, *, d=6, is_low_rank=False):
    k = 1 if len(labels) == 2 else len(labels)
    coef = LowRank(*(rng.normal(size=shape) for shape in ((k, 2), (2,), (d, 2)))) if is_low_rank else None
    return LinearModel(labels, rng.normal(size=(k, d)) if coef is None else coef, rng.normal(size=k), info or {})


def expansion(name, labels, info=None, vectors=None):
    k = 1 if len(labels) == 2 else len(labels)
    vectors = rng.normal(size=(9, 6)) if vectors is None else vectors
    own = (vectors, np.arange(len(vectors.indptr) - 1 if hasattr(vectors, "indptr") else len(vectors)), 20)
    coef = rng.normal(size=(len(own[1]), k))
    return KernelExpansion(labels, make_kernel(name, **KERNELS[name]), *own, coef, rng.normal(size=k), info or {})


def pairs(name, labels, info=None):
    k = len(labels)
    n, n_pairs = 3 * k, k * (k - 1) // 2
    own = (rng.normal(size=(n, 6)), np.full(k, 3), rng.normal(size=(n, k - 1)), rng.normal(size=n_pairs))
    return OneVsOne(labels, make_kernel(name, **KERNELS[name]), *own, info or {}, np.arange(n), n)


four, two = LABELS["integers"], LABELS["text"][:2]
MODELS = {
    **{f"labels of {kind}": linear(labels) for kind, labels in LABELS.items()},
    "two labels of bools": linear([False, True]),
    "sparse weights": LinearModel(four, csr_matrix(np.eye(4, 6)), np.zeros(4)),
    "weights of low rank": linear(four, is_low_rank=True),
    "softmax": linear(four, {"problem": "softmax"}),
    "softmax of two": linear(two, {"problem": "softmax"}),
    "logistic": linear(two, {"loss": "logistic"}),
    **{f"{each['method']}": linear(four, {"calibration": each}) for each in CALIBRATIONS},
    **{f"{each['method']} of two": linear(two, {"calibration": of_two(each)}) for each in CALIBRATIONS},
    **{f"{name} kernel": expansion(name, LABELS["text"]) for name in KERNELS},
    "kernel of two": expansion("rbf", two),
    "sparse vectors": expansion("rbf", four, vectors=csr_matrix(np.round(rng.normal(size=(9, 6))))),
    "no vectors": expansion("rbf", four, vectors=np.zeros((0, 6))),
    **{f"pairs, {name} kernel": pairs(name, four) for name in ("rbf", "linear")},
    "a pair": pairs("rbf", two),
    "pairs of weights": LinearOneVsOne(four, rng.normal(size=(6, 6)), rng.normal(size=6)),
    "pairs, calibrated": pairs("rbf", four, {"calibration": CALIBRATIONS[0]}),
    "numbers": LinearRegressor(rng.normal(size=(3, 6)), rng.normal(size=3)),
    "a number": LinearRegressor(rng.normal(size=(1, 6)), np.ones(1), True),
}


def outputs_of(made, X):
    onnx.checker.check_model(made, full_check=True)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: X}), strict=True))


def assert_near(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compute", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_computes_what_its_model_does(name, compute):
    model = MODELS[name]
    found = outputs_of(to_onnx(model, compute=compute), X)
    if isinstance(model, LinearRegressor):
        assert_near(found.pop("prediction"), model.predict(X))
        assert not found
        return
    assert_near(found["scores"], model.decision_function(X))
    expected = model.predict(X)
    np.testing.assert_array_equal(found["label"], expected.astype(str) if expected.dtype.kind == "S" else expected)
    assert ("probabilities" in found) == model.has_probabilities
    assert ("pair_scores" in found) == (hasattr(model, "pair_scores") and len(model.classes) > 2)
    if "probabilities" in found:
        steep = 1e-3 if name.startswith("sigmoid") and compute == "float32" else 1.0  # slope 300
        assert_near(found["probabilities"] * steep, model.predict_proba(X) * steep)
    if "pair_scores" in found:
        assert_near(found["pair_scores"], model.pair_scores(X))


@pytest.mark.parametrize("how", ["rows", "maxabs", "standard", "quantile"])
@pytest.mark.parametrize("kind", ["linear", "rbf", "numbers"])
def test_a_graph_takes_raw_rows_as_predict_does(how, kind):
    raw = np.round(3.0 * X.astype(float) + [0, 100, 0, 0, 0, -5])  # many equal values: quantiles that are equal, too
    info = fit_scaling(how, raw, "X").as_info()
    if kind == "numbers":
        model = LinearRegressor(rng.normal(size=(2, 6)), np.ones(2), info=info)
        expected = rows.numbers_of(model, raw, "X")
    else:
        model = linear(four, info) if kind == "linear" else expansion("rbf", four, info)
        expected = rows.scores_of(model, raw, "X")
    found = outputs_of(to_onnx(model), raw.astype(np.float32))
    assert_near(found["prediction" if kind == "numbers" else "scores"], expected)


@pytest.mark.parametrize("compute", ["float64", "float32"])
def test_distances_do_not_cancel_far_from_the_origin(compute):
    far = X + np.float32(1000.0)
    model = expansion("rbf", four, vectors=far[:9].astype(float))
    assert_near(outputs_of(to_onnx(model, compute=compute), far)["scores"], model.decision_function(far.astype(float)))


def test_what_has_no_formula_is_refused(tmp_path):
    given = KernelExpansion(two, Precomputed(), None, [0, 2], 3, [[1.0], [-1.0]], [0.0])
    function = CallableKernel(lambda A, B: A @ B.T)
    by_function = KernelExpansion(two, function, np.eye(2), [0, 1], 2, np.ones((2, 1)), [0.0])
    for model, name in ((given, "precomputed"), (by_function, "callable")):
        with pytest.raises(IncompatibleError, match=f"a {name} kernel has no formula"):
            to_onnx(model, tmp_path / "m.onnx")
    with pytest.raises(IncompatibleError, match="compute='float16' is unknown"):
        to_onnx(linear(two), compute="float16")
    wide = csr_matrix((np.ones(1), ([0], [0])), shape=(60_000, 60_000))
    large = KernelExpansion(two, make_kernel("rbf"), wide, np.arange(60_000), 60_000, np.ones((60_000, 1)), [0.0])
    with pytest.raises(IncompatibleError, match="at most 2 GB"):
        to_onnx(large)
    assert not list(tmp_path.iterdir())


def test_estimators_write_themselves(tmp_path):
    y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    clf = LinearSVC(random_state=0, probability="sigmoid", tol=1e-2).fit(X, y)
    made = clf.to_onnx(tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == made
    assert made.producer_name == "softmargin"
    found = outputs_of(made, X)
    np.testing.assert_array_equal(found["label"], clf.predict(X))
    assert_near(found["probabilities"], clf.predict_proba(X))
    labels = L1BallClassifier(tol=1e-2).fit(X, (X[:, :2] > 0).astype(int))
    with pytest.raises(IncompatibleError, match="several labels per row"):
        labels.to_onnx()


def test_pipelines_are_converted():
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    register_converters()
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    settings = {"tol": 1e-2, "random_state": 0}
    kernel = KernelSVC(kernel="laplacian", **settings)
    for clf, labels, options in (
        (kernel, y, {"zipmap": False}),
        (kernel, y == "a", {"zipmap": False, "nocl": True}),
        (SoftmaxRegression(**settings), y, {"zipmap": False}),
        (SoftmaxRegression(**settings), y, {"zipmap": False, "raw_scores": True}),
    ):
        pipe = make_pipeline(StandardScaler(), clf).fit(X, labels)
        found = outputs_of(skl2onnx.to_onnx(pipe, X[:1], options={id(clf): options}), X)
        np.testing.assert_array_equal(found["label"], pipe.predict(X))
        expected = pipe.decision_function(X)
        if hasattr(clf, "predict_proba") and "raw_scores" not in options:
            expected = pipe.predict_proba(X)
        assert_near(found["probabilities"], expected if expected.ndim == 2 else np.c_[-expected, expected])
    zipped = outputs_of(skl2onnx.to_onnx(pipe, X[:1]), X)
    assert zipped["output_probability"][0].keys() == {"a", "b", "c"}
    pipe = make_pipeline(StandardScaler(), TraceBallRegressor(1.5, **settings)).fit(X, X[:, :2])
    assert_near(outputs_of(skl2onnx.to_onnx(pipe, X[:1]), X)["variable"], pipe.predict(X))
