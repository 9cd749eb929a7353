"""Tables for the verbs: how one is to be read, and what of this does not go with data that are none."""

from argparse import Namespace
from typing import Any

from softmargin.cli.show import note
from softmargin.core.errors import IncompatibleError
from softmargin.data.columns import Columns, listed
from softmargin.data.table import TableOptions


def table_options(args: Namespace, model: Any, columns: Columns | None, *, may_drop: bool) -> TableOptions:
    """Return how a table is to be read: as asked, or as the model was trained."""
    n_features = None
    if model is not None:
        columns, n_features = _columns_of(model), model.n_features
    missing, ignore = getattr(args, "missing", "error"), getattr(args, "ignore", ())
    known = None if columns is not None else n_features
    return TableOptions(args.label, missing, not args.no_header, tuple(ignore), columns, may_drop, known)


def check_no_table(args: Namespace, model: Any, source: str) -> None:
    """Refuse options of tables where the data are none; say that a model of a table takes their columns by number."""
    is_given = {
        "--label": args.label is not None,
        "--no-header": args.no_header,
        "--missing": getattr(args, "missing", "error") != "error",
        "--ignore": bool(getattr(args, "ignore", ())),
    }
    for option in is_given:
        if is_given[option]:
            raise IncompatibleError(f"{option} is an option of tables; {source} is none. Leave it out.")
    columns = None if model is None else _columns_of(model)
    if columns is not None:
        names = listed(columns.feature_names)
        note(args, f"{source}: columns have no names here; they are taken for the model's in their order, {names}.")


def _columns_of(model: Any) -> Columns | None:
    info = model.info.get("columns")
    return None if info is None else Columns.from_info(info, model.n_features)
