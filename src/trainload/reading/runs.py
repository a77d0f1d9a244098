"""Many frames by few reads: which bytes one read should bring, and the memory that holds them.

Every frame of a run is a view of the run's one buffer, at the same alignment as in the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from trainload.formats.hyperframe import ALIGNMENT
from trainload.reading.frame import Entry, PayloadFile

MAX_GAP_BYTES = 64 << 10  # unwanted bytes that one read may carry between two wanted frames
MAX_RUN_BYTES = 8 << 20  # of a read that joins frames; a window and a single frame may be larger


class Runs:
    """Bytes of one file in memory, as a few stretches in ascending order."""

    __slots__ = ("_buffers", "_file", "_starts")

    def __init__(self, file: PayloadFile, stretches: Sequence[tuple[int, int]]) -> None:
        """Reads each (start, end) of `stretches`, ascending and apart, by one read. Raises FormatError past the end."""
        self._file = file
        self._starts: list[int] = []
        self._buffers: list[memoryview] = []
        for start, end in stretches:
            start -= start % ALIGNMENT
            self._starts.append(start)
            self._buffers.append(file.read(start, end - start))

    def stored(self, entry: Entry) -> memoryview:
        """The stored bytes of a frame: a view where a stretch holds them all, else by a read of their own."""
        offset, size = entry[4], entry[5]
        k = bisect_right(self._starts, offset) - 1
        if k >= 0:
            at = offset - self._starts[k]
            part = self._buffers[k][at : at + size]
            if len(part) == size:
                return part
        return self._file.read(offset, size)


def plan_stretches(entries: Sequence[Entry], max_run: int = MAX_RUN_BYTES) -> list[tuple[int, int]]:
    """The (start, end) of the reads that bring all `entries`: near frames together, far ones apart, none twice."""
    stretches: list[tuple[int, int]] = []
    for offset, size in sorted((entry[4], entry[5]) for entry in entries):
        end = offset + size
        if stretches:
            start, last = stretches[-1]
            if offset <= last + MAX_GAP_BYTES and (end - start <= max_run or offset < last):
                stretches[-1] = start, max(last, end)
                continue
        stretches.append((offset, end))
    return stretches
