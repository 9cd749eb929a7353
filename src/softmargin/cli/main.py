"""`softmargin VERB ...`: parse, run the verb, and turn whatever goes wrong into one line and an exit code.

Verbs are imported after the arguments have been parsed: `--help` must not wait for NumPy or Numba.
"""

import contextlib
import importlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from softmargin.cli.exit_codes import BROKEN_PIPE, ERROR, INTERNAL_ERROR, INTERRUPTED, TERMINATED, USAGE
from softmargin.cli.like import in_our_words
from softmargin.cli.options import parsed, valued_options
from softmargin.core.errors import IncompatibleError, SoftmarginError, one_line

__all__ = ["main"]

_DEBUG = "SOFTMARGIN_DEBUG"
_LAST_STREAM = 2  # the number of stderr


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the words of this process, and return its exit code; nothing is raised."""
    _open_closed_streams()
    with _terminations() as terminated:
        code = _guarded(argv)
    return TERMINATED if code == INTERRUPTED and terminated.is_set() else code


def _guarded(argv: Sequence[str] | None) -> int:
    try:
        with _one_line_warnings():
            code = _run(argv)
            sys.stdout.flush()
        return code
    except IncompatibleError as problem:
        verb = next(iter(sys.argv[1:] if argv is None else argv), "")
        return _fail(USAGE, f"error: {_in_options(problem, verb)} See: softmargin {verb} --help")
    except SoftmarginError as problem:
        verb = next(iter(sys.argv[1:] if argv is None else argv), "")
        return _fail(ERROR, f"error: {_in_options(problem, verb)}")
    except KeyboardInterrupt:
        return _fail(INTERRUPTED, "interrupted: there was no result yet.")
    except BrokenPipeError:
        # Python would complain once more about the broken pipe when it exits.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except MemoryError as problem:
        return _fail(ERROR, f"error: not enough memory. {problem} Use fewer rows, or train with --float32.")
    except OSError as problem:
        return _fail(ERROR, f"error: {problem}")
    except Exception as problem:
        what = f"{type(problem).__name__}: {problem}".rstrip(": ")
        return _fail(INTERNAL_ERROR, f"internal error: {what}. Set {_DEBUG}=1 to see where, and please report it.")


def _run(argv: Sequence[str] | None) -> int:
    words = in_our_words(sys.argv[1:] if argv is None else argv, lambda: valued_options("train"))
    try:
        args = parsed(words)
    except SystemExit as end:  # argparse has printed help, version or its one line
        return int(end.code or 0)
    verb = importlib.import_module(f"softmargin.cli.{args.verb}")
    from softmargin.core.threads import threads

    with threads(getattr(args, "jobs", None)):
        return int(verb.run(args))


def _open_closed_streams() -> None:
    """Give a place to what is written to streams that the caller has closed (`softmargin ... >&-`)."""
    if sys.stdout is None or sys.stderr is None:
        # Files that are opened later must not get the numbers of these streams.
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
            pass
        os.close(descriptor)
        sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115


@contextlib.contextmanager
def _terminations() -> Iterator[threading.Event]:
    """Let SIGTERM end a run as Ctrl-C does, with what there is saved; tell whether it came."""
    came = threading.Event()

    def on_termination(signum: int, frame: Any) -> None:
        came.set()
        raise KeyboardInterrupt

    on_termination.may_wait = True  # type: ignore[attr-defined]  # for the end of a step: see run.solve
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield came
        return
    signal.signal(signal.SIGTERM, on_termination)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_options(problem: SoftmarginError, verb: str) -> str:
    """Return a message with the settings that it names as they are spelled on the command line."""
    from softmargin.cli.show import in_options

    return in_options(str(problem), verb)


def _fail(code: int, line: str) -> int:
    if os.environ.get(_DEBUG):
        traceback.print_exc(file=sys.stderr)
    sys.stderr.write(f"softmargin: {one_line(line)}\n")
    return code


@contextlib.contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
        sys.stderr.write(f"softmargin: warning: {one_line(str(message))}\n")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
