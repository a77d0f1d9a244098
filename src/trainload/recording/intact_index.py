"""The index of a finished recording that was damaged elsewhere: it still names the frames whose record is lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.errors import FormatError
from trainload.formats import hyperframe as hfrm
from trainload.formats import hyperframe_sections as sections
from trainload.formats.hyperframe_records import Hole, Section
from trainload.formats.sections import sections_from_bytes
from trainload.storage.file import FileSource


@dataclass(frozen=True, slots=True)
class SideValues:
    """What RECV and DURA say beside some index entries: uint64[n], uint32[n]; zeros where there is no such section."""

    receive: NDArray[np.uint64]
    duration: NDArray[np.uint32]

    @staticmethod
    def from_sections(found: dict[bytes, bytes], *, entries: int, path: str) -> SideValues:
        """The values of a section list that goes with `entries` index entries. Raises FormatError."""
        receive, duration = np.zeros(entries, np.uint64), np.zeros(entries, np.uint32)
        if sections.TAG_RECEIVE_TIMES in found:
            body = found[sections.TAG_RECEIVE_TIMES]
            receive = sections.receive_times_from_bytes(body, entries=entries, path=path)
        if sections.TAG_DURATIONS in found:
            duration = sections.durations_from_bytes(found[sections.TAG_DURATIONS], entries=entries, path=path)
        return SideValues(receive, duration)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> SideValues:
        return SideValues(self.receive[rows], self.duration[rows])


@dataclass(frozen=True, slots=True)
class IntactIndex:
    """Index and sections of a finished file; `found` is False where either is damaged or missing, and all is empty."""

    found: bool
    index: hfrm.Index
    side: SideValues
    sections: tuple[Section, ...]

    @staticmethod
    def read(source: FileSource) -> IntactIndex:
        """What the file still has of it; never an error."""
        try:
            head = source.read_at(0, min(hfrm.HEADER_BYTES, source.size))
            header = hfrm.HyperframeHeader.from_bytes(head, file_size=source.size, path=source.path)
            data = source.read_at(header.index_offset, header.index_size)
            index = hfrm.index_from_bytes(data, header, file_size=source.size, path=source.path)
            body = source.read_at(header.sections_offset, header.sections_size)
            listed = sections_from_bytes(body, path=source.path, offset=header.sections_offset)
            side = SideValues.from_sections(dict(listed), entries=len(index), path=source.path)
        except FormatError:
            empty = SideValues.from_sections({}, entries=0, path=source.path)
            return IntactIndex(False, np.empty(0, hfrm.INDEX_DTYPE), empty, ())
        return IntactIndex(not header.plain, index, side, tuple(listed))

    def inside(self, hole: Hole) -> tuple[hfrm.Index, SideValues]:
        """The frames that lie in a hole, by time."""
        offsets, sizes = self.index["byte_offset"], self.index["byte_size"]
        rows = np.flatnonzero((offsets >= hole.offset) & (offsets + sizes <= hole.end))
        rows = rows[np.argsort(self.index["timestamp_ns"][rows], kind="stable")]
        return self.index[rows], self.side[rows]
