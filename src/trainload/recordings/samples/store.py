"""How a dataset gets its frames: from the cache, from a chunk of windows that one read brought, or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.reading.window import Window
from trainload.recordings.samples.cache import FrameCache, FrameKey
from trainload.recordings.samples.chunks import ChunkStore
from trainload.recordings.samples.values import frame_value

IN_USE = 4  # chunks' worth of memory that reads of single windows use again


class FrameStore:
    """The frames of several recordings by position or by window, as arrays that nobody may write to. For many threads.

    streams: that will be asked for. chunks: how many chunks of neighbouring windows (chunks.py) are kept in memory;
    0 reads just what is asked for. A loader that walks groups of chunks sets it. in_use: chunks' worth of memory for
    frames in use.
    """

    def __init__(
        self,
        recordings: Sequence[HyperframeReader],
        streams: Sequence[str],
        cache: FrameCache,
        chunks: int = 0,
        in_use: int = IN_USE,
    ) -> None:
        self.recordings = recordings
        self.streams = tuple(streams)
        self.cache = cache
        self.chunks = ChunkStore(recordings, self.streams, chunks, in_use)

    def with_chunks(self, chunks: int, in_use: int = IN_USE) -> FrameStore:
        """The same frames through another number of chunks; the cache is shared."""
        return FrameStore(self.recordings, self.streams, self.cache, chunks, in_use)

    def chunk_of_times(self, recording: int, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The chunk in which each time lies: int64 [n]."""
        windows = self.recordings[recording].windows
        last = np.minimum(np.searchsorted(windows.ends, times), len(windows) - 1)
        return np.searchsorted(self.chunks.bounds(recording), last, side="right") - 1

    def window(self, recording: int, k: int) -> list[tuple[str, int, NDArray[Any]]]:
        """Every frame of window `k`: (stream, time, array), each stream in time order.

        A window whose frames are all in the cache is not read, a frame in the cache is not unpacked.
        """
        if not self.cache.limit_bytes:
            return self._uncached(self.chunks.window_once(recording, k))
        found: list[tuple[str, int, NDArray[Any]]] = []
        window: Window | None = None
        for stream, rows in self.recordings[recording].windows.entries(k, self.streams).items():
            times = rows["timestamp_ns"].tolist()
            for n, (number, time) in enumerate(zip(rows["stream_index"].tolist(), times)):
                key = (recording, stream, number, time)
                value = self._cached(key)
                if value is None:
                    window = window or self.chunks.window_once(recording, k)
                    value = self._decode(window.frame(stream, n), key)
                found.append((stream, time, value))
        return found

    def _uncached(self, window: Window) -> list[tuple[str, int, NDArray[Any]]]:
        found = []
        for stream in window:
            for n in range(window.count(stream)):
                frame = window.frame(stream, n)
                found.append((stream, frame.timestamp_ns, _shared(frame_value(frame))))
        return found

    def value(self, recording: int, stream: str, position: int) -> NDArray[Any]:
        """The array of the frame at a position of a stream."""
        reader = self.recordings[recording]
        time, number = int(reader.timestamps(stream)[position]), int(reader.stream_index(stream)[position])
        key = (recording, stream, number, time)
        found = self._cached(key)
        if found is not None:
            return found
        frame = self._frame_in_chunk(recording, stream, number, time) if self.chunks.held else None
        return self._decode(reader.read_at_index(stream, position) if frame is None else frame, key)

    def _cached(self, key: FrameKey) -> NDArray[Any] | None:
        return self.cache.get(key) if self.cache.limit_bytes else None

    def _decode(self, frame: Frame, key: FrameKey) -> NDArray[Any]:
        value = _shared(frame_value(frame))
        if self.cache.limit_bytes:
            self.cache.put(key, value)
        return value

    def _frame_in_chunk(self, recording: int, stream: str, number: int, time: int) -> Frame | None:
        windows = self.recordings[recording].windows
        k = int(np.searchsorted(windows.ends, time))
        if k == len(windows):
            return None
        rows = windows.entries(k, (stream,)).get(stream)
        if rows is None:
            return None
        found = np.flatnonzero((rows["timestamp_ns"] == time) & (rows["stream_index"] == number))
        return self.chunks.window(recording, k).frame(stream, int(found[0])) if len(found) else None

    def __getstate__(self) -> dict[str, Any]:
        return {
            "recordings": self.recordings,
            "streams": self.streams,
            "cache": self.cache,
            "chunks": self.chunks.held,
            "in_use": self.chunks.in_use,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        FrameStore.__init__(self, **state)


def _shared(value: NDArray[Any]) -> NDArray[Any]:
    value.flags.writeable = False  # the cache, or a later sample, gives the same memory again
    return value
