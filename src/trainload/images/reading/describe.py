"""How an open set shows itself: one line for a terminal, a table for a notebook. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from trainload.formats.printable import printable

_SHOWN_CLASSES = 8


def in_one_line(kind: str, path: str, facts: Mapping[str, str]) -> str:
    """`DtsReader('a.dts', samples: 1,000, ...)`: the facts that are not empty."""
    told = (f"{value} {name}" if value.replace(",", "").isdigit() else value for name, value in facts.items() if value)
    return f"{kind}({', '.join([repr(path), *told])})"


def in_html(kind: str, path: str, facts: Mapping[str, str], class_names: Sequence[str]) -> str:
    """The same as a table, with the first class names. Text from files is escaped."""
    rows = {"path": path, **facts, "class names": _first(class_names)}
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(printable(value))}</td></tr>" for name, value in rows.items() if value
    )
    return f"<table><caption>{escape(kind)}</caption>{cells}</table>"


def size_text(size_bytes: int) -> str:
    """Bytes in the unit that suits them: "312 bytes", "16.8 MB", "146.4 GB"."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:,.1f} {name}"
    return f"{size_bytes} bytes"


def _first(class_names: Sequence[str]) -> str:
    rest = len(class_names) - _SHOWN_CLASSES
    return ", ".join(class_names[:_SHOWN_CLASSES]) + (f" and {rest:,} more" if rest > 0 else "")
