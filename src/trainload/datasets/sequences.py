"""One sample is a clip of fixed length on a fixed time step, across windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.datasets.cache import FrameCache
from trainload.datasets.clip import NO_RESIDUAL, NO_TIME, Clip
from trainload.datasets.frames import FrameStore
from trainload.datasets.recordings import Drives, common_streams, mixes_clocks, open_recordings, tagged
from trainload.datasets.steps import nearest_positions, packed_samples
from trainload.errors import UsageError
from trainload.formats.durations import duration_ns


class SequenceDataset:
    """Map-style: ds[i] is the Clip from `start` to `start + duration`: per stream, the frame nearest to each step.

    drives: see `open_recordings`. duration: "2s". step: the time between frames, "200ms" (10 frames for 2 s).
    stride: the time between the starts of clips; left out: `duration`. frames_per_stream: for these streams so many
    frames, evenly spaced, instead of one per step ({"imu": 400}). max_residual: a frame farther from its step counts as
    missing ("20ms"). complete: leave out clips in which a frame is missing. tags: only clips that carry all of them.
    """

    squeeze = False

    def __init__(
        self,
        drives: Drives,
        *,
        duration: str | int,
        step: str | int,
        stride: str | int | None = None,
        frames_per_stream: Mapping[str, int] | None = None,
        streams: Sequence[str] | None = None,
        max_residual: str | int | None = None,
        complete: bool = True,
        tags: Collection[str] = (),
        cache_bytes: int = 0,
    ) -> None:
        recordings = open_recordings(drives)
        self.streams = common_streams(recordings, streams)
        common_streams(recordings, tuple(frames_per_stream or ()))
        self.duration_ns = duration_ns(duration, what="duration")
        step_ns = duration_ns(step, what="step")
        stride_ns = self.duration_ns if stride is None else duration_ns(stride, what="stride")
        if min(self.duration_ns, step_ns, stride_ns) <= 0 or step_ns > self.duration_ns:
            raise UsageError("duration, step and stride must be positive, and step no longer than duration")
        self._max_ns = None if max_residual is None else duration_ns(max_residual, what="max_residual")
        counts = dict.fromkeys(self.streams, self.duration_ns // step_ns) | dict(frames_per_stream or {})
        self.steps = {name: _steps(self.duration_ns, step_ns, counts[name], name, frames_per_stream or {})
                      for name in self.streams}  # fmt: skip
        self._mixed = [mixes_clocks(drive, self.streams) for drive in recordings]
        self.store = FrameStore(recordings, self.streams, FrameCache(cache_bytes))
        self._packed = [{name: packed_samples(drive, name) for name in self.streams} for drive in recordings]
        kept = [self._starts(n, stride_ns, complete, tags) for n in range(len(recordings))]
        self.recording_of = np.repeat(np.arange(len(kept), dtype=np.int32), [len(some) for some in kept])
        self.starts = np.concatenate(kept)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> Clip:
        if not -len(self) <= i < len(self):
            raise IndexError(f"clip {i} of {len(self)}")
        return self.read(i % len(self), self.store)

    def read(self, i: int, store: FrameStore) -> Clip:
        """Sample `i` through another store of the same recordings (a loader's, with chunks)."""
        recording, start = int(self.recording_of[i]), int(self.starts[i])
        values: dict[str, list[NDArray[Any] | None]] = {}
        times, residuals = {}, {}
        for name in self.streams:
            stream_times = self._times(recording, name)
            positions, residual = nearest_positions(stream_times, start + self.steps[name], self._max_ns)
            packed = self._packed[recording][name]
            values[name] = [
                None if at < 0 else packed[1][at] if packed is not None else store.value(recording, name, at)
                for at in positions.tolist()
            ]
            missing = positions < 0
            times[name] = np.where(missing, NO_TIME, stream_times[positions]) if len(stream_times) else positions
            residuals[name] = np.where(missing, NO_RESIDUAL, residual)
        return Clip(
            id=i, recording=recording, number=i, start_ns=start, end_ns=start + self.duration_ns, values=values,
            times=times, residuals=residuals, mixed_clocks=self._mixed[recording],
        )  # fmt: skip

    def chunks(self) -> list[NDArray[np.int64]]:
        """Per recording, the chunk of each of its samples (by its start): int64 [n], ascending."""
        count = len(self.store.recordings)
        return [self.store.chunk_of_times(n, self.starts[self.recording_of == n]) for n in range(count)]

    def _times(self, recording: int, name: str) -> NDArray[np.int64]:
        packed = self._packed[recording][name]
        return self.store.recordings[recording].timestamps(name) if packed is None else packed[0]

    def _starts(self, recording: int, stride_ns: int, complete: bool, tags: Collection[str]) -> NDArray[np.int64]:
        """The starts of the clips that are kept, from the first to the last time that every stream has seen."""
        every = [self._times(recording, name) for name in self.streams]
        if any(not len(times) for times in every):
            return np.empty(0, np.int64)
        first, last = max(int(times[0]) for times in every), min(int(times[-1]) for times in every)
        starts = np.arange(first, last - self.duration_ns + 1, stride_ns, dtype=np.int64)
        keep = tagged(self.store.recordings[recording], tags, starts, starts + self.duration_ns)
        if complete and self._max_ns is not None:
            for name, times in zip(self.streams, every):
                wanted = starts[:, None] + self.steps[name]
                keep &= (nearest_positions(times, wanted, self._max_ns)[0] >= 0).all(axis=1)
        return starts[keep]


def _steps(duration: int, step: int, count: int, name: str, asked: Mapping[str, int]) -> NDArray[np.int64]:
    """The times of a stream's frames, counted from the clip's start: int64 [count]."""
    if count < 1:
        raise UsageError(f"frames_per_stream of {name!r} must be at least 1, not {count}")
    if name in asked:
        return np.arange(count, dtype=np.int64) * duration // count
    return np.arange(count, dtype=np.int64) * step
