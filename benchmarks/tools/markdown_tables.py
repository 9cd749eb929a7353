"""Markdown tables, and text printed as it stands."""

from collections.abc import Iterable, Sequence

from tools.common import console


def write(text: str) -> None:
    """Print as it stands."""
    console.print(text, markup=False, soft_wrap=True)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
