"""Margin classifiers trained to a certificate: every fit says how far from the optimum it is.

Names are imported when they are first used, so that ``import softmargin`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Certificate": "core.certificate",
    "DataError": "core.errors",
    "DualBlockDescent": "solvers",
    "IncompatibleError": "core.errors",
    "LinearModel": "models",
    "LinearSVC": "estimators.linear_svc",
    "ModelFileError": "core.errors",
    "MulticlassSVM": "problems",
    "NotCertifiedWarning": "estimators._warnings",
    "SoftmarginError": "core.errors",
    "Status": "run",
    "Stop": "run",
    "certify": "estimators.certify",
    "read_liblinear": "models",
    "solve": "run",
    "write_liblinear": "models",
}

__all__ = [*sorted(_HOMES), "__version__"]

if TYPE_CHECKING:
    from softmargin.core.certificate import Certificate as Certificate
    from softmargin.core.errors import DataError as DataError
    from softmargin.core.errors import IncompatibleError as IncompatibleError
    from softmargin.core.errors import ModelFileError as ModelFileError
    from softmargin.core.errors import SoftmarginError as SoftmarginError
    from softmargin.estimators._warnings import NotCertifiedWarning as NotCertifiedWarning
    from softmargin.estimators.certify import certify as certify
    from softmargin.estimators.linear_svc import LinearSVC as LinearSVC
    from softmargin.models import LinearModel as LinearModel
    from softmargin.models import read_liblinear as read_liblinear
    from softmargin.models import write_liblinear as write_liblinear
    from softmargin.problems import MulticlassSVM as MulticlassSVM
    from softmargin.run import Status as Status
    from softmargin.run import Stop as Stop
    from softmargin.run import solve as solve
    from softmargin.solvers import DualBlockDescent as DualBlockDescent


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'softmargin' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softmargin.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
