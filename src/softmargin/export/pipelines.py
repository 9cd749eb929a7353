"""Converters for skl2onnx, so that pipelines of scikit-learn with one of our estimators become ONNX graphs."""

import dataclasses
from typing import Any

import numpy as np

import softmargin
from softmargin.core.errors import IncompatibleError
from softmargin.export.graph import Graph, attribute, tensor
from softmargin.export.onnx_models import add_model

__all__ = ["register_converters"]

_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}


def register_converters() -> None:
    """Tell skl2onnx how our estimators are converted: call it once, before ``skl2onnx.to_onnx`` or its likes.

    As for the estimators of scikit-learn, a classifier has the outputs label and probabilities: the second are scores
    where it has no probabilities, or with the option ``raw_scores``; of two classes (-s, s).
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as problem:
        raise IncompatibleError("pipelines are converted by skl2onnx: pip install 'softmargin[onnx]'.") from problem
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    public = (getattr(softmargin, name) for name in dir(softmargin) if not name.startswith("_"))
    for estimator in [each for each in public if isinstance(each, type) and hasattr(each, "to_onnx")]:
        has_classes = hasattr(estimator, "decision_function")
        update_registered_converter(
            estimator,
            f"Softmargin{estimator.__name__}",
            calculate_linear_classifier_output_shapes if has_classes else _regressor_shapes,
            _convert,
            options=_OPTIONS if has_classes else None,
        )


def _regressor_shapes(operator: Any) -> None:
    """Say what a regressor puts out: (n, targets)."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    rows = operator.inputs[0]
    kind = DoubleTensorType if isinstance(rows.type, DoubleTensorType) else FloatTensorType
    operator.outputs[0].set_type(kind([rows.get_first_dimension(), _n_targets(operator.raw_operator)]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add what an estimator computes to the graph of skl2onnx."""
    from skl2onnx.common.data_types import guess_proto_type

    estimator, rows = operator.raw_operator, operator.inputs[0].full_name
    g, model = Graph(prefix=f"{scope.get_unique_variable_name('softmargin')}_"), estimator.model()
    asked = (
        container.get_options(estimator, {"raw_scores": False, "nocl": False}) if hasattr(estimator, "classes_") else {}
    )
    if asked.get("nocl"):  # numbers in place of labels
        model = dataclasses.replace(model, classes=np.arange(len(model.classes)))
    made = {name: value for name, (value, *_) in add_model(g, model, g("Cast", rows, to=g.real)).items()}
    if "prediction" in made:
        results = [g("Reshape", made["prediction"], np.array([-1, _n_targets(estimator)]))]
    else:
        values = made["scores"] if asked["raw_scores"] else made.get("probabilities", made["scores"])
        if len(estimator.classes_) == 2 and values == made["scores"]:
            column = g("Reshape", values, np.array([-1, 1]))
            values = g("Concat", g("Neg", column), column, axis=1)
        results = [made["label"], values]
    for name, array in g.constants.items():
        is_text = array.dtype.kind == "U"
        content = array.tolist() if is_text else tensor(name, array)
        container.add_initializer(name, attribute(array.dtype), array.shape, content)
    for node in g.nodes:
        how = {key: attribute(value) for key, value in node.attributes.items()}
        container.add_node(node.operator, node.inputs, [node.output], name=node.output, **how)
    for result, variable in zip(results, operator.outputs, strict=True):
        name = variable.full_name
        container.add_node("Cast", [result], [name], name=f"{g.prefix}{name}", to=guess_proto_type(variable.type))


def _n_targets(regressor: Any) -> int:
    return len(np.atleast_1d(regressor.intercept_))
