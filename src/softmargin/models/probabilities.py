"""Probabilities from scores: of softmax models, and of margin classifiers that were calibrated on held-out scores.

    method         probability of class c, from scores s (two classes have one score, s: that of the second)
    sigmoid        1 / (1 + exp(-(slope_c s_c + offset_c))), divided by the sum over the classes
    isotonic       a nondecreasing function of s_c through given points, divided by the sum over the classes
    temperature    softmax(slope s), one slope for all: the temperature is 1 / slope

A calibration is a mapping of numbers and lists, as the info of a model can hold it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from softmargin.core.errors import DataError

__all__ = ["METHODS", "calibrated_logs", "log_probabilities"]

METHODS = ("sigmoid", "temperature", "isotonic")


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of the softmax of scores, without overflow; shape (n, k).

    ``scores`` is (n, k), or (n,) for two classes: the log-odds of the second.
    """
    if scores.ndim == 1:
        return -np.column_stack([np.logaddexp(0.0, scores), np.logaddexp(0.0, -scores)])
    below = scores - scores.max(axis=1, keepdims=True)
    logs: np.ndarray = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    return logs


def calibrated_logs(scores: np.ndarray, calibration: Mapping[str, Any]) -> np.ndarray:
    """Return the logarithms of the probabilities that a calibration gives to scores (n, k) or (n,); (n, k)."""
    method = calibration.get("method")
    if method == "temperature":
        return log_probabilities(calibration["slope"] * scores)
    columns = scores[:, None] if scores.ndim == 1 else scores
    if method == "sigmoid":
        exponents = columns * np.asarray(calibration["slopes"]) + np.asarray(calibration["offsets"])
        logs, others = -np.logaddexp(0.0, -exponents), -np.logaddexp(0.0, exponents)
    elif method == "isotonic":
        steps = zip(columns.T, calibration["scores"], calibration["probabilities"], strict=True)
        values = np.column_stack([np.interp(own, at, to) for own, at, to in steps])
        logs, others = np.log(values), np.log1p(-values)
    else:
        raise DataError(f"calibration by {method!r} is unknown; models have one of {', '.join(METHODS)}.")
    if scores.ndim == 1:
        return np.hstack([others, logs])
    return log_probabilities(logs)  # divides by the sum
