"""The rows of a fit on the command line: training and test part, checked, and scaled as they were asked to be."""

from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.cli import rows, saving
from softmargin.cli.choices import REGRESSORS
from softmargin.cli.show import note
from softmargin.core.errors import DataError
from softmargin.core.memory import check_weights_fit
from softmargin.data import Dataset
from softmargin.features.scaling import Scaling, check_lengths, fit_scaling, unscaled_note

Array = NDArray[Any]


class Rows(NamedTuple):
    """The rows of a fit."""

    dataset: Dataset
    test_size: float | None  # the share that was held out
    trained_on: str  # which rows these are
    tested_on: str | None

    def info(self, args: Namespace) -> dict[str, Any]:
        """Return what the model shall remember of them."""
        n, d = map(int, self.dataset.X.shape)
        return {"name": self.dataset.name, "rows": n, "features": d, "test_size": self.test_size, "seed": args.seed}


def load(args: Namespace) -> Rows:
    """Return training and test rows."""
    is_number = args.model in REGRESSORS
    dataset = rows.load_rows(args, args.data, is_number=is_number)
    n_classes = 1 if is_number or args.model == "kernel-svc" else len(np.unique(dataset.y))
    check_weights_fit(dataset.X.shape[1], n_classes, 4 if args.float32 else 8)
    if args.test is not None:
        X, y, tested_on = rows.load_test_rows(args, is_number=is_number, columns=dataset.columns)
        trained_on = rows.which_rows(dataset, len(dataset.y), "all" if dataset.X_test is None else "train")
        return Rows(dataset._replace(X_test=X, y_test=y), None, trained_on, tested_on)
    if dataset.X_test is None and not args.holdout:
        return Rows(dataset, None, rows.which_rows(dataset, len(dataset.y), "all"), None)
    how = None
    if dataset.X_test is None:
        how = rows.HeldOut(args.holdout, args.seed)
        dataset = rows.hold_out(dataset, how, by_class=not is_number)
    elif args.holdout:
        note(args, f"{dataset.name} has test rows of its own, which accuracy is measured on: --holdout is not used.")
    assert dataset.y_test is not None
    own = [rows.which_rows(dataset, len(y), part, how) for part, y in (("train", dataset.y), ("test", dataset.y_test))]
    return Rows(dataset, None if how is None else how.test_size, *own)


def prepared(X: Any, args: Namespace, source: str) -> tuple[Any, Scaling]:
    """Return X as it is trained on, and how it was scaled."""
    scaling = fit_scaling(args.normalize, X, source)
    X = scaling.apply(X, source)
    if args.float32 and X.dtype != np.float32:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
        values = X if isinstance(X, np.ndarray) else X.data
        if not np.isfinite(values).all():
            raise DataError(f"{source}: X holds values too large for --float32. Leave it out, or --normalize maxabs.")
    check_lengths(X, source)
    # Most kernels look at differences of rows.
    advice = unscaled_note(X, may_be_far=args.model == "kernel-svc") if args.normalize == "none" else None
    if advice is not None:
        note(args, advice)
    return X, scaling


def check_test_rows(args: Namespace, dataset: Dataset, classes: Array) -> None:
    """Refuse test rows that no model of this training part could label before training, not after."""
    if dataset.X_test is None or dataset.y_test is None:
        return
    blank = saving.blank_model(classes, dataset.X.shape[1])
    source = test_name(args, dataset)
    rows.check_labels_match(blank, dataset.y_test, source)
    check_lengths(blank.fit_columns(dataset.X_test), source)


def test_name(args: Namespace, dataset: Dataset) -> str:
    """Say which rows the test rows are."""
    return f"{dataset.name} (test rows)" if args.test is None else str(args.test)


def like_training(X: Any, scaling: Scaling, d: int, source: str) -> Any:
    """Return test rows with as many columns as the training rows, and scaled as those were."""
    return scaling.apply(saving.blank_model(np.arange(2), d).fit_columns(X), source)
