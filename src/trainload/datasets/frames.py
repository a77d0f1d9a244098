"""How a dataset gets its frames: from the cache, from a group of windows read by one read, or one by one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.datasets.cache import FrameCache, FrameKey
from trainload.datasets.values import frame_value
from trainload.reading.frame import Frame
from trainload.reading.hyperframe import HyperframeReader
from trainload.reading.window import Window

CHUNK_BYTES = 8 << 20  # one read of a chunk of windows


class FrameStore:
    """The frames of several recordings by position or by window. Safe for many threads.

    streams: that will be asked for. chunks: how many chunks of neighbouring windows (8 MB each) are kept in memory,
    each read by one read; 0 reads just what is asked for. A loader that walks groups of chunks sets it.
    """

    def __init__(
        self, recordings: Sequence[HyperframeReader], streams: Sequence[str], cache: FrameCache, chunks: int = 0
    ) -> None:
        self.recordings = recordings
        self.streams = tuple(streams)
        self.cache = cache
        self.chunks = chunks
        self._held: OrderedDict[tuple[int, int], _Chunk] = OrderedDict()
        self._lock = threading.Lock()
        self._bounds: dict[int, NDArray[np.int64]] = {}

    def with_chunks(self, chunks: int) -> FrameStore:
        """The same frames through another number of chunks; the cache is shared."""
        return FrameStore(self.recordings, self.streams, self.cache, chunks)

    def chunk_bounds(self, recording: int) -> NDArray[np.int64]:
        """First window of every chunk, closed by the number of windows: int64 [chunks + 1]."""
        if recording not in self._bounds:
            self._bounds[recording] = chunk_bounds(self.recordings[recording])
        return self._bounds[recording]

    def chunk_of_times(self, recording: int, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The chunk in which each time lies: int64 [n]."""
        windows = self.recordings[recording].windows
        last = np.minimum(np.searchsorted(windows.ends, times), len(windows) - 1)
        return np.searchsorted(self.chunk_bounds(recording), last, side="right") - 1

    def window(self, recording: int, k: int) -> list[tuple[str, int, NDArray[Any]]]:
        """Every frame of window `k`: (stream, time, array). A window whose frames are all in the cache is not read."""
        windows = self.recordings[recording].windows
        keys: list[FrameKey] = [
            (recording, name, number, time)
            for name, rows in windows.entries(k, self.streams).items()
            for number, time in zip(rows["stream_index"].tolist(), rows["timestamp_ns"].tolist())
        ]
        found = [self._cached(key) for key in keys]
        if any(value is None for value in found):
            frames = {_key(recording, frame): frame for frame in self._window(recording, k).frames()}
            found = [self._decode(frames[key], key) if value is None else value for key, value in zip(keys, found)]
        return [(key[1], key[3], value) for key, value in zip(keys, found) if value is not None]

    def value(self, recording: int, stream: str, position: int) -> NDArray[Any]:
        """The array of the frame at a position of a stream."""
        drive = self.recordings[recording]
        time, number = int(drive.timestamps(stream)[position]), int(drive.stream_index(stream)[position])
        key = (recording, stream, number, time)
        found = self._cached(key)
        if found is not None:
            return found
        frame = self._frame_in_chunk(recording, stream, number, time) if self.chunks else None
        return self._decode(drive.read_at_index(stream, position) if frame is None else frame, key)

    def _cached(self, key: FrameKey) -> NDArray[Any] | None:
        return self.cache.get(key) if self.cache.limit_bytes else None

    def _decode(self, frame: Frame, key: FrameKey) -> NDArray[Any]:
        value = frame_value(frame)
        if self.cache.limit_bytes:
            self.cache.put(key, value if value.base is None else value.copy())  # a view would hold its whole read
        return value

    def _window(self, recording: int, k: int) -> Window:
        if not self.chunks:
            return self.recordings[recording].window(k, self._wanted(recording))
        bounds = self.chunk_bounds(recording)
        number = int(np.searchsorted(bounds, k, side="right")) - 1
        first, last = int(bounds[number]), int(bounds[number + 1])
        return self._chunk(recording, number).windows(self._read_windows, recording, first, last)[k - first]

    def _read_windows(self, recording: int, first: int, last: int) -> list[Window]:
        return self.recordings[recording].windows.read(first, last, self._wanted(recording))

    def _wanted(self, recording: int) -> tuple[str, ...] | None:
        """The streams to read, None for all of them: then windows come by one read, gaps and all."""
        return None if set(self.streams) >= set(self.recordings[recording].streams) else self.streams

    def _chunk(self, recording: int, number: int) -> _Chunk:
        with self._lock:
            chunk = self._held.setdefault((recording, number), _Chunk())
            self._held.move_to_end((recording, number))
            while len(self._held) > self.chunks:
                self._held.popitem(last=False)
            return chunk

    def _frame_in_chunk(self, recording: int, stream: str, number: int, time: int) -> Frame | None:
        windows = self.recordings[recording].windows
        k = int(np.searchsorted(windows.ends, time))
        if k == len(windows):
            return None
        frames = self._window(recording, k)[stream]
        return next((f for f in frames if f.stream_index == number and f.timestamp_ns == time), None)

    def __getstate__(self) -> dict[str, Any]:
        return {"recordings": self.recordings, "streams": self.streams, "cache": self.cache, "chunks": self.chunks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        FrameStore.__init__(self, **state)


class _Chunk:
    """Neighbouring windows, read once by whoever asks first; others wait for that read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: list[Window] | None = None

    def windows(self, read: Callable[[int, int, int], list[Window]], *span: int) -> list[Window]:
        with self._lock:
            if self._windows is None:
                self._windows = read(*span)
            return self._windows


def chunk_bounds(drive: HyperframeReader) -> NDArray[np.int64]:
    """Cut a recording's windows into chunks of at most CHUNK_BYTES (or one larger window): int64 [chunks + 1]."""
    sizes = np.concatenate([file.windows.extent_size for file in drive.files]).astype(np.int64)
    ends = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        done = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, done + CHUNK_BYTES, side="right"))))
    return np.array(bounds, np.int64)


def _key(recording: int, frame: Frame) -> FrameKey:
    return recording, frame.stream, frame.stream_index, frame.timestamp_ns
