"""One self-contained HTML page: tables, text and pictures, without any link to the network."""

import base64
import html
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from softmargin.core.errors import DataError
from softmargin.core.files import atomic_write

__all__ = ["Section", "build_page", "image", "preformatted", "table"]

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --line: #ddd; --shade: #f6f6f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --paper: #181818; --line: #444; --shade: #262626; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
       background: var(--paper); overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; overflow-wrap: normal; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, table.text td { text-align: left; }
table.text td { overflow-wrap: anywhere; }
pre { background: var(--shade); padding: 1rem; overflow-x: auto; font-size: 12px; }
img, svg { max-width: 100%; height: auto; }
"""


class Section(NamedTuple):
    """A heading and its content, as HTML."""

    heading: str
    body: str


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, is_text: bool = False) -> str:
    """Return a table of plain text as HTML; numbers stand on the right, where it is not mostly text."""
    lines = [*([_row("th", head)] if head else []), *(_row("td", row) for row in rows)]
    kind = ' class="text"' if is_text or not head else ""
    return f'<div class="wide"><table{kind}>\n' + "\n".join(lines) + "\n</table></div>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"


def preformatted(text: str) -> str:
    """Return text verbatim, as HTML."""
    return f"<pre>{html.escape(text)}</pre>"


def image(path: str | os.PathLike[str], caption: str = "") -> str:
    """Return a PNG file as an image inside the page."""
    data = base64.b64encode(Path(path).read_bytes()).decode("ascii")
    return f'<p><img alt="{html.escape(caption, quote=True)}" src="data:image/png;base64,{data}"></p>'


def build_page(
    path: str | os.PathLike[str], title: str, sections: Iterable[Section], facts: dict[str, Any] | None = None
) -> None:
    """Write the page, whole or not at all; it ends with ``facts`` of the machine."""
    parts = [f"<h2>{html.escape(section.heading)}</h2>\n{section.body}" for section in sections]
    if facts is not None:
        rows = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in facts.items()]
        parts.append("<h2>Where and how this was measured</h2>\n" + table(("fact", "value"), rows))
    name = html.escape(title)
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{name}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{name}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    with atomic_write(path, error=DataError) as file:
        file.write(page.encode("utf-8"))
