"""What a reader asks of a place that holds bytes. Knows no format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Source(Protocol):
    """Bytes that can be read at any place: exactly as many as asked for, or an error. Safe for many threads."""

    @property
    def path(self) -> str:
        """The name that error messages show."""

    @property
    def size(self) -> int:
        """Bytes in the source when it was opened."""

    def read_at(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`. Raises FormatError where the source ends before that."""

    def readinto_at(self, offset: int, buffer: Buffer) -> None:
        """Fill all of `buffer` from `offset`. Raises FormatError where the source ends before that."""

    def will_need(self, offset: int, size: int) -> None:
        """A hint that these bytes are read soon, so that many small reads can be under way at once. May do nothing."""

    def close(self) -> None:
        """Let go of the handle; closing twice is fine."""


def check_stretches(source: Source, stretches: Sequence[tuple[int, int]]) -> None:
    """Raise FormatError for a (start, end) past the end of `source`: to be asked before memory is taken for it."""
    for start, end in stretches:
        if end > source.size:
            source.read_at(start, end - start)  # says so
