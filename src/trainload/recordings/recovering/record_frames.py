"""Frames that lie in a recording, as a new one takes them: bytes as they were stored, with all that is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.recordings.format import sections
from trainload.recordings.format.hyperframe import BYTE_OFFSET, BYTE_SIZE, Index
from trainload.recordings.format.records import WindowRecord
from trainload.recordings.writing.part import StoredFrame
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

    @staticmethod
    def joined(some: list[SideValues]) -> SideValues:
        """The values of all, one after the other."""
        receive, duration = [one.receive for one in some], [one.duration for one in some]
        return SideValues(np.concatenate(receive), np.concatenate(duration))

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> SideValues:
        return SideValues(self.receive[rows], self.duration[rows])


def frames_of_record(source: FileSource, record: WindowRecord) -> tuple[list[StoredFrame], NDArray[np.bool_]]:
    """The whole frames of a window, read at once, and which of the record's entries these are."""
    size = min(record.head.extent_size, source.size - record.offset)
    data = memoryview(source.read_at(record.offset, size))
    stored = [data[row[BYTE_OFFSET] - record.offset :][: row[BYTE_SIZE]] for row in record.entries.tolist()]
    side = SideValues.from_sections(dict(record.sections), entries=len(record.entries), path=source.path)
    return whole_frames(record.entries, stored, side)


def whole_frames(
    rows: Index, stored: Sequence[memoryview], side: SideValues
) -> tuple[list[StoredFrame], NDArray[np.bool_]]:
    """The frames whose bytes are all there and have the CRC-32 that their entry says, and which of `rows` these are."""
    good = np.zeros(len(rows), np.bool_)
    frames: list[StoredFrame] = []
    for n, (row, data, received, lasted) in enumerate(
        zip(rows.tolist(), stored, side.receive.tolist(), side.duration.tolist())
    ):
        stream_id, flags, number, time, _, size, crc = row
        if len(data) == size and isal_zlib.crc32(data) == crc:
            good[n] = True
            frames.append(StoredFrame(time, stream_id, flags, number, data, received, lasted))
    return frames, good
