"""Chunks: neighbouring windows that a loader walks through together; small ones by one read, large ones one by one."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from trainload.memory.pool import MemoryPool
from trainload.recordings.format.hyperframe import ALIGNMENT
from trainload.recordings.reading.frame_reads import Stretches
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.reading.window import Window
from trainload.storage.source import Source, check_stretches

CHUNK_BYTES = 8 << 20  # of windows per read; one larger window is a chunk of its own
LARGE_BYTES = 1 << 20  # of wanted frames per window: a read of their own is long enough

ChunkKey = tuple[int, int]  # recording, number of the chunk


class ChunkStore:
    """Windows by number, out of the `held` chunks that were asked for last. Safe for many threads.

    streams: that are read. held: 0 reads every window by itself. in_use: chunks' worth of memory that frames in use may
    keep and that is used again after them. Stored bytes are held, never what frames unpack to.
    """

    def __init__(self, recordings: Sequence[HyperframeReader], streams: Sequence[str], held: int, in_use: int) -> None:
        self.held = held
        self.in_use = in_use
        self._recordings = recordings
        self._streams = frozenset(streams)
        self._chunks: OrderedDict[ChunkKey, _Chunk] = OrderedDict()
        self._bounds: dict[int, NDArray[np.int64]] = {}
        self._starts: dict[int, list[int]] = {}  # the same as numbers, for one window at a time
        self._large: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._after: dict[ChunkKey, ChunkKey] = {}

    @property
    def size_bytes(self) -> int:
        """Memory for chunks when all are full: what is held, and what frames in use may keep."""
        if not self.held:
            return self.in_use * CHUNK_BYTES  # larger windows have memory of their own, given back at once
        extents = [file.windows.extent_size for reader in self._recordings for file in reader.files]
        largest = max((int(sizes.max(initial=0)) for sizes in extents), default=0)
        return (self.held + self.in_use) * max(CHUNK_BYTES, largest)

    @cached_property
    def _memory(self) -> ChunkMemory:
        count = self.held + self.in_use
        return ChunkMemory(count, self.size_bytes // max(1, count))

    @cached_property
    def _wanted(self) -> list[tuple[str, ...] | None]:
        """Of each recording, the streams to read; None for all: then windows come whole, by one read, gaps and all."""
        every = [reader.streams.keys() for reader in self._recordings]
        return [None if self._streams >= streams else tuple(self._streams & streams) for streams in every]

    def window(self, recording: int, k: int) -> Window:
        """Window `k`; its chunk is read by whoever asks first, others wait for that read. FormatError, OSError."""
        if not self.held:
            return self._read(recording, k, k + 1)[0]
        first, end, number = self._span(recording, k)
        chunk = self._chunk(recording, number)
        with chunk.lock:
            if chunk.windows is None:
                self._announce_after(recording, number)
                chunk.windows = self._read(recording, first, end)
            return chunk.windows[k - first]

    def window_once(self, recording: int, k: int) -> Window:
        """Window `k` for a caller that asks for it once an epoch: a large one by a read of its own, just in time.

        Its bytes are then still in the processor's cache when they are checked and copied, and memory is needed for
        windows in use alone; the disk has heard of the whole chunk a group earlier.
        """
        if not self.held or not self._is_large(recording):
            return self.window(recording, k)
        self._announce_after(recording, self._span(recording, k)[2])
        return self._read(recording, k, k + 1)[0]

    def _read(self, recording: int, first: int, end: int) -> list[Window]:
        windows = self._recordings[recording].windows
        return windows.read(first, end, self._wanted[recording], into=self._memory.read)

    def _span(self, recording: int, k: int) -> tuple[int, int, int]:
        """First window, end and number of the chunk that window `k` lies in."""
        starts = self._starts.get(recording)
        if starts is None:
            starts = self._starts[recording] = self.bounds(recording).tolist()
        number = bisect_right(starts, k) - 1
        return starts[number], starts[number + 1], number

    def _is_large(self, recording: int) -> bool:
        """True where the frames that are read of a window have LARGE_BYTES, on average."""
        if recording not in self._large:
            reader = self._recordings[recording]
            rows = [
                (file, file.rows.get(reader.streams[name].id, slice(0, 0)))
                for name in self._streams & reader.streams.keys()
                for file in reader.files
            ]
            stored = sum(int(file.index["byte_size"][some].sum(dtype=np.int64)) for file, some in rows)
            self._large[recording] = stored >= LARGE_BYTES * len(reader.windows)
        return self._large[recording]

    def bounds(self, recording: int) -> NDArray[np.int64]:
        """First window of every chunk, closed by the number of windows: int64 [chunks + 1]."""
        if recording not in self._bounds:
            self._bounds[recording] = chunk_bounds(self._recordings[recording])
        return self._bounds[recording]

    def expect(self, order: Sequence[ChunkKey], ahead: int) -> None:
        """The chunks in the order in which they will be asked for: with each one read, the one `ahead` is announced."""
        self._after = dict(zip(order, order[ahead:]))

    def _announce_after(self, recording: int, number: int) -> None:
        """Tell the system once which chunk comes a group after this one."""
        key = self._after.pop((recording, number), None)
        if key is not None:
            recording, number = key
            first, end = self.bounds(recording)[number : number + 2].tolist()
            self._recordings[recording].windows.will_need(first, end, self._wanted[recording])

    def _chunk(self, recording: int, number: int) -> _Chunk:
        with self._lock:
            chunk = self._chunks.setdefault((recording, number), _Chunk())
            self._chunks.move_to_end((recording, number))
            while len(self._chunks) > self.held:
                self._chunks.popitem(last=False)
            return chunk


class ChunkMemory:
    """Where reads of windows go: memory that is used again once nobody holds a frame of it. Safe for many threads.

    kept: how many buffers of chunk_bytes, or as much in smaller ones, stay for use again.
    """

    def __init__(self, kept: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._memory = MemoryPool(kept * chunk_bytes)

    def read(self, source: Source, stretches: Stretches) -> list[memoryview]:
        """The bytes of each stretch at a multiple of 64, all in one buffer: a frame kept is a buffer kept.

        Raises FormatError for a stretch past the end, before any memory is taken.
        """
        check_stretches(source, stretches)
        places = list(accumulate((-(-(end - start) // ALIGNMENT) * ALIGNMENT for start, end in stretches), initial=0))
        whole = self._memory.take(places[-1]).data
        parts = [whole[at : at + end - start] for at, (start, end) in zip(places, stretches)]
        for part, (start, _) in zip(parts, stretches):
            source.readinto_at(start, part)
        return parts


def chunk_bounds(reader: HyperframeReader) -> NDArray[np.int64]:
    """Cut a recording's windows into chunks of at most CHUNK_BYTES (or one larger window): int64 [chunks + 1]."""
    sizes = np.concatenate([file.windows.extent_size for file in reader.files]).astype(np.int64)
    ends = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        done = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, done + CHUNK_BYTES, side="right"))))
    return np.array(bounds, np.int64)


class _Chunk:
    """The windows of one chunk, None until they are read under the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.windows: list[Window] | None = None
