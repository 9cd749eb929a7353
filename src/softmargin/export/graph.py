"""A small builder of ONNX graphs: nodes and constants by name, and what onnx makes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError

__all__ = ["REALS", "Graph", "Node", "attribute", "graph_proto", "tensor"]

Array = NDArray[Any]
REALS = {"float64": np.dtype(np.float64), "float32": np.dtype(np.float32)}
_LARGEST = 2**31 - 2**20  # bytes: Protocol Buffers hold 2 GiB, some of it names


class Node(NamedTuple):
    """An operator; an attribute may be a NumPy type, or the Graph of a Scan."""

    operator: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]


class Graph:
    """Nodes and constants; calling it adds a node and returns the name of what the node makes.

    Parameters
    ----------
    real : dtype
        float64 or float32, of all real numbers.
    prefix : str
        Of all names.
    """

    def __init__(self, real: Any = REALS["float64"], prefix: str = "") -> None:
        self.real, self.prefix = real, prefix
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.ends: dict[str, int] = {}  # of the body of a Scan: what goes in and, at last, what comes out; their ranks

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; arrays and numbers among its inputs become constants."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        made = f"{self.prefix}{operator}_{len(self.nodes)}"
        self.nodes.append(Node(operator, names, made, attributes))
        return made

    def constant(self, value: Any, *, is_real: bool = True) -> str:
        """Add a constant and return its name; real numbers get the type of the graph."""
        array = np.asarray(value)
        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants[name] = array.astype(self.real) if is_real and array.dtype.kind == "f" else array
        self.check_size()
        return name

    def check_size(self, numbers: int = 0) -> None:
        """Refuse a graph that no file can hold, once it has so many numbers more."""
        if sum(array.nbytes for array in self.constants.values()) + numbers * self.real.itemsize > _LARGEST:
            raise IncompatibleError(
                "an ONNX file holds at most 2 GB, and support vectors are dense in it; this model is larger. Train one "
                "with fewer support vectors or features, or a linear one."
            )

    def body(self, *ranks: int) -> Graph:
        """Return a graph for a Scan, whose inputs have these ranks."""
        inner = Graph(self.real, f"{self.prefix}body_{len(self.nodes)}_")
        inner.ends = {f"{inner.prefix}input_{i}": rank for i, rank in enumerate(ranks)}
        return inner


def graph_proto(graph: Graph, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
    """Return a graph as onnx has it."""
    from onnx import helper

    nodes = [
        helper.make_node(
            node.operator,
            node.inputs,
            [node.output],
            name=node.output,
            **{key: attribute(value) for key, value in node.attributes.items()},
        )
        for node in graph.nodes
    ]
    return helper.make_graph(nodes, name, inputs, outputs, [tensor(*each) for each in graph.constants.items()])


def attribute(value: Any) -> Any:
    """Return the attribute of a node as onnx has it."""
    from onnx import helper

    if isinstance(value, np.dtype):
        return helper.np_dtype_to_tensor_dtype(np.dtype(object) if value.kind == "U" else value)
    if not isinstance(value, Graph):
        return value
    kind = attribute(value.real)
    infos = [helper.make_tensor_value_info(name, kind, [None] * rank) for name, rank in value.ends.items()]
    return graph_proto(value, value.prefix, infos[:-1], infos[-1:])


def tensor(name: str, array: Array) -> Any:
    """Return a constant as onnx has it."""
    from onnx import TensorProto, helper, numpy_helper

    if array.dtype.kind == "U":
        texts = [text.encode("utf-8", "surrogatepass") for text in array.tolist()]
        return helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
    return numpy_helper.from_array(np.ascontiguousarray(array), name)
