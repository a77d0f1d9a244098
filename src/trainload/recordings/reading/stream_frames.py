"""The frames of one stream as columns sorted by time, and which of them lies at, before, after or nearest to a time.

Arrays only: this file knows no storage and makes no object per frame.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format.hyperframe import INDEX_ENTRY, INDEX_ENTRY_BYTES, KEY_FRAME, Entry, Index
from trainload.recordings.format.streams import StreamInfo

_unpack_entry = INDEX_ENTRY.unpack_from
_SEARCH_STEP = 4096  # entries looked at together on the way back to a key frame


class StreamFrames:
    """One stream over all files of a recording; position 0 is its earliest frame.

    info: what the stream table says of it. entries: its index entries by time; equal times keep the order of the index.
    timestamps: int64[n]; times: the same as a memoryview. parts: which file each frame lies in, int32[n], or None where
    there is one file.
    """

    __slots__ = ("_arrival", "_order", "_records", "entries", "info", "parts", "times", "timestamps")

    def __init__(self, info: StreamInfo, entries: Sequence[Index]) -> None:
        """`entries`: for each file the stream's part of its index, sorted by time."""
        self.info = info
        self.entries: Index = entries[0] if len(entries) == 1 else np.concatenate(entries)
        self.parts: NDArray[np.int32] | None = None
        if len(entries) > 1:
            self.parts = np.repeat(np.arange(len(entries), dtype=np.int32), [len(part) for part in entries])
        times: NDArray[np.int64] = self.entries["timestamp_ns"].astype(np.int64)
        self._order: NDArray[np.intp] | None = None
        if self.parts is not None and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            self._order, self.entries, times, self.parts = order, self.entries[order], times[order], self.parts[order]
        self.timestamps = times
        self.times = times.data  # bisect looks at single times of a memoryview faster than numpy at one of its own
        self._records = np.ascontiguousarray(self.entries).view(np.uint8).data
        self._arrival: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def entry(self, position: int) -> Entry:
        """The index entry at a position as numbers."""
        return cast("Entry", _unpack_entry(self._records, position * INDEX_ENTRY_BYTES))

    def in_order(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Values kept beside the index (one array per file, one value per entry of this stream), in time order."""
        values = np.concatenate(parts)
        return values if self._order is None else values[self._order]

    def after(self, time_ns: int) -> int | None:
        """The position of the first frame at or after `time_ns`, None where there is none."""
        found = bisect_left(self.times, time_ns)
        return found if found < len(self.times) else None

    def before(self, time_ns: int) -> int | None:
        """The position of the last frame at or before `time_ns`, None where there is none."""
        found = bisect_right(self.times, time_ns) - 1
        return found if found >= 0 else None

    def at(self, time_ns: int) -> int | None:
        """The position of the first frame of exactly `time_ns`, None where there is none."""
        found = self.after(time_ns)
        return found if found is not None and self.times[found] == time_ns else None

    def nearest(self, time_ns: int) -> int | None:
        """The position of the frame closest to `time_ns`, the earlier of two equally close; None where none is."""
        found = self.after(time_ns)
        if found is None:
            return self.at(self.times[-1]) if len(self.times) else None
        if found and time_ns - self.times[found - 1] <= self.times[found] - time_ns:
            return self.at(self.times[found - 1])
        return found

    def between(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """The positions [first, last) of the frames with start_ns <= time < end_ns."""
        first, last = bisect_left(self.times, start_ns), bisect_left(self.times, end_ns)
        return first, max(first, last)

    def key_frame(self, position: int) -> int | None:
        """The position of the last key frame at or before `position`, None where there is none."""
        flags = self.entries["flags"]
        for end in range(position + 1, 0, -_SEARCH_STEP):
            start = max(0, end - _SEARCH_STEP)
            keys = np.flatnonzero(flags[start:end] & KEY_FRAME)
            if len(keys):
                return start + int(keys[-1])
        return None

    def number(self, position: int) -> int:
        """The StreamIndex of a position: it counts in the order of arrival, which for video is that of decoding."""
        return int(self.entries["stream_index"][position])

    def in_arrival_order(self, start: int) -> Iterator[int]:
        """The positions from `start` on in the order of arrival: by StreamIndex, equal ones by time."""
        if self._arrival is None:
            self._arrival = np.argsort(self.entries["stream_index"], kind="stable")
        first = int(np.searchsorted(self.entries["stream_index"], self.number(start), sorter=self._arrival))
        for place in range(first, len(self)):
            yield int(self._arrival[place])
