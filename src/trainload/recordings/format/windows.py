"""The window rule, and the window table (section WNDW) that follows from an index by that rule.

The law is docs/spec/hyperframe.md, sections 4 and 8. Windows are a pure function of the timestamps in the index and of
the window length: writer, recovery and a reader of plain files all get the same ones.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainload.formats.fields import Checker
from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import LATE, MAX_STREAMS, MAX_TIMESTAMP_NS, Index

_HEAD = struct.Struct("<II")  # windows, streams
PART_TYPES = {
    "start_ns": "<u8",
    "end_ns": "<u8",
    "extent_offset": "<u8",
    "extent_size": "<u8",
    "stream_ids": "<u2",
    "first": "<u4",
    "count": "<u4",
}


def window_starts(timestamps_ns: NDArray[np.int64], window_ns: int) -> NDArray[np.int64]:
    """The start of every window over ascending timestamps of all streams together.

    start_0 is the earliest timestamp; window k takes all that is not yet taken up to start_k + window_ns, both ends
    included; start_{k+1} is the earliest timestamp not yet taken. A frame's window is therefore the last one that
    starts at or before it. O(windows x log n).
    """
    starts: list[int] = []
    at, count = 0, len(timestamps_ns)
    while at < count:
        start = int(timestamps_ns[at])
        starts.append(start)
        at = int(np.searchsorted(timestamps_ns, min(start + window_ns, MAX_TIMESTAMP_NS), side="right"))
    return np.array(starts, np.int64)


@dataclass(frozen=True, slots=True)
class WindowTable:
    """All windows of a file, w of them over s streams (section WNDW).

    start_ns, end_ns: int64[w], end = start + window length, included. extent_offset, extent_size: int64[w], the bytes
    that hold all frames of the window except late ones (0, 0 where all are late). stream_ids: uint16[s], ascending.
    first, count: uint32[w, s]: the window's frames of stream stream_ids[j] are rows first .. first + count of that
    stream's part of the index, late ones included.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    extent_offset: NDArray[np.int64]
    extent_size: NDArray[np.int64]
    stream_ids: NDArray[np.uint16]
    first: NDArray[np.uint32]
    count: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.start_ns)

    def to_bytes(self) -> bytes:
        """u32 w, u32 s; then start, end, extent offset, extent size (u64[w] each); u16[s]; first, count (u32[w, s])."""
        return b"".join((table_head(len(self.start_ns), len(self.stream_ids)), *self.parts_to_bytes().values()))

    def parts_to_bytes(self) -> dict[str, bytes]:
        """What follows the head, in file order: each field as bytes."""
        return {name: np.ascontiguousarray(getattr(self, name), code).tobytes() for name, code in PART_TYPES.items()}

    @staticmethod
    def from_bytes(body: bytes, *, frame_count: int, file_size: int, path: str = "") -> WindowTable:
        """Parse section WNDW of a file of `file_size` bytes with `frame_count` frames. Raises FormatError."""
        check = Checker(path)
        check.require(
            len(body) >= _HEAD.size,
            rules.WINDOWS_WHOLE,
            field="section WNDW",
            offset=None,
            found=f"{len(body)} bytes",
            expected=f"at least {_HEAD.size} bytes",
        )
        windows, streams = _HEAD.unpack_from(body)
        size = _HEAD.size + windows * (32 + 8 * streams) + 2 * streams
        check.require(
            len(body) == size,
            rules.WINDOWS_SIZE,
            field="section WNDW",
            offset=None,
            found=f"{len(body):,} bytes",
            expected=f"{size:,} bytes",
        )
        columns = np.frombuffer(body, "<u8", 4 * windows, _HEAD.size).reshape(4, windows)
        at = _HEAD.size + columns.nbytes
        ids = np.frombuffer(body, "<u2", streams, at)
        tables = np.frombuffer(body, "<u4", 2 * windows * streams, at + ids.nbytes).reshape(2, windows, streams)
        check.require(
            bool(np.all(columns <= MAX_TIMESTAMP_NS)),
            rules.WINDOWS_NUMBERS,
            field="section WNDW",
            offset=None,
            found="2^63 or more",
            expected="63 bits",
        )
        start, end, offset, extent = columns.astype(np.int64)
        table = WindowTable(start, end, offset, extent, ids, tables[0], tables[1])
        _check_table(table, check, frame_count, file_size)
        return table


def _check_table(table: WindowTable, check: Checker, frame_count: int, file_size: int) -> None:
    inside = (table.extent_offset <= file_size) & (table.extent_size <= file_size - table.extent_offset)
    counts = table.count.astype(np.int64)
    starts_at_zero = counts.cumsum(axis=0) - counts == table.first
    for good, what in (
        (inside.all(), "every extent inside the file"),
        (np.all(np.diff(table.start_ns) > 0) and np.all(table.start_ns <= table.end_ns), "ascending windows"),
        (np.all(np.diff(table.stream_ids.astype(np.int64)) > 0), "ascending stream ids"),
        (starts_at_zero.all(), "each stream's frames follow one another from window to window"),
        (int(counts.sum()) == frame_count, f"all {frame_count:,} frames in exactly one window"),
    ):
        check.require(
            bool(good),
            rules.WINDOWS_FILE,
            field="section WNDW",
            offset=None,
            found="a table that does not",
            expected=what,
        )


def table_head(windows: int, streams: int) -> bytes:
    """The first 8 bytes of section WNDW."""
    return _HEAD.pack(windows, streams)


def window_table(index: Index, window_ns: int) -> WindowTable:
    """The windows of a sorted index, by the rule. Cost: one sort of the timestamps."""
    times = index["timestamp_ns"].astype(np.int64)
    starts = window_starts(np.sort(times), window_ns)
    window_of = np.searchsorted(starts, times, side="right") - 1
    offset, size = _extents(index, window_of, len(starts))
    ids, begins = np.unique(index["stream_id"], return_index=True)
    assert len(ids) <= MAX_STREAMS
    bounds = [*begins.tolist(), len(index)]
    first = np.empty((len(starts), len(ids)), np.uint32)
    for column, (begin, end) in enumerate(pairwise(bounds)):
        first[:, column] = np.searchsorted(times[begin:end], starts, side="left")
    totals = np.diff(np.array(bounds, np.int64)).astype(np.uint32)
    count = np.diff(np.concatenate((first, totals[None, :])), axis=0) if len(starts) else first
    # The first window also has nothing before it, so `first` of window 0 is 0 for every stream.
    ends = np.minimum(starts, MAX_TIMESTAMP_NS - window_ns) + window_ns
    return WindowTable(starts, ends, offset, size, ids.astype(np.uint16), first, count.astype(np.uint32))


def _extents(index: Index, window_of: NDArray[np.intp], windows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First byte and length of what holds each window's frames, late ones left out."""
    on_time = np.flatnonzero((index["flags"] & LATE) == 0)
    begin = index["byte_offset"][on_time].astype(np.int64)
    end = begin + index["byte_size"][on_time]
    low, high = np.full(windows, MAX_TIMESTAMP_NS, np.int64), np.zeros(windows, np.int64)
    np.minimum.at(low, window_of[on_time], begin)
    np.maximum.at(high, window_of[on_time], end)
    low[high == 0] = 0
    return low, high - low
