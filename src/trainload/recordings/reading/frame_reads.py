"""Many frames by few reads: which bytes one read should bring, and the memory that holds them.

Every frame is a view of the one buffer of its read, at the same alignment as in the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from trainload.memory.aligned import LEAST_HUGE_BYTES
from trainload.recordings.format.hyperframe import ALIGNMENT, BYTE_OFFSET, BYTE_SIZE, Entry, Index
from trainload.recordings.reading.frame import PayloadFile
from trainload.storage.read_plan import join_requests

Stretches = Sequence[tuple[int, int]]  # (start, end) in a file, ascending and apart

MAX_GAP_BYTES = 64 << 10  # unwanted bytes that one read may carry between two wanted frames
MAX_READ_BYTES = 8 << 20  # of a read that joins frames; a window and a single frame may be larger
STEP_BYTES = LEAST_HUGE_BYTES - ALIGNMENT  # that an iteration reads at once, into memory that it uses again
STEPS_KEPT = 6  # buffers of an iteration: of the step that the caller has, and of those ahead of him


class StoredBytes:
    """Bytes of one file in memory, as a few stretches in ascending order."""

    __slots__ = ("_buffers", "_file", "_starts")

    def __init__(
        self, file: PayloadFile, stretches: Stretches, read: Callable[[Stretches], list[memoryview]] | None = None
    ) -> None:
        """Reads each stretch by one read. `read` does it into memory of its own. Raises FormatError past the end."""
        self._file = file
        aligned = [(start - start % ALIGNMENT, end) for start, end in stretches]
        self._starts = [start for start, _ in aligned]
        self._buffers = [file.read(start, end - start) for start, end in aligned] if read is None else read(aligned)

    def stored(self, entry: Entry) -> memoryview:
        """The stored bytes of a frame: a view where a stretch holds them all, else by a read of their own."""
        offset, size = entry[BYTE_OFFSET], entry[BYTE_SIZE]
        k = bisect_right(self._starts, offset) - 1
        if k >= 0:
            at = offset - self._starts[k]
            part = self._buffers[k][at : at + size]
            if len(part) == size:
                return part
        return self._file.read(offset, size)


def plan_stretches(parts: Sequence[Index]) -> list[tuple[int, int]]:
    """The (start, end) of the reads that bring the frames of all index entries in `parts`, of one file.

    Near frames come together, far ones apart, and no byte twice.
    """
    if not parts:
        return []
    offsets = np.concatenate([rows["byte_offset"] for rows in parts]).view(np.int64)  # a file's size fits into it
    sizes = np.concatenate([rows["byte_size"] for rows in parts])
    reads = join_requests(offsets, sizes, max_gap=MAX_GAP_BYTES, max_read=MAX_READ_BYTES)
    return list(zip(reads.starts.tolist(), reads.ends.tolist()))
