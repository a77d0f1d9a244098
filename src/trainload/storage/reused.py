"""Reads into memory that is used again once nobody holds what was read."""

from __future__ import annotations

from collections.abc import Sequence

from trainload.memory.aligned import HUGE_BYTES, aligned_buffer
from trainload.memory.pool import MemoryPool
from trainload.storage.source import Source, check_stretches


class StepMemory:
    """Memory for the reads of one iteration: a few blocks in huge pages, used again once the caller let go of them.

    What the caller keeps stays as it is; with all of them in use reads go to fresh memory.
    """

    def __init__(self, kept: int) -> None:
        """kept: the number of blocks, of the largest size asked for, that this looks after."""
        self._kept = kept
        self._pool = MemoryPool(0, huge_bytes=HUGE_BYTES)

    def read(self, source: Source, stretches: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes of `source` in each (start, end), each in memory of its own that starts at a multiple of 64.

        Raises FormatError for a stretch past the end, before any memory is taken.
        """
        check_stretches(source, stretches)
        parts = [self.take(end - start) for start, end in stretches]
        for part, (start, _) in zip(parts, stretches):
            source.readinto_at(start, part)
        return parts

    def take(self, size: int) -> memoryview:
        """`size` writable bytes at a multiple of 64, the caller's as long as he holds them or a view of them."""
        if size < HUGE_BYTES:  # little must not keep a large block from use
            return aligned_buffer(size)
        self._pool.allow(self._kept * self._pool.room_of(size))
        return self._pool.take(size).data
