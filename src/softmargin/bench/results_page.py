"""Fill a Markdown page of docs/results with what a suite measured: its text stays, its tables are replaced."""

import contextlib
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from softmargin.core.errors import DataError
from softmargin.core.files import atomic_write

__all__ = ["fill_page"]

_BLOCK = re.compile(r"(<!-- begin (?P<name>[\w-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\((?P<path>[^)\s]+\.png)\)")


def fill_page(page: Path, suite: str, blocks: Mapping[str, str], out: Path) -> None:
    """Replace the blocks that the page marks by ``blocks``, and the pictures it shows by those in ``out``.

    A block stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. The block ``machine`` says where, when and
    by which sources the results in ``out`` were measured.
    """
    text = _text(page)
    marked = {found["name"] for found in _BLOCK.finditer(text)}
    blocks = {**blocks, "machine": _machine(suite, out)}
    if missing := sorted(marked - set(blocks)):
        raise DataError(f"{page}: no result for the blocks {', '.join(missing)}; {suite} has {', '.join(blocks)}.")
    text = _BLOCK.sub(lambda found: f"{found[1]}\n{blocks[found['name']].strip()}\n\n{found[3]}", text)
    for shown in {found["path"] for found in _PICTURE.finditer(text)}:
        drawn = out / Path(shown).name
        if drawn.exists():
            shutil.copyfile(drawn, page.parent / shown)
    with atomic_write(page, error=DataError) as file:
        file.write(text.encode("utf-8"))


def _text(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{page}: cannot be read as text: {problem}") from problem


def _machine(suite: str, out: Path) -> str:
    """Say which result files were measured where, when and by which sources."""
    files: dict[str, list[str]] = {}
    for path in sorted(out.glob("*.jsonl")):
        for sentence in dict.fromkeys(_sentence(facts) for facts in _facts(path)):
            files.setdefault(sentence, []).append(path.stem)
    lines = [f"- {', '.join(names)}: {sentence}" for sentence, names in files.items()]
    return "\n".join([f"`softmargin bench {suite} -o DIR --page PAGE`", "", *lines])


def _facts(path: Path) -> list[dict[str, Any]]:
    """Return the machines that a file of results names before a measurement."""
    return [
        row
        for row, after in itertools.pairwise(_rows(path))
        if row.get("kind") == "machine" and after.get("kind") != "machine"
    ]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file of results, but for those that a killed run left unfinished."""
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _sentence(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items() if name != "softmargin")
    commit = f"commit {facts['commit']}" if facts.get("commit") else f"sources {facts['source']}"
    return (
        f"measured on {facts['date'][:10]} at {commit}, on {facts['machine']} ({facts['cpu']}, {facts['cores']} cores, "
        f"{facts['memory_gb']:g} GB), one thread a contender; Python {facts['python']}, {versions}."
    )
