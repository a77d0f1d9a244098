"""One sample is one window: all its frames of the asked streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.samples.cache import FrameCache
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.dataset import KeptSamples
from trainload.recordings.samples.fallout import Fallout, StreamFallout, summed
from trainload.recordings.samples.recordings import (
    Recordings,
    common_streams,
    mixes_clocks,
    open_recordings,
    tagged,
    warn_of_bytes,
)
from trainload.recordings.samples.store import FrameStore


class WindowDataset(KeptSamples):
    """Map-style: ds[i] is the Clip of one window, by one read. Pickles without open files.

    recordings: see `open_recordings`. streams: which to read; left out: those that every recording has. require: at
    least so many frames of a stream, or the window is left out ({"lidar/top": 1}). tags: only windows that carry all of
    them. cache_bytes: decoded frames kept in memory. `report()` says what falls out. Raises UsageError where `require`
    leaves no window.
    """

    noun = "window"
    squeeze = False

    def __init__(
        self,
        recordings: Recordings,
        *,
        streams: Sequence[str] | None = None,
        require: Mapping[str, int] | None = None,
        tags: Collection[str] = (),
        cache_bytes: int = 0,
    ) -> None:
        readers = open_recordings(recordings)
        self.streams = common_streams(readers, streams)
        common_streams(readers, tuple(require or ()))
        self._mixed = [mixes_clocks(reader, self.streams) for reader in readers]
        warn_of_bytes(readers, self.streams)
        self.store = FrameStore(readers, self.streams, FrameCache(cache_bytes))
        kept, fallout = zip(*(_windows_kept(reader, self.streams, require or {}, tags) for reader in readers))
        self._fallout = summed("windows", fallout)
        if self._fallout.worst() is not None:
            self._fallout.require_some("Ask for fewer with require={...}, or write the recording with longer windows")
        self.recording_of = np.repeat(np.arange(len(kept), dtype=np.int32), [len(some) for some in kept])
        self.numbers = np.concatenate(kept)

    def read(self, i: int, store: FrameStore) -> Clip:
        """Sample `i` through another store of the same recordings (a loader's, with chunks)."""
        recording, k = int(self.recording_of[i]), int(self.numbers[i])
        windows = store.recordings[recording].windows
        values: dict[str, list[NDArray[Any] | None]] = {name: [] for name in self.streams}
        times: dict[str, list[int]] = {name: [] for name in self.streams}
        for name, time, value in store.window(recording, k):
            values[name].append(value)
            times[name].append(time)
        return Clip(
            id=i,
            recording=recording,
            number=k,
            start_ns=int(windows.starts[k]),
            end_ns=int(windows.ends[k]),
            values=values,
            times={name: np.array(some, np.int64) for name, some in times.items()},
            residuals={name: np.zeros(len(some), np.int64) for name, some in times.items()},
            mixed_clocks=self._mixed[recording],
        )

    def chunks(self) -> list[NDArray[np.int64]]:
        """Per recording, the chunk of each of its samples: int64 [n], ascending."""
        found = []
        for recording in range(len(self.store.recordings)):
            bounds = self.store.chunks.bounds(recording)
            mine = self.numbers[self.recording_of == recording]
            found.append(np.searchsorted(bounds, mine, side="right") - 1)
        return found


def _windows_kept(
    reader: HyperframeReader, streams: Sequence[str], require: Mapping[str, int], tags: Collection[str]
) -> tuple[NDArray[np.int64], Fallout]:
    windows = reader.windows
    keep = tagged(reader, tags, windows.starts, windows.ends)
    fallout = Fallout("windows", len(keep), 0, [])
    if not keep.all():
        fallout.other[f"without the tags {', '.join(tags)}"] = int((~keep).sum())
    for name in dict.fromkeys((*streams, *require)):
        stream = StreamFallout(name, reader.count(name))
        if name in require:
            enough = windows.counts(name) >= require[name]
            stream.lose(f"with fewer than {require[name]}", int((~enough).sum()))
            keep &= enough
        fallout.streams.append(stream)
    fallout.kept = int(keep.sum())
    return np.flatnonzero(keep), fallout
