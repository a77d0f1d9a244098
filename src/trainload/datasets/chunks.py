"""Chunks: neighbouring windows that one read brings, kept while a loader walks through them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainload.formats.hyperframe import ALIGNMENT
from trainload.loading.buffers import first_idle
from trainload.reading.hyperframe import HyperframeReader
from trainload.reading.runs import Stretches
from trainload.reading.window import Window
from trainload.storage.aligned import aligned_buffer
from trainload.storage.source import Source

CHUNK_BYTES = 8 << 20  # of windows per read; one larger window is a chunk of its own
SMALL_BYTES = 1 << 20  # below, fresh memory costs too little to be worth a pool


ChunkKey = tuple[int, int]  # recording, number of the chunk


class ChunkStore:
    """Windows by number, out of the `held` chunks that were asked for last. Safe for many threads.

    streams: that are read. held: 0 reads every window by itself. Stored bytes are held, never what frames unpack to.
    """

    def __init__(self, recordings: Sequence[HyperframeReader], streams: Sequence[str], held: int) -> None:
        self.held = held
        self._recordings = recordings
        self._streams = frozenset(streams)
        self._memory = ChunkMemory(2 * held)
        self._chunks: OrderedDict[ChunkKey, _Chunk] = OrderedDict()
        self._bounds: dict[int, NDArray[np.int64]] = {}
        self._lock = threading.Lock()
        self._after: dict[ChunkKey, ChunkKey] = {}

    @property
    def size_bytes(self) -> int:
        """Memory for chunks when all are full: what is held, and as many buffers that frames in use may keep."""
        extents = [file.windows.extent_size for drive in self._recordings for file in drive.files]
        largest = max((int(sizes.max(initial=0)) for sizes in extents), default=0)
        return 2 * self.held * max(CHUNK_BYTES, largest)

    def window(self, recording: int, k: int) -> Window:
        """Window `k`; its chunk is read by whoever asks first, others wait for that read. FormatError, OSError."""
        if not self.held:
            return self._recordings[recording].window(k, self._wanted(recording))
        bounds = self.bounds(recording)
        number = int(np.searchsorted(bounds, k, side="right")) - 1
        first = int(bounds[number])
        chunk = self._chunk(recording, number)
        with chunk.lock:
            if chunk.windows is None:
                windows = self._recordings[recording].windows
                self._announce(self._after.get((recording, number)))
                chunk.windows = windows.read(
                    first, int(bounds[number + 1]), self._wanted(recording), into=self._memory.read
                )
            return chunk.windows[k - first]

    def bounds(self, recording: int) -> NDArray[np.int64]:
        """First window of every chunk, closed by the number of windows: int64 [chunks + 1]."""
        if recording not in self._bounds:
            self._bounds[recording] = chunk_bounds(self._recordings[recording])
        return self._bounds[recording]

    def expect(self, order: Sequence[ChunkKey], ahead: int) -> None:
        """The chunks in the order in which they will be asked for: with each one read, the one `ahead` is announced."""
        self._after = dict(zip(order, order[ahead:]))

    def _announce(self, key: ChunkKey | None) -> None:
        if key is not None:
            recording, number = key
            first, end = self.bounds(recording)[number : number + 2].tolist()
            self._recordings[recording].windows.will_need(first, end)

    def _wanted(self, recording: int) -> tuple[str, ...] | None:
        """The streams to read, None for all of them: then windows come whole, by one read, gaps and all."""
        streams = self._recordings[recording].streams
        return None if self._streams >= streams.keys() else tuple(self._streams & streams.keys())

    def _chunk(self, recording: int, number: int) -> _Chunk:
        with self._lock:
            chunk = self._chunks.setdefault((recording, number), _Chunk())
            self._chunks.move_to_end((recording, number))
            while len(self._chunks) > self.held:
                self._chunks.popitem(last=False)
            return chunk


class ChunkMemory:
    """Buffers of CHUNK_BYTES, each used again once nobody holds it or a view of it. Safe for many threads.

    Fresh memory is cleared page by page, which costs as much as reading into it from the page cache. kept: how many
    buffers stay for use again; what is larger than one, or small, is fresh.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._owners: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def read(self, source: Source, stretches: Stretches) -> list[memoryview]:
        """The bytes of each stretch at a multiple of 64, all in one buffer: a frame kept is a buffer kept."""
        places = np.cumsum([0, *(-(-(end - start) // ALIGNMENT) * ALIGNMENT for start, end in stretches)]).tolist()
        whole = self._take(places[-1])
        parts = [whole[at : at + end - start] for at, (start, end) in zip(places, stretches)]
        for part, (start, _) in zip(parts, stretches):
            source.readinto_at(start, part)
        return parts

    def _take(self, size: int) -> memoryview:
        if not SMALL_BYTES <= size <= CHUNK_BYTES:
            return aligned_buffer(size)
        with self._lock:
            owner = first_idle(self._owners)
            if owner is None:
                owner = np.asarray(aligned_buffer(CHUNK_BYTES))  # its views hold it, not what lies behind it
                if len(self._owners) < self._kept:
                    self._owners.append(owner)
            return owner[:size].data


def chunk_bounds(drive: HyperframeReader) -> NDArray[np.int64]:
    """Cut a recording's windows into chunks of at most CHUNK_BYTES (or one larger window): int64 [chunks + 1]."""
    sizes = np.concatenate([file.windows.extent_size for file in drive.files]).astype(np.int64)
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
