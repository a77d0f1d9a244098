"""A table in HTML for notebooks. All text is escaped: names come from files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from trainload.formats.printable import printable


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A `<table>` with a caption; the first column is aligned to the left, as names are."""
    head = "".join(f"<th>{_text(each)}</th>" for each in header)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    top = f'<caption style="text-align: left">{_text(caption)}</caption>'
    return f"<table>{top}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str]) -> str:
    first, *rest = map(_text, row)
    return f'<td style="text-align: left">{first}</td>' + "".join(f"<td>{each}</td>" for each in rest)


def _text(text: str) -> str:
    return escape(printable(text))
