"""What a reader asks of a place that holds bytes. Knows no format."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from trainload.storage.traffic import Traffic

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

    def read_aligned_at(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` in fresh memory that starts at a multiple of 64 and is the caller's."""

    def read_many(self, stretches: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, size): of many small reads, as many at once as the place likes."""

    def hold(self, offset: int, size: int) -> None:
        """A hint that all of these bytes are read next, in small parts: one read may bring them. May do nothing."""

    def will_need(self, offset: int, size: int) -> None:
        """A hint that these bytes are read soon, so that many small reads can be under way at once. May do nothing."""

    def identity(self) -> Hashable:
        """Equal for sources whose bytes are known to be the same; nothing is read."""

    def clone(self) -> Self:
        """Another handle on the same bytes, with counts of its own."""

    def take_traffic(self) -> Traffic | None:
        """What this handle read over a network since it was last asked; None for what is not on one."""

    def close(self) -> None:
        """Let go of the handle; closing twice is fine."""

    def __enter__(self) -> Self:
        """The source itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""


def check_stretches(source: Source, stretches: Sequence[tuple[int, int]]) -> None:
    """Raise FormatError for a (start, end) past the end of `source`: to be asked before memory is taken for it."""
    for start, end in stretches:
        if end > source.size:
            source.read_at(start, end - start)  # says so
