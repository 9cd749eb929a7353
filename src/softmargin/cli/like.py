"""`softmargin train --like liblinear ...`: the options of LIBLINEAR's `train` and of LIBSVM's `svm-train` in our words.

    softmargin train --like liblinear -s 4 -c 1 -B 1 DATA MODEL
    softmargin train --like libsvm -t 2 -c 1 -g 0.1 DATA MODEL

Options with one dash are theirs, with their defaults; -o, -j and those with two dashes are ours. What has no
counterpart is refused.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from softmargin.core.errors import IncompatibleError, one_line

__all__ = ["LIBRARIES", "in_our_words"]

_OPTION = "--like"
_OURS = ("-o", "-j")  # with one dash
_SQUARED = ("--multiclass", "one_vs_rest", "--loss", "squared_hinge")
_LIBLINEAR_TYPES = {
    "0": ("--model", "softmax"),
    "1": _SQUARED,
    "2": _SQUARED,
    "3": ("--multiclass", "one_vs_rest"),
    "4": ("--multiclass", "crammer_singer"),
    "6": ("--model", "softmax", "--l1-ratio", "1"),
    "7": ("--model", "softmax"),
}
_LOGISTIC = ("0", "6", "7")
_KERNELS = {"0": "linear", "1": "polynomial", "2": "rbf", "3": "sigmoid"}
_JOINT = "of more than two classes, our softmax model is a joint one; LIBLINEAR's is one-vs-rest."
_WEIGHTS = (
    "of more than two classes, a weight here counts for the rows of its class in every problem; with LIBLINEAR's "
    "one-vs-rest only in the one of its class."
)
_TOLERANCE = "-e bounds  a gradient, and proves no distance; ours is --tol, a relative duality gap (default: 1e-3)."


class _Library(NamedTuple):
    """A program whose options are understood."""

    valued: str  # letters of the options with a value
    plain: str  # and of those without one
    refused: dict[str, str]  # why some have no counterpart
    translated: Callable[[dict[str, str]], tuple[list[str], list[str]]]  # our words, and what is to be noted


def in_our_words(words: Sequence[str], valued: Callable[[], Sequence[str]]) -> list[str]:
    """Return the words of a command line, with our options where some are asked for in the words of another library.

    ``valued()`` are our options that have a value.
    """
    words = list(words)
    at = next((i for i, word in enumerate(words) if word == _OPTION or word.startswith(f"{_OPTION}=")), None)
    if at is None or words[0] != "train":
        return words
    _, equals, name = words.pop(at).partition("=")
    if not equals:
        name = words.pop(at) if at < len(words) else ""
    if name not in LIBRARIES:
        raise IncompatibleError(f"{_OPTION} takes {' or '.join(LIBRARIES)}; found {name!r}.")
    library = LIBRARIES[name]
    theirs, ours = _divided(words[1:], name, library, valued())
    found, notes = library.translated(theirs)
    for option, own in {"-c": "-C", "-v": "--cv"}.items():
        found += [own, theirs[option]] if option in theirs else []
    weights = [f"{option[2:]}={weight}" for option, weight in theirs.items() if _is_weight(option)]
    found += ["--class-weight", ",".join(weights)] if weights else []
    if "-q" in theirs:
        found.append("-q")
    else:
        notes += [_TOLERANCE] if "-e" in theirs else []
        sys.stderr.writelines(f"softmargin: note: {one_line(note)}\n" for note in notes)
    return ["train", *found, *ours]


def _is_weight(word: str) -> bool:
    return word.startswith("-w") and len(word) > 2


def _divided(words: list[str], name: str, library: _Library, valued: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return their options, and ours; the second word that is no option is the file of the model."""
    theirs: dict[str, str] = {}
    ours, files, left = [], [], iter(words)
    for word in left:
        if word.startswith("--") or word in _OURS:
            ours += [word, _value(word, left)] if word in valued else [word]
        elif word == "-" or not word.startswith("-"):
            files.append(word)
        elif word in library.refused:
            raise IncompatibleError(f"{word} of {name} has no counterpart here: {library.refused[word]}.")
        elif _is_weight(word) or (len(word) == 2 and word[1] in library.valued):
            theirs[word] = _value(word, left)
        elif len(word) == 2 and word[1] in library.plain:
            theirs[word] = ""
        else:
            raise IncompatibleError(f"{word!r} is no option of {name}; those with two dashes are ours.")
    if len(files) > 2:
        raise IncompatibleError(f"{' '.join(files)} are more than DATA and MODEL.")
    return theirs, [*ours, *files[:1], *(["-o", files[1]] if len(files) == 2 else [])]


def _value(option: str, left: Iterator[str]) -> str:
    value = next(left, None)
    if value is None:
        raise IncompatibleError(f"{option} needs a value.")
    return value


def _number(theirs: dict[str, str], option: str, default: str) -> float:
    try:
        return float(theirs.get(option, default))
    except ValueError:
        raise IncompatibleError(f"{option} {theirs[option]} is no number.") from None


def _liblinear(theirs: dict[str, str]) -> tuple[list[str], list[str]]:
    kind, bias = theirs.get("-s", "1"), _number(theirs, "-B", "-1")
    if kind not in _LIBLINEAR_TYPES:
        raise IncompatibleError(
            f"-s {kind} has no counterpart here: there are {', '.join(_LIBLINEAR_TYPES)} (5 is the squared hinge with "
            "an l1 penalty, 11 and above are regression and one-class)."
        )
    words = list(_LIBLINEAR_TYPES[kind])
    is_free = "-R" in theirs
    if is_free and bias <= 0:
        raise IncompatibleError("-R frees the intercept that -B makes: add -B 1.")
    if is_free and kind in ("3", "4"):
        raise IncompatibleError(f"-R does not go with -s {kind}, as in LIBLINEAR; for -s 3 there is --free-intercept.")
    if bias <= 0:
        words.append("--no-intercept")
    elif kind in _LOGISTIC and not is_free:
        raise IncompatibleError(
            f"-B {bias:g} with -s {kind}: our intercept there has no penalty. Add -R, or leave out -B."
        )
    elif kind not in _LOGISTIC and not is_free:
        words += ["--intercept-scaling", f"{bias:g}", *(["--penalized-intercept"] if words[:4] == [*_SQUARED] else [])]
    if "-C" in theirs:
        if "-c" in theirs:
            raise IncompatibleError("-C looks for the best -c. Leave out one of the two.")
        words += ["--search", "C"]
    notes = [_JOINT] if kind in _LOGISTIC else []
    has_weights = any(map(_is_weight, theirs))
    return words, [*notes, _WEIGHTS] if has_weights and kind not in (*_LOGISTIC, "4") else notes


def _libsvm(theirs: dict[str, str]) -> tuple[list[str], list[str]]:
    kind, kernel = theirs.get("-s", "0"), theirs.get("-t", "2")
    if kind != "0":
        raise IncompatibleError(
            f"-s {kind} has no counterpart here: there is 0 (C-SVC), no nu-SVC, one-class or regression."
        )
    if kernel not in _KERNELS:
        raise IncompatibleError(
            f"-t {kernel} has no counterpart here: there are {', '.join(_KERNELS)}. A kernel matrix (4) is read "
            "in Python only."
        )
    words = ["--model", "kernel-svc", "--multiclass", "one_vs_one", "--free-intercept", "--approximation", "none"]
    words += ["--kernel", _KERNELS[kernel]]
    words += ["--gamma", theirs.get("-g", "auto")] if kernel != "0" else []
    for option, own in {"-d": "--degree", "-r": "--coef0", "-m": "--cache-size"}.items():
        words += [own, theirs[option]] if option in theirs else []
    words += ["--probabilities", "sigmoid"] if _number(theirs, "-b", "0") else []
    return words, []


_REGRESSION = "it belongs to support vector regression"
LIBRARIES = {
    "liblinear": _Library("sceBv", "RCq", {"-p": _REGRESSION, "-n": "it belongs to one-class SVMs"}, _liblinear),
    "libsvm": _Library("stdgrcmehbv", "q", {"-p": _REGRESSION, "-n": "it belongs to nu-SVMs"}, _libsvm),
}
