"""Index and sections of a finished recording, checked whole but read in pieces: memory does not depend on its size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from isal import isal_zlib

from trainload.formats.fields import Checker
from trainload.formats.limits import MAX_SECTIONS
from trainload.formats.sections import HEAD_BYTES, section_crc_from_bytes, section_head_from_bytes
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import sections
from trainload.recordings.recovering.record_frames import SideValues
from trainload.storage.file import FileSource

PIECE_ROWS = 1 << 16
CHUNK_BYTES = 1 << 20
SIDE_BYTES = {sections.TAG_RECEIVE_TIMES: 8, sections.TAG_DURATIONS: 4}  # of one value


class FileTables:
    """The tables of `source`. Raises FormatError unless header, index and sections are those of a good finished file.

    sections: tag, offset of the body and its size, for each section in file order.
    """

    def __init__(self, source: FileSource) -> None:
        self._source = source
        head = source.read_at(0, min(hfrm.HEADER_BYTES, source.size))
        self.header = hfrm.HyperframeHeader.from_bytes(head, file_size=source.size, path=source.path)
        self._check = Checker(source.path)
        self._check.require(
            not self.header.plain,
            "a recording of ours must have our profile",
            field="profile_version",
            offset=96,
            found=0,
            expected=hfrm.PROFILE_VERSION,
        )
        self.sections = list(self._find_sections())
        self._check_index()

    def section(self, tag: bytes) -> bytes:
        """The body of a section, whole; b"" where there is none."""
        return next((self._source.read_at(at, size) for found, at, size in self.sections if found == tag), b"")

    def index(self) -> Iterator[tuple[int, hfrm.Index]]:
        """The index in pieces, from its first row on: the number of each piece's first row, and the rows."""
        count = self.header.frame_count
        for first in range(0, count, PIECE_ROWS):
            size = min(PIECE_ROWS, count - first) * hfrm.INDEX_ENTRY_BYTES
            data = self._source.read_at(self.header.index_offset + first * hfrm.INDEX_ENTRY_BYTES, size)
            yield first, np.frombuffer(data, hfrm.INDEX_DTYPE)

    def side(self, first: int, count: int) -> SideValues:
        """What stands beside the rows first .. first + count of the index."""
        found: dict[bytes, bytes] = {}
        for tag, offset, _ in self.sections:
            if tag in SIDE_BYTES:
                found[tag] = self._source.read_at(offset + first * SIDE_BYTES[tag], count * SIDE_BYTES[tag])
        return SideValues.from_sections(found, entries=count, path=self._source.path)

    def _find_sections(self) -> Iterator[tuple[bytes, int, int]]:
        at, end = self.header.sections_offset, self.header.sections_offset + self.header.sections_size
        number = 0
        while at < end:
            number += 1
            self._check.limit(number, MAX_SECTIONS, field="section count", offset=at)
            head = self._source.read_at(at, min(HEAD_BYTES, end - at))
            tag, size = section_head_from_bytes(head, room=end - at, path=self._source.path, offset=at)
            self._require_crc(self._crc32(at + HEAD_BYTES, size), section_crc_from_bytes(head), f"section {tag!r}", at)
            whole = self.header.frame_count * SIDE_BYTES.get(tag, 0)
            self._check.require(
                tag not in SIDE_BYTES or size == whole,
                "a section must hold one value per index entry",
                field=f"section {tag!r}",
                offset=at,
                found=size,
                expected=whole,
            )
            yield tag, at + HEAD_BYTES, size
            at += HEAD_BYTES + size

    def _check_index(self) -> None:
        start = self.header.index_offset
        self._require_crc(self._crc32(start, self.header.index_size), self.header.index_crc, "index crc", start)
        before = np.empty(0, hfrm.INDEX_DTYPE)
        for first, rows in self.index():
            place = start + first * hfrm.INDEX_ENTRY_BYTES
            hfrm.check_entries(
                rows, Checker(self._source.path, place), start=hfrm.HEADER_BYTES, end=self._source.size, profile=True
            )
            ascending = hfrm.is_sorted(np.concatenate((before, rows)))
            self._check.require(
                ascending,
                "the index must be sorted by (StreamId, TimestampNs)",
                field="index",
                offset=place,
                found="another order",
                expected="ascending rows",
            )
            before = rows[-1:]

    def _crc32(self, offset: int, size: int) -> int:
        crc = 0
        for at in range(offset, offset + size, CHUNK_BYTES):
            crc = isal_zlib.crc32(self._source.read_at(at, min(CHUNK_BYTES, offset + size - at)), crc)
        return crc

    def _require_crc(self, found: int, expected: int, field: str, offset: int) -> None:
        self._check.require(
            found == expected,
            "a CRC-32 must match",
            field=field,
            offset=offset,
            found=f"{found:#010x}",
            expected=f"{expected:#010x}",
        )
