"""Models as ONNX graphs, of plain operators that every runtime has.

    input    X               (n, d) float32   raw rows: what `--normalize` has learnt is part of the graph
    outputs  label           (n,)             int64, float64, bool or text, as the classes are
             scores          (n, k) or (n,)   float32, as decision_function
             pair_scores     (n, pairs)       of one-vs-one with more than two classes
             probabilities   (n, k)           where the model has them
             prediction      (n,) or (n, k)   of a regressor, which has no other output

Inside, numbers are float64, so that scores are ours to the last digits of float32; or float32, for runtimes that have
nothing else.
"""

from __future__ import annotations

import json
import os
from functools import singledispatch
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import softmargin
from softmargin.core.errors import IncompatibleError
from softmargin.core.files import atomic_write
from softmargin.core.parameters import OneOf, checked
from softmargin.export.graph import REALS, Graph, Node, attribute, graph_proto
from softmargin.features.scaling import Scaling, scaling_of
from softmargin.kernels import Laplacian, Linear, Polynomial, Rbf, Sigmoid
from softmargin.models import KernelExpansion, LinearRegressor, OneVsOne
from softmargin.models.one_vs_one import Votes
from softmargin.models.shapes import Classifier, Predictor, dense
from softmargin.sets import LowRank

__all__ = ["add_model", "to_onnx"]

Array = NDArray[Any]
_OPSET = 13  # of 2020: it has all operators used here, with all their types
_IR_VERSION = 8  # what runtimes of that time read
# A slope that takes the smallest difference of two numbers beyond 1, and is finite.
_STEEP = {np.dtype(np.float64): 1e300, np.dtype(np.float32): 1e30}


def to_onnx(model: Predictor, path: str | os.PathLike[str] | None = None, *, compute: str = "float64") -> Any:
    """Return a model as an ONNX graph, and write it to a file, whole or not at all, where one is named.

    Parameters
    ----------
    model : LinearModel, LinearRegressor, KernelExpansion, OneVsOne or LinearOneVsOne
        Estimators have a method of the same name.
    path : path-like, optional
    compute : {"float64", "float32"}, default="float64"
        What numbers are inside the graph; its input and its scores are float32.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    IncompatibleError
        The kernel is precomputed or a Python function, or onnx is not installed.
    """
    try:
        from onnx import helper
    except ImportError as problem:
        raise IncompatibleError("ONNX graphs need the package onnx: pip install 'softmargin[onnx]'.") from problem
    graph = Graph(REALS[checked("compute", compute, OneOf(*REALS))])
    outputs = add_model(graph, model, graph("Cast", "X", to=graph.real))
    infos = []
    for name, (made, kind, shape) in outputs.items():
        operator, how = ("Identity", {}) if name == "label" else ("Cast", {"to": np.dtype(np.float32)})
        graph.nodes.append(Node(operator, [made], name, how))
        infos.append(helper.make_tensor_value_info(name, attribute(np.dtype(kind)), ["n", *shape]))
    rows = helper.make_tensor_value_info("X", attribute(np.dtype(np.float32)), ["n", model.n_features])
    made = helper.make_model(
        graph_proto(graph, "softmargin", [rows], infos),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="softmargin",
        producer_version=softmargin.__version__,
    )
    names = (model.info.get("columns") or {}).get("names")
    told = {"kind": type(model).__name__, "problem": model.info.get("problem"), "columns": names}
    helper.set_model_props(made, {name: json.dumps(value) for name, value in told.items() if value is not None})
    if path is not None:
        with atomic_write(path) as file:
            file.write(made.SerializeToString())
    return made


# --- what the models compute -----------------------------------------------------------------------------------------

Outputs = dict[str, tuple[str, Any, list[int]]]  # name -> what makes it, its type, its shape after n


def add_model(g: Graph, model: Predictor, x: str) -> Outputs:
    """Add all that a model computes from raw rows ``x``."""
    sums = _sums(model, g, _scaled(g, scaling_of(model), x, model.n_features))
    if isinstance(model, LinearRegressor):
        shape = [] if model.is_flat else [len(model.intercept)]
        return {"prediction": (_flat(g, sums) if model.is_flat else sums, np.float32, shape)}
    assert isinstance(model, Classifier)
    k, outputs = len(model.classes), Outputs()
    if isinstance(model, Votes):
        codes, scores = _votes(g, sums, k)
        if k > 2:
            outputs["pair_scores"] = (sums, np.float32, [len(model.intercept)])
    elif k == 2:
        codes, scores = g("Cast", _flat(g, g("Greater", sums, 0.0)), to=np.dtype(np.int64)), sums
    else:
        codes, scores = g("ArgMax", sums, axis=1, keepdims=0), sums
    classes = model.classes.astype(str) if model.classes.dtype.kind == "S" else model.classes
    if np.can_cast(classes.dtype, np.int64) and classes.dtype.kind != "b":
        classes = classes.astype(np.int64)
    labels = g("Gather", g.constant(classes, is_real=False), codes, axis=0)
    outputs = {
        "label": (labels, classes.dtype, []),
        "scores": (_flat(g, scores), np.float32, []) if k == 2 else (scores, np.float32, [k]),
        **outputs,
    }
    if model.has_probabilities:
        outputs["probabilities"] = (_probabilities(g, scores, model.info.get("calibration"), k), np.float32, [k])
    return outputs


def _flat(g: Graph, column: str) -> str:
    """Make (n,) of (n, 1)."""
    return g("Reshape", column, np.array([-1]))


def _squares(g: Graph, x: str, d: int) -> str:
    """Add |x|^2 of rows of d numbers, (n, 1): without a reduction, which other versions of ONNX spell otherwise."""
    return g("MatMul", g("Mul", x, x), np.ones((d, 1)))


def _scaled(g: Graph, scaling: Scaling, x: str, d: int) -> str:
    """Add what is done to raw rows; see `features.scaling`."""
    if scaling.how == "rows":
        lengths = g("Sqrt", _squares(g, x, d))
        is_zero = g("Cast", g("Equal", lengths, 0.0), to=g.real)
        return g("Div", x, g("Add", lengths, is_zero))
    if scaling.quantiles is not None:
        levels = np.linspace(0.0, 1.0, len(scaling.quantiles))
        return _interpolated(g, x, scaling.quantiles.T, np.broadcast_to(levels, scaling.quantiles.T.shape))
    if scaling.scales is None:
        return x
    return g("Div", x if scaling.shifts is None else g("Sub", x, scaling.shifts), scaling.scales)


@singledispatch
def _sums(model: Any, g: Graph, x: str) -> str:
    """Add the sums of weights and values of a model, (n, columns): a linear one, where it is no other."""
    if isinstance(model.coef, LowRank):
        products = g("MatMul", g("MatMul", x, model.coef.V), (model.coef.U * model.coef.s).T)
    else:
        products = g("MatMul", x, dense(model.coef).T)
    return g("Add", products, model.intercept)


@_sums.register(KernelExpansion)
@_sums.register(OneVsOne)
def _(model: Any, g: Graph, x: str) -> str:
    if isinstance(model.kernel, Linear):
        return _sums(model.as_linear, g, x)
    pairs = isinstance(model, OneVsOne)
    coef = np.column_stack([column for _, _, column in model.pairs()]) if pairs else model.coef
    if model.vectors is None or not isinstance(model.kernel, Rbf | Laplacian | Polynomial | Sigmoid):
        raise IncompatibleError(
            f"a model with a {model.kernel.name} kernel has no formula to export: its kernel values are given or made "
            "by Python. Use rbf, laplacian, polynomial, sigmoid or linear."
        )
    if not len(coef):
        return g("Add", g("MatMul", x, np.zeros((model.n_features, coef.shape[1]))), model.intercept)
    return g("Add", g("MatMul", _kernel_values(g, model.kernel, x, model.vectors), coef), model.intercept)


def _kernel_values(g: Graph, kernel: Any, x: str, vectors: Any) -> str:
    """Add the kernel values between the rows and the vectors, (n, s)."""
    g.check_size(vectors.shape[0] * vectors.shape[1])
    vectors = dense(vectors).astype(np.float64)
    if isinstance(kernel, Laplacian):
        return g("Exp", g("Mul", _manhattan(g, x, vectors), -kernel.gamma))
    if isinstance(kernel, Rbf):
        # From the mean of the vectors: far from the origin, |a|^2 - 2 <a, b> + |b|^2 cancels.
        mean = vectors.mean(axis=0).astype(g.real).astype(np.float64)
        moved, vectors = g("Sub", x, mean), vectors - mean
        squares = _squares(g, moved, len(mean))
        products = g("MatMul", moved, 2.0 * vectors.T)
        exponents = g("Sub", g("Sub", products, squares), (vectors**2).sum(axis=1))
        return g("Exp", g("Mul", g("Min", exponents, 0.0), kernel.gamma))
    inner = g("Add", g("MatMul", x, kernel.gamma * vectors.T), float(kernel.coef0))
    return g("Tanh", inner) if isinstance(kernel, Sigmoid) else g("Pow", inner, float(kernel.degree))


def _manhattan(g: Graph, x: str, vectors: Array) -> str:
    """Add |x - v|_1 for all pairs, (n, s), one feature after the other: no (n, s, d) numbers are ever there."""
    body = g.body(2, 1, 1)
    sums, column, values = body.ends
    distances = body("Abs", body("Sub", body("Reshape", column, np.array([-1, 1])), values))
    body.ends[body("Add", sums, distances)] = 2
    start = g("MatMul", x, np.zeros(vectors.T.shape))
    columns = g("Transpose", x, perm=[1, 0])
    return g("Scan", start, columns, np.ascontiguousarray(vectors.T), num_scan_inputs=2, body=body)


def _interpolated(g: Graph, x: str, at: Array, to: Array) -> str:
    """Add piecewise linear functions, one for each column of x, through points ``at``, ``to``, (columns, points).

    Sums of ramps from 0 to 1 between two points, times their rise; a ramp of no length is half-way up at its place.
    """
    gaps = np.diff(at, axis=1)
    steep = _STEEP[g.real]
    with np.errstate(divide="ignore", over="ignore"):
        slopes = np.minimum(1.0 / gaps, steep)
    body = g.body(1, 1, 1, 1, 1)
    column, starts, own_slopes, offsets, rises = body.ends
    distances = body("Sub", body("Reshape", column, np.array([-1, 1])), starts)
    ramps = body("Clip", body("Add", body("Mul", distances, own_slopes), offsets), 0.0, 1.0)
    body.ends[body("MatMul", ramps, rises)] = 1
    points = (at[:, :-1], slopes, np.where(gaps > 0.0, 0.0, 0.5), np.diff(to, axis=1))
    rows = g("Scan", g("Transpose", x, perm=[1, 0]), *points, num_scan_inputs=5, body=body)
    return g("Add", g("Transpose", rows, perm=[1, 0]), to[:, 0])


def _votes(g: Graph, sums: str, k: int) -> tuple[str, str]:
    """Add what pairs vote for, (n,), and the scores of classes, (n, k), or (n, 1) for two; see `models.one_vs_one`."""
    signs = np.zeros((k * (k - 1) // 2, k))  # of the first and the second class of every pair
    for p, pair in enumerate(combinations(range(k), 2)):
        signs[p, pair] = 1.0, -1.0

    def votes(are_first: str) -> str:
        return g("Add", g("MatMul", g("Cast", are_first, to=g.real), signs), (signs < 0.0).sum(axis=0).astype(float))

    codes = g("ArgMax", votes(g("Greater", sums, 0.0)), axis=1, keepdims=0)
    if k == 2:
        return codes, g("Neg", sums)
    totals = g("MatMul", sums, signs)
    below = g("Mul", g("Add", g("Abs", totals), 1.0), 3.0)
    return codes, g("Add", votes(g("GreaterOrEqual", sums, 0.0)), g("Div", totals, below))


def _probabilities(g: Graph, scores: str, calibration: Any, k: int) -> str:
    """Add the probabilities of all classes, (n, k), from scores (n, k) or (n, 1); see `models.probabilities`."""
    method = None if calibration is None else calibration["method"]
    if method == "isotonic":
        n_points = 1 + max(map(len, calibration["scores"]))  # one more than there are, so that there are two
        at, to = (
            np.array([[*row, *[row[-1]] * (n_points - len(row))] for row in calibration[name]], dtype=float)
            for name in ("scores", "probabilities")
        )
        own = _interpolated(g, scores, at, to)
        if k == 2:
            return g("Concat", g("Sub", 1.0, own), own, axis=1)
        return g("Div", own, g("MatMul", own, np.ones((k, 1))))
    if method == "temperature":
        scores = g("Mul", scores, float(calibration["slope"]))
    elif method == "sigmoid":
        lines = (np.array(calibration[name], dtype=float) for name in ("slopes", "offsets"))
        scores = g("Add", g("Mul", scores, next(lines)), next(lines))
        if k > 2:  # the logarithm of the sigmoid, without overflow
            decayed = g("Exp", g("Neg", g("Abs", scores)))
            scores = g("Sub", g("Min", scores, 0.0), g("Log", g("Add", decayed, 1.0)))
    if k == 2:
        return g("Sigmoid", g("Concat", g("Neg", scores), scores, axis=1))
    return g("Softmax", scores, axis=1)
