"""Progress for people: a bar with the gap, in a terminal or a notebook, and lines for logs.

ProgressBar()         passes, seconds, gap against tol; in a notebook without ipywidgets, too; of rows in partitions
                      also how many of them the pass at work has done
CertificateLines()    one line for every certificate, on stderr
"""

import html
import math
import sys
import time
from typing import Any

from softmargin.core.certificate import Certificate
from softmargin.core.protocols import Progress, Watcher

__all__ = ["CertificateLines", "ProgressBar", "progress_of"]

_REFRESH = 8  # times a second at most


def progress_of(verbose: int) -> list[Any]:
    """Return the watchers that an estimator's ``verbose`` asks for."""
    return [] if not verbose else [ProgressBar() if int(verbose) == 1 else CertificateLines()]


class ProgressBar:
    """A progress bar: how far the gap has fallen towards the tolerance, on a log scale."""

    def __init__(self, console: Any = None) -> None:
        self._console = console

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Show the bar."""
        from rich.console import Console

        self._first, self._tol, self._at_work = math.nan, stop.tol, ""
        console = self._console or Console(stderr=True)
        self._view: Any = _Notebook(stop.tol) if console.is_jupyter else _Terminal(console, stop.tol)
        self._watch: Any = getattr(getattr(problem, "blocks", None), "watch", lambda told: None)
        self._watch(self._view.show_parts)

    def watch(self, progress: Progress) -> None:
        """Move the bar to the last certificate, or to the solver's estimate until there is one; name the solver."""
        if progress.at_work != self._at_work:
            if self._at_work:
                self._view.say(f"{self._at_work} hands over to {progress.at_work} after pass {progress.iteration - 1}")
            self._at_work = progress.at_work
        if progress.certificate is None:
            self._show(progress.iteration, progress.estimate, "~")
        else:
            self._show(progress.iteration, progress.certificate.residual)

    def _show(self, iteration: int, gap: float, mark: str = "") -> None:
        if not math.isfinite(self._first) and math.isfinite(gap):
            self._first = gap
        self._view.show(self._at_work, self._done(gap), iteration, f"{mark}{gap:.1e}")

    def _done(self, gap: float) -> float:
        if not gap > self._tol:
            return 1.0
        if not (self._first > self._tol > 0 and math.isfinite(gap)):
            return 0.0
        return max(0.0, math.log(self._first / gap) / math.log(self._first / self._tol))

    def end(self, result: Any) -> None:
        """Leave the last line on the screen."""
        self._watch(None)
        if result is not None:
            self._show(result.n_iter, result.certificate.residual)
        self._view.close()


class _Terminal:
    """A bar of rich."""

    def __init__(self, console: Any, tol: float) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.fields[what]}"),
            BarColumn(),
            TextColumn("{task.fields[place]}"),
            TextColumn("{task.fields[gap]}"),
            TimeElapsedColumn(),
        )
        self._tol = tol
        self._parts: Any = None
        self._bar = Bar(*columns, console=console, transient=False, refresh_per_second=_REFRESH)
        self._task = self._bar.add_task("", total=1.0, what="", place="pass 0", gap=self._gap("-"))
        self._bar.start()

    def _gap(self, gap: str) -> str:
        return f"gap {gap} tol {self._tol:.1e}"

    def show(self, what: str, done: float, iteration: int, gap: str) -> None:
        place = f"pass {iteration}"
        self._bar.update(self._task, completed=done, what=what, place=place, gap=self._gap(gap), refresh=False)

    def show_parts(self, number: int, done: int, total: int) -> None:
        if self._parts is None:
            self._parts = self._bar.add_task("", total=total, what="", place="", gap="")
        what, place = f"sum {number}", f"{done} of {total} partitions"
        self._bar.update(self._parts, completed=done, total=total, what=what, place=place, refresh=False)

    def say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False)

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """A bar of HTML that is drawn again in place; rich would ask for ipywidgets."""

    def __init__(self, tol: float) -> None:
        import IPython.display

        display: Any = IPython.display.display
        self._tol, self._began, self._drawn, self._said = tol, time.perf_counter(), -math.inf, ""
        self._last, self._parts = ("", 0.0, 0, "-"), ""
        self._handle = display(self._drawing(), raw=True, display_id=True)

    def _drawing(self) -> dict[str, str]:
        what, done, iteration, gap = self._last
        line = f"{what} pass {iteration}, gap {gap}, tol {self._tol:.1e}, {time.perf_counter() - self._began:.1f} s"
        line += self._parts
        bar = f'<progress value="{done:.3f}" max="1"></progress>'
        return {
            "text/plain": self._said + line,
            "text/html": f"<div>{html.escape(self._said)}{bar} {html.escape(line)}</div>",
        }

    def show(self, what: str, done: float, iteration: int, gap: str) -> None:
        self._last = (what, done, iteration, gap)
        self._draw_in_time()

    def show_parts(self, number: int, done: int, total: int) -> None:
        self._parts = f"; sum {number}, {done} of {total} partitions"
        self._draw_in_time()

    def _draw_in_time(self) -> None:
        if time.perf_counter() - self._drawn >= 1.0 / _REFRESH:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.perf_counter()
        self._handle.update(self._drawing(), raw=True)

    def say(self, text: str) -> None:
        self._said += f"{text}. "

    def close(self) -> None:
        self._draw()


class CertificateLines(Watcher):
    """One line on stderr for every certificate, and one for the end: for logs, where a bar cannot be drawn again."""

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Start anew."""
        self._shown: Certificate | None = None

    def watch(self, progress: Progress) -> None:
        """Write the certificate of this step, if it has one."""
        if progress.is_judged and progress.certificate is not None:
            self._write(progress.iteration, progress.seconds, progress.certificate, progress.at_work)

    def end(self, result: Any) -> None:
        """Write how the run ended."""
        if result is not None:
            if result.certificate != self._shown:
                self._write(result.n_iter, result.seconds, result.certificate, "")
            sys.stderr.write(f"softmargin: {result.status.value} after pass {result.n_iter}\n")

    def _write(self, iteration: int, seconds: float, certificate: Certificate, at_work: str) -> None:
        self._shown = certificate
        found = f"primal {certificate.primal:.10g}  bound {certificate.bound:.10g}  gap {certificate.residual:.2e}"
        sys.stderr.write(f"softmargin: pass {iteration}  {seconds:.3f} s  {found}  {at_work}".rstrip() + "\n")
