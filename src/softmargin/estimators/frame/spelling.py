"""Words of other libraries for settings of ours, taken where they mean the same.

    @also(multi_class={"ovr": {"multiclass": "one_vs_rest"}, ...}, dual={True: {}, False: {}})
    def __init__(self, C=1.0, *, multiclass="weston_watkins", ...): ...

``LinearSVC(multi_class="ovr")`` is then ``LinearSVC(multiclass="one_vs_rest")``, and has no parameter ``multi_class``:
``get_params`` and ``clone`` know our words only. ``{}`` is a word that changes nothing of the model. A value that means
what we do not have is refused with what we have.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import shown

__all__ = ["SOLVED_EITHER_WAY", "also"]

Init = Callable[..., None]

# ``dual`` and ``shrinking`` say how to solve, not what.
SOLVED_EITHER_WAY: Mapping[Any, dict[str, Any]] = {True: {}, False: {}, "auto": {}}


def also(hint: str, **words: Mapping[Any, dict[str, Any]]) -> Callable[[Init], Init]:
    """Let a constructor take other words: for each of its values the settings of ours that it stands for."""

    def decorate(init: Init) -> Init:
        @functools.wraps(init)
        def call(self: Any, *args: Any, **settings: Any) -> None:
            kind = type(self).__name__
            for word in words.keys() & settings.keys():
                value = settings.pop(word)
                if not isinstance(value, str | bool) or value not in words[word]:
                    choices = ", ".join(repr(choice) for choice in words[word])
                    raise IncompatibleError(f"{kind} takes {word}={choices}; found {shown(value)}. {hint}")
                for name, ours in words[word][value].items():
                    if settings.setdefault(name, ours) != ours:
                        raise IncompatibleError(
                            f"{kind} was given {word}={shown(value)} and {name}={shown(settings[name])}, which "
                            "contradict each other. Leave out one of the two."
                        )
            init(self, *args, **settings)

        return call

    return decorate
