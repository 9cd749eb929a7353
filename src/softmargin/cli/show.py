"""Everything the verbs print: results on stdout for people or as one line of JSON, notes and bars on stderr."""

import json
import math
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from softmargin.cli.options import valued_options
from softmargin.core.errors import IncompatibleError, ModelFileError, one_line, visible
from softmargin.core.files import find_target, is_same_file
from softmargin.run import Status

_MULTICLASS = {
    "weston_watkins": "Weston-Watkins",
    "crammer_singer": "Crammer-Singer",
    "one_vs_rest": "one-vs-rest",
    "one_vs_one": "one-vs-one",
}
_WIDE = 10_000  # columns, where no terminal sets a width: lines are then never folded


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json_line(fields))


def json_line(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON; NaN and infinity, which JSON lacks, become null."""
    return json.dumps(_plain(fields), allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text, with a head where `heads` are given; the first column is bold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    table = Table(box=None, show_header=bool(heads), pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    lines = [tuple(row) for row in rows]
    for c in range(max(map(len, [heads, *lines]))):
        table.add_column(heads[c] if heads else "", style="bold" if c == 0 else "", overflow="fold", no_wrap=c == 0)
    for line in lines:
        table.add_row(*(Text(visible(cell)) for cell in line))
    with console.capture() as captured:
        console.print(table)
    text = "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
    # A file name may hold bytes that the terminal's encoding lacks.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def note(args: Namespace, text: str) -> None:
    """Tell the user something on the side, unless asked to be quiet."""
    if not args.quiet:
        sys.stderr.write(f"softmargin: note: {one_line(text)}\n")


def warn(text: str) -> None:
    """Tell the user something that must not be missed."""
    sys.stderr.write(f"softmargin: warning: {one_line(text)}\n")


def wants_progress(args: Namespace) -> bool:
    """Say whether to show a progress bar: asked for, or people are looking and want no JSON."""
    return bool(args.progress or (sys.stderr.isatty() and not (args.quiet or args.json)))


def problem_name(info: Mapping[str, Any]) -> str:
    """Name a problem for people, by what a model remembers of it."""
    if info.get("problem") == "softmax":
        return f"softmax regression, {_penalty_name(info['penalty'])}, C = {info['C']:g}"
    if str(info.get("problem")).endswith(" ball"):
        norm, loss = info["problem"].removesuffix(" ball"), info["loss"].replace("_", " ")
        return f"{loss} loss in the {norm} ball of radius {info['radius']:g}, l2 = {info['l2']:g}"
    shown = [f"{name} = {info[name]:g}" for name in ("gamma", "degree", "coef0") if name in info]
    name = "logistic regression" if info.get("loss") == "logistic" else f"{info.get('kernel', 'linear')} SVM"
    words = [name + (f" ({', '.join(shown)})" if shown else "")]
    words += [_MULTICLASS[info["multiclass"]], *(["squared hinge"] if info.get("loss") == "squared_hinge" else [])]
    words += ["l1 penalty"] if info.get("penalty") == "l1" else []
    words += [f"{info['fit_intercept']} intercept"] if isinstance(info.get("fit_intercept"), str) else []
    words += [f"C = {info['C']:g}"] if "C" in info else []  # a LIBLINEAR file does not hold it
    return ", ".join(words)


def _penalty_name(penalty: Mapping[str, Any]) -> str:
    """Name a penalty by its numbers; the ends of the elastic net have names of their own."""
    if penalty["name"] == "Pinned":
        return f"{_penalty_name(penalty['base'])}, class {penalty['class_code']:g} (counted from 0) pinned"
    numbers = {name: value for name, value in penalty.items() if name != "name"}
    if penalty["name"] == "ElasticNet" and 0.0 in numbers.values():
        name, strength = next(((name, value) for name, value in numbers.items() if value), ("no", 1.0))
        return f"{name} penalty" + ("" if strength == 1.0 else f" of strength {strength:g}")
    shown = ", ".join(
        f"{name} = {_penalty_name(value) if isinstance(value, Mapping) else format(value, 'g')}"
        for name, value in numbers.items()
    )
    return f"{penalty['name']} penalty ({shown})"


# What Python calls by another name.
_OPTIONS = {
    "fit_intercept=False": "--no-intercept",
    "fit_intercept=True": "a penalised one",
    "fit_intercept='free'": "--free-intercept",
    "fit_intercept='penalized'": "--penalized-intercept",
    "probability=": "--probabilities",
    "model.save": "our own format (leave out --format)",
    "random_state": "--seed",
    "StandardScaler, MaxAbsScaler": "--normalize standard or maxabs",
}
_SETTING = re.compile(r"(?<![\w/.-])([a-z]\w*)=(?:'([^']*)'|([-+.\w]+))?")


def status_line(status: Status) -> str:
    """Say how a run ended, with the options by their names on the command line."""
    return f"{status.value}. {in_options(status.sentence)}"


def in_options(text: str, verb: str = "train") -> str:
    """Return advice with the options by their names on the command line: solver='smo' is --solver smo."""
    if verb == "export":
        text = text.replace("model.save", "the model file as it is")
    for name, option in _OPTIONS.items():
        text = text.replace(name, option)
    known = {option.lstrip("-").replace("-", "_"): option for option in valued_options(verb)}

    def spelled(found: re.Match[str]) -> str:
        option, value = known.get(found[1]), found[2] or found[3] or ""
        return found[0] if option is None else f"{option} {value}".rstrip()

    text = re.sub(r"\bor '(\w+)'", r"or \1", _SETTING.sub(spelled, text))
    names = "|".join(name for name in known if "_" in name)
    return re.sub(rf"(?<![\w/.'-])({names})(?![\w/']|\.\w)", lambda found: known[found[1]], text) if names else text


def check_writable(path: str, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse an output that cannot be written, or that is one of the inputs, before hours are spent on it."""
    folder = str(find_target(path).parent)
    is_file_to_be = os.path.isfile(path) or not os.path.exists(path)
    if not os.access(folder if is_file_to_be else path, os.W_OK):
        raise ModelFileError(f"cannot write {path!r}: {folder!r} is not ours to write to. Choose another folder.")
    taken = next((str(source) for source in inputs if is_same_file(path, source)), None) if is_file_to_be else None
    if taken is not None:
        raise IncompatibleError(f"the output {path!r} would overwrite the input {taken!r}. Give it another name.")
