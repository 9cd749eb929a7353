"""The sections of a page about fits: what was asked for, what is proven, how well it does, what it looks at.

Fit       a model, the trace of its run, and labelled rows with its scores; the last two may be missing
about     the sections of one fit
beside    the sections that compare several
"""

import html
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from softmargin.models import KernelExpansion, LinearModel, LinearRegressor
from softmargin.models.shapes import dense
from softmargin.plots import GapDisplay, MarginDisplay
from softmargin.report.figures import drawn
from softmargin.report.page import Section, table

__all__ = ["Fit", "Rows", "about", "beside", "verdict"]

Array = NDArray[Any]
_MOST_CLASSES = 20  # shown in a confusion matrix; of more, the pairs that are most often taken for each other
_MOST_WEIGHTS = 8  # of a class
_MOST_ROWS = 12  # classes whose weights are shown, and pairs that are taken for each other
_BINS = 10  # of probabilities


class Rows(NamedTuple):
    """Labelled rows as the model was given them, and what it says of them."""

    which: str
    X: Any
    y: Array
    predicted: Array
    scores: Array | None = None  # (n, k), or (n,) for two classes; None of regressors and of votes
    probabilities: Array | None = None  # (n, k)


class Fit(NamedTuple):
    """What a page can tell of a fit."""

    name: str
    model: Any = None
    trace: Mapping[str, Sequence[float]] | None = None  # columns: iteration, seconds, residual, primal, bound, solver
    rows: Rows | None = None
    problem: str = ""
    features: Sequence[str] | None = None  # names


def about(fit: Fit) -> list[Section]:
    """Return what there is to tell of one fit."""
    parts = [("What is proven", _certificate), ("Settings", _settings), ("Data", _data), ("The run", _run)]
    parts += [("Accuracy", _accuracy), ("Confusion", _confusion), ("Margins", _margins), ("Calibration", _calibration)]
    parts += [("What the model looks at", _inside)]
    found = ((heading, write(fit)) for heading, write in parts)
    return [Section(heading, body) for heading, body in found if body]


def beside(fits: Sequence[Fit]) -> list[Section]:
    """Return a table of several fits, and their gaps in one picture."""
    head = ("fit", "problem", "relative gap", "status", "passes", "seconds", "size", "score")
    found = [Section("Side by side", table(head, [_line(fit) for fit in fits]))]
    traced = [fit for fit in fits if fit.trace is not None]
    return [*found, Section("Gaps", _gaps(traced))] if traced else found


def verdict(info: Mapping[str, Any]) -> str:
    """Say in one sentence what a model's certificate proves."""
    known = info.get("certificate")
    if not isinstance(known, Mapping):
        return "The file holds no certificate; `softmargin certify` proves how far from the optimum the model is."
    residual, bound = float(known["residual"]), float(known["bound"])
    if known["kind"] == "stationarity":
        return f"The model is stationary up to {residual:.2e}; nothing is proven of the optimum."
    if not math.isfinite(bound):
        return "Nothing is proven."
    where = " on the rows that were drawn" if known["kind"] == "sample gap" else " on its training rows"
    return f"No weights have an objective more than {100 * residual:.3g} % below this model's{where}."


def _info(fit: Fit) -> Mapping[str, Any]:
    return {} if fit.model is None else fit.model.info


def _certificate(fit: Fit) -> str:
    if fit.model is None:
        return ""
    known, status = _info(fit).get("certificate"), _info(fit).get("status")
    text = f"<p><b>{html.escape(verdict(_info(fit)))}</b></p>"
    if not isinstance(known, Mapping):
        return text
    lines = [("objective", f"{known['primal']:.10g}"), ("proven bound", f"{known['bound']:.10g}")]
    lines += [("relative gap", f"{known['residual']:.3e}"), ("kind", str(known["kind"])), ("run ended as", str(status))]
    return (
        text
        + table((), lines)
        + "<p>As the model file holds it; <code>softmargin certify</code> computes it again.</p>"
    )


def _settings(fit: Fit) -> str:
    hidden = ("problem", "certificate", "status", "data", "columns", "calibration", "scaling")
    lines = [(name, _setting(value)) for name, value in _info(fit).items() if name not in hidden and value is not None]
    lines = [("problem", fit.problem), *lines] if fit.problem else lines
    trained = _info(fit).get("data")
    if isinstance(trained, Mapping):
        lines.append(
            ("trained on", ", ".join(f"{name} {value}" for name, value in trained.items() if value is not None))
        )
    return table((), lines) if lines else ""


def _setting(value: Any) -> str:
    """Return a setting as text; of a number for every feature, the smallest and the largest."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(each, float) for each in value):
        return f"{len(value)} numbers from {min(value):.4g} to {max(value):.4g}"
    return str(value)


def _data(fit: Fit) -> str:
    if fit.rows is None:
        return ""
    X, y, (n, d) = fit.rows.X, fit.rows.y, fit.rows.X.shape
    stored = X.nnz if issparse(X) else np.count_nonzero(X)
    squares = X.multiply(X).sum(axis=0) if issparse(X) else np.square(X, dtype=np.float64).sum(axis=0)
    sizes = np.sqrt(np.asarray(squares, dtype=np.float64).ravel() / n)
    used = sizes[sizes > 0.0]
    lines = [("rows", f"{n}: {fit.rows.which}"), ("features", f"{d}, of which {d - len(used)} are zero everywhere")]
    lines += [("entries that are not zero", f"{stored / max(1, n * d):.2%}")]
    if len(used):
        lines.append(("size of a feature (root mean square)", f"{used.min():.3g} to {used.max():.3g}"))
    if not isinstance(fit.model, LinearRegressor):
        counts = np.unique(y, return_counts=True)[1]
        lines.append(("classes in these rows", f"{len(counts)}, of {counts.min()} to {counts.max()} rows each"))
    return table((), lines)


def _run(fit: Fit) -> str:
    if fit.trace is None:
        return ""
    trace = fit.trace
    last = {str(name): step for name, step in zip(trace.get("solver", ()), trace["iteration"], strict=False)}
    lines = [
        ("passes over the data", f"{trace['iteration'][-1]:.0f}"),
        ("seconds of the solver", f"{trace['seconds'][-1]:.4g}"),
    ]
    lines += [(name or "solver", f"up to pass {step:.0f}") for name, step in last.items()]
    return table((), lines) + _gaps([fit])


def _gaps(fits: Sequence[Fit]) -> str:
    def draw(ax: Any, by: str) -> None:
        for fit in fits:
            columns = {key: (fit.trace or {})[key] for key in ("iteration", "seconds", "residual")}
            name = _short(fit.name) if len(fits) > 1 else ""
            GapDisplay(**columns, tol=_info(fit).get("tol"), name=name).plot(ax, by=by)
        for text in ax.get_legend().get_texts() if ax.get_legend() else ():
            text.set_parse_math(False)

    return drawn(partial(draw, by="seconds"), partial(draw, by="iteration"))


def _accuracy(fit: Fit) -> str:
    if fit.rows is None:
        return ""
    y, predicted = fit.rows.y, fit.rows.predicted
    if isinstance(fit.model, LinearRegressor):
        return table((), [("R²", _score(fit)), ("rows", fit.rows.which)])
    lines = []
    for label in fit.model.classes:
        is_own, is_called = y == label, predicted == label
        right = int((is_own & is_called).sum())
        precision, recall = _share(right, int(is_called.sum())), _share(right, int(is_own.sum()))
        both = 2 * right / max(1, int(is_own.sum() + is_called.sum()))
        lines.append((_short(label), str(int(is_own.sum())), precision, recall, f"{both:.4f}"))
    head = ("class", "rows", "precision", "recall", "F1")
    right = int((predicted == y).sum())
    total = f"<p><b>{right / max(1, len(y)):.4f}</b> of {html.escape(fit.rows.which)} are labelled right ({right}).</p>"
    return total + table(head, lines)


def _confusion(fit: Fit) -> str:
    if fit.rows is None or isinstance(fit.model, LinearRegressor):
        return ""
    labels = np.unique(np.concatenate([fit.rows.y, fit.rows.predicted]))
    rows, columns = (np.searchsorted(labels, each) for each in (fit.rows.y, fit.rows.predicted))
    counts = np.bincount(rows * len(labels) + columns, minlength=len(labels) ** 2).reshape(len(labels), -1)
    if len(labels) <= _MOST_CLASSES:
        names = [_short(label) for label in labels]
        return table(
            ("true \\ predicted", *names), [(name, *map(str, row)) for name, row in zip(names, counts, strict=True)]
        )
    np.fill_diagonal(counts, 0)
    worst = [place for place in np.argsort(-counts, axis=None, kind="stable")[:_MOST_ROWS] if counts.flat[place] > 0]
    lines = [
        (_short(labels[place // len(labels)]), _short(labels[place % len(labels)]), str(counts.flat[place]))
        for place in worst
    ]
    return table(("true", "taken for", "rows"), lines)


def _margins(fit: Fit) -> str:
    rows = fit.rows
    if rows is None or rows.scores is None or isinstance(fit.model, LinearRegressor):
        return ""
    is_known = np.isin(rows.y, fit.model.classes)
    if not is_known.any():
        return ""
    display = MarginDisplay.from_predictions(fit.model.classes, rows.y[is_known], rows.scores[is_known])
    quantiles = np.quantile(display.margins, [0.0, 0.05, 0.5, 1.0])
    lines = [
        (name, f"{value:.4g}") for name, value in zip(("smallest", "5 %", "median", "largest"), quantiles, strict=True)
    ]
    return table((), lines) + drawn(display.plot)


def _calibration(fit: Fit) -> str:
    rows = fit.rows
    if rows is None or rows.probabilities is None:
        return ""
    top = rows.probabilities.max(axis=1)
    is_right = rows.predicted == rows.y
    bins = np.minimum((top * _BINS).astype(int), _BINS - 1)
    held = [b for b in range(_BINS) if (bins == b).any()]
    said, seen = (np.array([values[bins == b].mean() for b in held]) for values in (top, is_right))
    lines = [
        (f"{b / _BINS:.1f} to {(b + 1) / _BINS:.1f}", str(int((bins == b).sum())), f"{p:.3f}", f"{share:.3f}")
        for b, p, share in zip(held, said, seen, strict=True)
    ]

    def draw(ax: Any) -> None:
        ax.plot([0.0, 1.0], [0.0, 1.0], ":", color="tab:gray", linewidth=1.0)
        ax.plot(said, seen, "o-")
        ax.set(xlabel="probability of the predicted label", ylabel="share that is right")

    return table(("probability", "rows", "mean", "share right"), lines) + drawn(draw)


def _inside(fit: Fit) -> str:
    model = fit.model
    if isinstance(model, KernelExpansion):
        sizes = np.abs(model.coef).sum(axis=1)
        lines = [("support vectors", f"{len(sizes)}"), ("kernel", type(model.kernel).__name__)]
        lines += [("largest dual variable", f"{sizes.max(initial=0.0):.4g}")]
        return table((), lines)
    if not isinstance(model, LinearModel | LinearRegressor):
        return ""
    coef = np.atleast_2d(dense(model.coef))
    labels = list(getattr(model, "classes", ["weights"]))
    names = labels[-1:] if len(coef) == 1 else labels
    if len(names) != len(coef):
        names = [f"target {c}" for c in range(len(coef))]
    lines = []
    for name, weights in list(zip(names, coef, strict=True))[:_MOST_ROWS]:
        largest = [j for j in np.argsort(-np.abs(weights), kind="stable")[:_MOST_WEIGHTS] if weights[j] != 0.0]
        lines.append((_short(name), ", ".join(f"{_feature(fit, j)} {weights[j]:+.3g}" for j in largest)))
    more = f"<p>The first {_MOST_ROWS} of {len(coef)} classes.</p>" if len(coef) > _MOST_ROWS else ""
    return table(("class", "largest weights"), lines, is_text=True) + more


def _feature(fit: Fit, j: int) -> str:
    return f"x{j}" if fit.features is None else _short(fit.features[j])


def _line(fit: Fit) -> tuple[str, ...]:
    info, trace = _info(fit), fit.trace
    known = info.get("certificate")
    residual = known["residual"] if isinstance(known, Mapping) else (trace["residual"][-1] if trace else math.nan)
    run = ("–", "–") if trace is None else (f"{trace['iteration'][-1]:.0f}", f"{trace['seconds'][-1]:.3g}")
    return (
        _short(fit.name),
        fit.problem or "–",
        f"{residual:.2e}",
        str(info.get("status", "–")),
        *run,
        _size(fit),
        _score(fit),
    )


def _size(fit: Fit) -> str:
    if isinstance(fit.model, KernelExpansion):
        return f"{len(fit.model.coef)} vectors"
    if isinstance(fit.model, LinearModel | LinearRegressor):
        return f"{np.count_nonzero(dense(fit.model.coef))} weights"
    return "–"


def _score(fit: Fit) -> str:
    if fit.rows is None:
        return "–"
    y, predicted = fit.rows.y, fit.rows.predicted
    if not isinstance(fit.model, LinearRegressor):
        return f"{float((predicted == y).mean()):.4f}"
    error, spread = float(((y - predicted) ** 2).sum()), float(((y - y.mean(axis=0)) ** 2).sum())
    return f"{1.0 - error / spread:.4f}" if spread > 0.0 else "–"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.4f}" if whole else "–"


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= 24 else text[:23] + "…"
