"""Index and sections of a finished recording, checked whole: by the reader's pieces, with one of them in memory.

The reader keeps the whole index. Recovery keeps none, so that its memory does not depend on the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from isal import isal_zlib

from trainload.errors import FormatError
from trainload.formats.fields import Checker
from trainload.formats.sections import HEAD_BYTES, section_crc_from_bytes
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import rules, sections
from trainload.recordings.format.records import Hole, Section
from trainload.recordings.reading.tables import SectionPlace, find_sections, index_pieces, read_header
from trainload.recordings.recovering.record_frames import SideValues
from trainload.storage.file import FileSource

CHUNK_BYTES = 1 << 20
_SIDE_BYTES = {sections.TAG_RECEIVE_TIMES: 8, sections.TAG_DURATIONS: 4}  # of one value


class FileTables:
    """The tables of `source`. Raises FormatError unless header, index and sections are those of a good finished file.

    Windows and frames are not looked at.
    """

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._check = Checker(source.path)
        self.header = read_header(source)
        self._check.require(
            not self.header.plain,
            rules.RECOVER_PROFILE,
            field="profile_version",
            offset=96,
            found=0,
            expected=hfrm.PROFILE_VERSION,
        )
        self._sections = list(find_sections(source, self.header))
        for place in self._sections:
            self._check_section(place)
        self._check_index()

    @staticmethod
    def if_good(source: FileSource) -> FileTables | None:
        """The tables of a file that may be damaged; None where any of them is, or is missing."""
        try:
            return FileTables(source)
        except FormatError:
            return None

    def section(self, tag: bytes) -> bytes:
        """The body of a section, whole; b"" where there is none."""
        return next((self._body(place) for place in self._sections if place.tag == tag), b"")

    def sections_beside_index(self) -> list[Section]:
        """All sections that are neither arrays over the index nor made from it."""
        made = (*_SIDE_BYTES, sections.TAG_WINDOWS)
        return [(place.tag, self._body(place)) for place in self._sections if place.tag not in made]

    def index(self) -> Iterator[tuple[int, hfrm.Index]]:
        """The index in pieces, from its first row on: the number of each piece's first row, and the rows."""
        for first, piece in index_pieces(self._source, self.header):
            yield first, np.frombuffer(piece, hfrm.INDEX_DTYPE)

    def inside(self, hole: Hole) -> tuple[hfrm.Index, SideValues]:
        """The frames that lie in a hole between window records, by time."""
        entries: list[hfrm.Index] = [np.empty(0, hfrm.INDEX_DTYPE)]
        side = [SideValues.from_sections({}, entries=0, path=self._source.path)]
        for first, rows in self.index():
            offsets, sizes = rows["byte_offset"], rows["byte_size"]
            lost = np.flatnonzero((offsets >= hole.offset) & (offsets + sizes <= hole.end))
            if len(lost):
                entries.append(rows[lost])
                side.append(self._side(first, len(rows))[lost])
        found, values = np.concatenate(entries), SideValues.joined(side)
        order = np.argsort(found["timestamp_ns"], kind="stable")
        return found[order], values[order]

    def _body(self, place: SectionPlace) -> bytes:
        return self._source.read_at(place.body, place.size)

    def _side(self, first: int, count: int) -> SideValues:
        """What stands beside the rows first .. first + count of the index."""
        found: dict[bytes, bytes] = {}
        for place in self._sections:
            size = _SIDE_BYTES.get(place.tag)
            if size is not None:
                found[place.tag] = self._source.read_at(place.body + first * size, count * size)
        return SideValues.from_sections(found, entries=count, path=self._source.path)

    def _check_section(self, place: SectionPlace) -> None:
        expected = section_crc_from_bytes(self._source.read_at(place.offset, HEAD_BYTES))
        field = f"section {place.tag!r}"
        self._require_crc(self._crc32(place.body, place.size), expected, field, place.offset)
        whole = self.header.frame_count * _SIDE_BYTES.get(place.tag, 0)
        self._check.require(
            place.tag not in _SIDE_BYTES or place.size == whole,
            rules.SIDE_VALUES,
            field=field,
            offset=place.offset,
            found=place.size,
            expected=whole,
        )

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
                rules.INDEX_ORDER,
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
            rules.RECOVER_CRC,
            field=field,
            offset=offset,
            found=f"{found:#010x}",
            expected=f"{expected:#010x}",
        )
