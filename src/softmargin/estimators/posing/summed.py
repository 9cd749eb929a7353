"""Problems of rows in blocks, from the settings of an estimator: what ``svm``, ``softmax`` and ``ball`` do for whole X.

    settings                                        loss of the sum                         constant       g
    softmax, k > 2                                  multinomial                             free           the penalty
    softmax, k = 2                                  logistic, one column                    free           the penalty
    squared_hinge, one_vs_rest or two classes       squared hinge, 2 C                      free, or not   1/2 |W|^2
    hinge, weston_watkins or crammer_singer         the joint hinge                         not            1/2 |W|^2
    the same, k = 2                                 hinge of w, the difference              not            1/4 |w|^2
    hinge, one_vs_rest                              hinge                                   not, or free   1/2 |W|^2
    a ball                                          that of the estimator                   free           l2, the ball

Objectives are those of the local problems, so that values and certificates can be compared.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import POSITIVE, checked
from softmargin.estimators.posing.fit import class_weights
from softmargin.estimators.posing.svm import SvmSettings
from softmargin.losses.entrywise import ENTRYWISE, Hinge
from softmargin.losses.joint import JOINT
from softmargin.penalties import L2
from softmargin.problems.block_rows import Form
from softmargin.problems.summed import ConstrainedSum, PenalizedSum

__all__ = ["ball_prices", "ball_sum", "class_prices", "softmax_sum", "svm_sum"]

Array = NDArray[Any]
Rows = Any  # distributed.rows.DaskRows or one of rows on a device, which this layer does not import


def class_prices(rows: Rows, C: float, class_weight: Any) -> Array:
    """Return the price of one unit of loss in every class; (k,)."""
    own = class_weights(rows.labels, np.arange(len(rows.labels)), rows.mass, class_weight)
    return np.asarray(checked("C", C, POSITIVE) * own)


def ball_prices(rows: Rows, class_weight: Any) -> Array:
    """Return the share of a row of weight one in every class, or of any row of a regressor; (k,) or (1,)."""
    if not len(rows.labels):
        return np.array([1.0 / rows.sums[0]])
    return class_prices(rows, 1.0, class_weight) / float(rows.sums[0])


def softmax_sum(rows: Rows, prices: Array, penalty: Any, fit_intercept: bool) -> PenalizedSum:
    """Pose softmax regression."""
    k = len(rows.labels)
    loss, columns = (JOINT["multinomial"], k) if k > 2 else (ENTRYWISE["logistic"], 1)
    return PenalizedSum(rows.blocks(prices), Form(loss, columns, float(fit_intercept), fit_intercept), penalty)


def svm_sum(
    rows: Rows, prices: Array, settings: SvmSettings, features: Callable[[Any], Any] | None = None, width: int = 0
) -> PenalizedSum:
    """Pose a linear SVM, of the rows or of ``width`` features of them."""
    k = len(rows.labels)
    settings.check(k)
    if settings.multiclass == "one_vs_one" and k > 2:
        raise IncompatibleError(
            "multiclass='one_vs_one' has a problem for every pair of classes on its rows, which data on a cluster or a "
            "device are not cut into; use 'one_vs_rest' or a joint loss, or pass X as a NumPy array."
        )
    columns, is_free = (k if k > 2 else 1), settings.has_free_bias
    constant = 1.0 if is_free else settings.bias
    if settings.is_squared:
        form = Form(ENTRYWISE["squared_hinge"], columns, constant, is_free)
        return PenalizedSum(rows.blocks(2.0 * prices, features, width), form, L2(1.0))
    ridge = 1.0
    if settings.is_joint and not is_free and k == 2:
        # The best columns with the difference w are -w / 2 and w / 2: 1/2 |W|^2 = 1/4 |w|^2.
        form, ridge = Form(Hinge(), 1, constant), 0.5
    elif settings.is_joint and not is_free:
        form = Form(JOINT[settings.multiclass], k, constant)
    elif settings.is_joint:
        raise IncompatibleError(
            f"fit_intercept='free' with multiclass={settings.multiclass!r} is not posed on a cluster or a device; use "
            "multiclass='one_vs_rest' (of two classes the same model, with 2 C), or fit_intercept=True."
        )
    else:
        form = Form(Hinge(), columns, constant, is_free)
    return PenalizedSum(rows.blocks(prices, features, width), form, L2(ridge))


def ball_sum(rows: Rows, prices: Array, loss: str, ball: Any, l2: float, fit_intercept: bool) -> ConstrainedSum:
    """Pose a linear model in a ball; ``prices`` are the shares of the rows of a class, or of all rows."""
    k = len(rows.labels)
    if loss in ("weston_watkins", "crammer_singer"):
        raise IncompatibleError(f"loss={loss!r} has corners; in a ball, rows on a cluster or a device need another.")
    if k > 2 and loss in JOINT:
        form = Form(JOINT[loss], k, float(fit_intercept), fit_intercept)
    else:
        entrywise = ENTRYWISE["logistic" if loss in JOINT else loss]
        form = Form(entrywise, rows.n_outputs or (k if k > 2 else 1), float(fit_intercept), fit_intercept)
    return ConstrainedSum(rows.blocks(prices), form, ball, l2)
