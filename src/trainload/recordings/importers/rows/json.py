"""The rows of a JSON array in a file of any size: each row, and the bytes it lies in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trainload.recordings.importers.source import Damage

_STEP = 1 << 20
_MAX_ROW_BYTES = 16 << 20
_BETWEEN = " \t\r\n,"
_ENDS = tuple(_BETWEEN + "]")
_parse = json.JSONDecoder().raw_decode


class JsonRow(NamedTuple):
    """One element of the array, and where it lies in the file."""

    offset: int
    size: int
    value: Any


def json_rows(path: Path, damage: Damage) -> Iterator[JsonRow]:
    """The elements of the array in the file at `path`, in order; none where there is no such file.

    From where they stop to be JSON, the rest of the file counts as damage. The text is cut as latin-1, so that a place
    in it is a place in the file: JSON's own signs are ASCII.
    """
    if not path.is_file():
        return
    size = path.stat().st_size
    with path.open("rb") as file:
        start, text = 0, file.read(_STEP).decode("latin-1")  # start: of text in the file
        at = _skip(text, 0)
        opened = text[at : at + 1] == "["
        at += opened
        while opened:
            at = _skip(text, at)
            whole = start + len(text) >= size
            for end, value in _values(text, at, whole=whole):
                yield JsonRow(start + at, end - at, value)
                at = _skip(text, end)
            if text[at : at + 1] == "]":
                return
            if whole or len(text) - at >= _MAX_ROW_BYTES:
                break
            more = file.read(_STEP).decode("latin-1")
            if not more:
                break
            start, text, at = start + at, text[at:] + more, 0
    damage.add(f"{path.name}: no rows of a JSON array from byte {start + at:,} on", size_bytes=size - start - at)


def _values(text: str, at: int, *, whole: bool) -> Iterator[tuple[int, Any]]:
    """(end, value) of every element from `at` on that ends inside the text."""
    while at < len(text) and text[at] != "]":
        try:
            value, end = _parse(text, at)
            piece = text[at:end]
            if not piece.isascii():
                value = json.loads(piece.encode("latin-1"))
        except (ValueError, RecursionError):
            return
        if text[end - 1] not in '}]"' and text[end : end + 1] not in _ENDS and not (whole and end == len(text)):
            return  # a number that goes on behind this text
        yield end, value
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BETWEEN:
        at += 1
    return at
