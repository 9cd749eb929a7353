"""`softmargin data`: what can be loaded by name, and what is in it."""

import sys
from argparse import Namespace
from typing import Any

import numpy as np

from softmargin.cli.rows import load_rows
from softmargin.cli.show import print_json, print_table
from softmargin.data import Dataset, available

_CLASSES_SHOWN = 20


def run(args: Namespace) -> int:
    """List or describe."""
    if args.name is not None:
        _describe(args, load_rows(args, args.name))
    elif args.json:
        print_json({"data_sets": [entry._asdict() for entry in available(args.data_dir)]})
    else:
        print_table(("name", "where", "what"), available(args.data_dir))
    return 0


def _describe(args: Namespace, dataset: Dataset) -> None:
    y_test = np.empty(0, dataset.y.dtype) if dataset.y_test is None else dataset.y_test
    classes = np.unique(np.concatenate([dataset.y, y_test]))
    counts = [
        {"label": label, "rows": int((dataset.y == label).sum()), "test_rows": int((y_test == label).sum())}
        for label in classes.tolist()
    ]
    (n, d), is_sparse = dataset.X.shape, not isinstance(dataset.X, np.ndarray)
    entries = dataset.X.nnz if is_sparse else int(np.count_nonzero(dataset.X))
    fields: dict[str, Any] = {
        "name": dataset.name,
        "rows": n,
        "test_rows": len(y_test),
        "features": d,
        "classes": len(classes),
        "density": entries / (n * d),
        "dtype": str(dataset.X.dtype),
        "sparse": is_sparse,
        "counts": counts,
    }
    if args.json:
        print_json(fields)
        return
    has_test = dataset.y_test is not None
    print_table(
        (),
        [
            ("name", dataset.name),
            ("rows", f"{n} for training, {len(y_test)} for testing" if has_test else f"{n}, no test part"),
            ("features", str(d)),
            ("classes", str(len(classes))),
            ("density", f"{fields['density']:.3g}"),
            ("type", f"{fields['dtype']}, {'sparse (CSR)' if is_sparse else 'dense'}"),
        ],
    )
    heads = ("label", "rows", "test rows") if has_test else ("label", "rows")
    lines = [tuple(map(str, count.values()))[: len(heads)] for count in counts[:_CLASSES_SHOWN]]
    if len(counts) > _CLASSES_SHOWN:
        lines.append((f"... and {len(counts) - _CLASSES_SHOWN} more",) + ("",) * (len(heads) - 1))
    sys.stdout.write("\n")
    print_table(heads, lines)
