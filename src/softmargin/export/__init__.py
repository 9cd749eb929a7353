"""Models for other programs: ONNX graphs, alone or in pipelines of scikit-learn; the types that skops may trust."""

from softmargin.export.onnx_models import to_onnx
from softmargin.export.pipelines import register_converters
from softmargin.export.trusted_types import skops_types

__all__ = ["register_converters", "skops_types", "to_onnx"]
