"""The index of one HFRM file, read and checked in one pass while the bytes are still in the cache.

Opening checks what every later look-up relies on: the CRC-32, the order, and that no frame starts behind the end of the
file. What only one frame needs (its end, its codec) is checked when that frame is read, and all of it by `verify`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.memory.aligned import aligned_buffer
from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import (
    INDEX_DTYPE,
    INDEX_ENTRY_BYTES,
    MAX_TIMESTAMP_NS,
    HyperframeHeader,
    Index,
    index_from_bytes,
)
from trainload.recordings.reading.tables import index_pieces
from trainload.storage.source import Source

_WORDS = INDEX_ENTRY_BYTES // 8
_TIME_WORD, _OFFSET_WORD = 1, 2  # where TimestampNs and ByteOffset stand in an entry, in words of 8 bytes


def read_index(source: Source, header: HyperframeHeader) -> tuple[Index, dict[int, slice]]:
    """The index sorted by (StreamId, TimestampNs), and the rows of each stream in it.

    A plain file's index may be unsorted: then it is sorted in memory. Cost: about 2.5 reads of the same bytes. Raises
    FormatError for a CRC-32 that does not match, an index of ours that is not sorted, a time of more than 63 bits, and
    a frame behind the end of the file.
    """
    data = aligned_buffer(header.index_size)
    entries: Index = np.frombuffer(data, INDEX_DTYPE)
    scan = _Scan(entries)
    for first, piece in index_pieces(source, header, into=data):
        scan.take(piece, first)
    if not header.plain and scan.crc != header.index_crc:
        raise rules.INDEX_CRC.broken(
            field="index crc",
            offset=header.index_offset,
            found=f"{scan.crc:#010x}",
            expected=f"{header.index_crc:#010x}",
            path=source.path,
        )
    if not scan.sorted or scan.last_offset > source.size:
        entries = index_from_bytes(bytes(data), header, file_size=source.size, path=source.path)
        scan.ids = np.ascontiguousarray(entries["stream_id"])
    return entries, _rows(scan.ids)


class _Scan:
    """What one pass over the index finds, piece by piece."""

    def __init__(self, entries: Index) -> None:
        self.crc = 0
        self.last_offset = 0
        self.ids: NDArray[np.uint16] = np.empty(len(entries), np.uint16)
        self._ids_in_file = entries["stream_id"]
        self._times = entries["timestamp_ns"]
        self._words = entries.view("<u8")
        self._earlier = 0  # entries whose time lies before that of the entry in front of them

    def take(self, piece: memoryview, first: int) -> None:
        """The bytes of the rows from `first` on."""
        last = first + len(piece) // INDEX_ENTRY_BYTES
        self.crc = isal_zlib.crc32(piece, self.crc)
        self.ids[first:last] = self._ids_in_file[first:last]
        times = self._words[max(0, first - 1) * _WORDS + _TIME_WORD : last * _WORDS : _WORDS]
        self._earlier += int(np.count_nonzero(times[1:] < times[:-1]))
        offsets = self._words[first * _WORDS + _OFFSET_WORD : last * _WORDS : _WORDS]
        self.last_offset = max(self.last_offset, int(offsets.max()))

    @property
    def sorted(self) -> bool:
        """True where streams ascend and times descend only from one stream to the next, all within 63 bits."""
        if (self.ids[1:] < self.ids[:-1]).any():
            return False
        seams = np.flatnonzero(self.ids[1:] != self.ids[:-1]) + 1
        ends = np.append(seams, len(self.ids))[: len(self.ids)] - 1
        good = self._earlier == int(np.count_nonzero(self._times[seams] < self._times[seams - 1]))
        return good and bool((self._times[ends] <= MAX_TIMESTAMP_NS).all())


def _rows(ids: NDArray[np.uint16]) -> dict[int, slice]:
    """The rows of each stream in ascending ids."""
    bounds = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    return {int(ids[first]): slice(first, last) for first, last in pairwise(bounds) if first < last}
