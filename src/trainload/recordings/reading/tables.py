"""Header, sections and index of one HFRM file, each read for itself and the index in pieces.

What the reader, verification and recovery share. Keeps nothing: whoever asks decides what stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainload.formats.fields import Checker
from trainload.formats.limits import MAX_SECTIONS
from trainload.formats.sections import HEAD_BYTES, section_head_from_bytes, sections_from_bytes
from trainload.recordings.format.hyperframe import HEADER_BYTES, INDEX_ENTRY_BYTES, HyperframeHeader
from trainload.storage.source import Source

MAX_GAP_BYTES = 64 << 10  # between index and sections, of one read that brings both
PIECE_ROWS = 1 << 14  # 512 KB of index, read and checked before the next: it stays in the second-level cache


class SectionPlace(NamedTuple):
    """Where a section lies: offset of its head, bytes of its body, which follows the head."""

    tag: bytes
    offset: int
    size: int

    @property
    def body(self) -> int:
        """The offset of the body."""
        return self.offset + HEAD_BYTES

    @property
    def end(self) -> int:
        """The offset where the next section begins."""
        return self.offset + HEAD_BYTES + self.size


def read_header(source: Source, *, unfinished_allowed: bool = False) -> HyperframeHeader:
    """The checked header of an open file. Raises FormatError, also for an unfinished file unless that is allowed."""
    head = source.read_at(0, min(HEADER_BYTES, source.size))
    return HyperframeHeader.from_bytes(
        head, file_size=source.size, path=source.path, unfinished_allowed=unfinished_allowed
    )


def hold_tables(source: Source, header: HyperframeHeader) -> None:
    """Let a remote source fetch index and sections by one read, where they lie side by side, as ours do."""
    places = [(header.index_offset, header.index_size), (header.sections_offset, header.sections_size)]
    found = [(at, size) for at, size in places if size]
    if not found:
        return
    start, end = min(at for at, _ in found), max(at + size for at, size in found)
    if end - start <= sum(size for _, size in found) + MAX_GAP_BYTES:
        source.hold(start, end - start)


def find_sections(source: Source, header: HyperframeHeader) -> Iterator[SectionPlace]:
    """Every section in file order, bodies unread; a plain file has none.

    Raises FormatError where a head does not fit or is one too many: what follows cannot be found.
    """
    at, end, count = header.sections_offset, header.sections_offset + header.sections_size, 0
    while not header.plain and at < end:
        count += 1
        Checker(source.path).limit(count, MAX_SECTIONS, field="section count", offset=at)
        head = source.read_at(at, min(HEAD_BYTES, end - at))
        tag, size = section_head_from_bytes(head, room=end - at, path=source.path, offset=at)
        yield SectionPlace(tag, at, size)
        at += HEAD_BYTES + size


def read_section(source: Source, place: SectionPlace) -> bytes:
    """The body of a section. Raises FormatError where its CRC-32 does not match."""
    data = source.read_at(place.offset, HEAD_BYTES + place.size)
    [(_, body)] = sections_from_bytes(data, path=source.path, offset=place.offset)
    return body


def index_pieces(
    source: Source, header: HyperframeHeader, into: memoryview | None = None
) -> Iterator[tuple[int, memoryview]]:
    """The index in pieces of PIECE_ROWS rows: the number of each piece's first row, and its bytes, unchecked.

    into: the memory for all of the index, where it is to be kept; left out, each piece has memory of its own.
    """
    for at in range(0, header.index_size, PIECE_ROWS * INDEX_ENTRY_BYTES):
        size = min(PIECE_ROWS * INDEX_ENTRY_BYTES, header.index_size - at)
        if into is None:
            piece = memoryview(source.read_at(header.index_offset + at, size))
        else:
            piece = into[at : at + size]
            source.readinto_at(header.index_offset + at, piece)
        yield at // INDEX_ENTRY_BYTES, piece
