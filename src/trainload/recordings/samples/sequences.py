"""One sample is a clip of fixed length on a fixed time step, across windows."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.recordings.aligning.report_text import span
from trainload.recordings.samples.cache import FrameCache
from trainload.recordings.samples.clip import NO_RESIDUAL, NO_TIME, Clip
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
from trainload.recordings.samples.steps import nearest_positions, packed_samples
from trainload.recordings.samples.store import FrameStore

_WAYS_OUT = (
    "Choose others with streams=[...]; for the last value of a sparse stream (a map, /tf_static) use tl.align with "
    "tl.Previous() and AlignedDataset"
)


class SequenceDataset(KeptSamples):
    """Map-style: ds[i] is the Clip from `start` to `start + duration`: per stream, the frame nearest to each step.

    recordings: see `open_recordings`. duration: "2s". step: the time between frames, "200ms" (10 frames for 2 s).
    stride: the time between the starts of clips; left out: `duration`. frames_per_stream: for these streams so many
    frames, evenly spaced, instead of one per step ({"imu": 400}). max_residual: a frame farther from its step counts as
    missing ("20ms"). complete: leave out clips in which a frame is missing. tags: only clips that carry all of them.
    streams: which; left out: those of sensors that every recording has and that clips can be taken of, with a warning
    that names the others (a map, /tf_static: fewer than a frame per clip). `report()` says what each stream costs.
    Raises UsageError, naming the stream that costs most, where no clip is left.
    """

    noun = "clip"
    squeeze = False

    def __init__(
        self,
        recordings: Recordings,
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
        readers = open_recordings(recordings)
        found = common_streams(readers, streams)
        common_streams(readers, tuple(frames_per_stream or ()))
        self.duration_ns = duration_ns(duration, what="duration")
        step_ns = duration_ns(step, what="step")
        stride_ns = self.duration_ns if stride is None else duration_ns(stride, what="stride")
        if min(self.duration_ns, step_ns, stride_ns) <= 0 or step_ns > self.duration_ns:
            raise UsageError("duration, step and stride must be positive, and step no longer than duration")
        self._packed = [{name: packed_samples(reader, name) for name in found} for reader in readers]
        self.store = FrameStore(readers, found, FrameCache(cache_bytes))
        self.streams, left_out = self._sampled(found, frames_per_stream or {}, chosen=streams is not None)
        warn_of_bytes(readers, self.streams)
        self._max_ns = None if max_residual is None else duration_ns(max_residual, what="max_residual")
        counts = dict.fromkeys(self.streams, self.duration_ns // step_ns) | dict(frames_per_stream or {})
        self.steps = {
            name: _steps(self.duration_ns, step_ns, counts[name], name, frames_per_stream or {})
            for name in self.streams
        }
        self._mixed = [mixes_clocks(reader, self.streams) for reader in readers]
        if len(self.streams) < len(found):
            self.store = FrameStore(readers, self.streams, self.store.cache)
        kept, fallout = zip(*(self._starts(n, stride_ns, complete, tags) for n in range(len(readers))))
        self._fallout = summed(f"clips of {span(self.duration_ns)}", fallout, left_out)
        self._fallout.require_some(_WAYS_OUT)
        self.recording_of = np.repeat(np.arange(len(kept), dtype=np.int32), [len(some) for some in kept])
        self.starts = np.concatenate(kept)

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
            id=i,
            recording=recording,
            number=i,
            start_ns=start,
            end_ns=start + self.duration_ns,
            values=values,
            times=times,
            residuals=residuals,
            mixed_clocks=self._mixed[recording],
        )

    def chunks(self) -> list[NDArray[np.int64]]:
        """Per recording, the chunk of each of its samples (by its start): int64 [n], ascending."""
        count = len(self.store.recordings)
        return [self.store.chunk_of_times(n, self.starts[self.recording_of == n]) for n in range(count)]

    def _times(self, recording: int, name: str) -> NDArray[np.int64]:
        packed = self._packed[recording][name]
        return self.store.recordings[recording].timestamps(name) if packed is None else packed[0]

    def _sampled(
        self, found: Sequence[str], asked: Mapping[str, int], *, chosen: bool
    ) -> tuple[tuple[str, ...], list[StreamFallout]]:
        """The streams that clips are taken of, and, unless the user chose them, those that are left out, with why."""
        if chosen:
            return tuple(found), []
        kept, left_out = [], []
        for name in found:
            times = [self._times(n, name) for n in range(len(self.store.recordings))]
            why = [_too_sparse(some, self.duration_ns) for some in times]
            if name in asked or not all(why):
                kept.append(name)
            else:
                left_out.append(StreamFallout(name, sum(map(len, times)), left_out=why[0]))
        about = "; ".join(f"{stream.name!r}: {stream.left_out}" for stream in left_out)
        if not kept:
            raise UsageError(
                f"no stream can be sampled in clips of {span(self.duration_ns)}: {about or 'none is there'}"
            )
        if left_out:
            warnings.warn(
                f"left out, too sparse for clips of {span(self.duration_ns)}: {about}. {_WAYS_OUT}",
                UserWarning,
                stacklevel=4,
            )
        return tuple(kept), left_out

    def _starts(
        self, recording: int, stride_ns: int, complete: bool, tags: Collection[str]
    ) -> tuple[NDArray[np.int64], Fallout]:
        """The starts of the clips that are kept, from the first to the last time that every stream has seen."""
        every = {name: self._times(recording, name) for name in self.streams}
        fallout, starts = span_fallout(every, self.duration_ns, stride_ns)
        keep = tagged(self.store.recordings[recording], tags, starts, starts + self.duration_ns)
        if not keep.all():
            fallout.other[f"without the tags {', '.join(tags)}"] = int((~keep).sum())
        if complete and self._max_ns is not None:
            for stream, times in zip(fallout.streams, every.values()):
                wanted = starts[:, None] + self.steps[stream.name]
                near = (nearest_positions(times, wanted, self._max_ns)[0] >= 0).all(axis=1)
                stream.lose(f"with a step that has no frame within {span(self._max_ns)}", int((~near).sum()))
                keep &= near
        fallout.kept = int(keep.sum())
        return starts[keep], fallout


def _too_sparse(times: NDArray[np.int64], duration_ns: int) -> str:
    """Why a stream of one recording cannot be sampled in clips of that length, "" where it can."""
    if len(times) < 2:
        return f"{len(times)} frame{'s' * (len(times) != 1)}"
    seen = int(times[-1] - times[0])
    if seen < duration_ns:
        return f"{len(times):,} frames within {span(seen)}"
    period = seen / (len(times) - 1)
    return f"a frame every {span(period)}" if period > duration_ns else ""


def span_fallout(
    every: Mapping[str, NDArray[np.int64]], duration_ns: int, stride_ns: int
) -> tuple[Fallout, NDArray[np.int64]]:
    """The starts of clips that lie within every stream, and which streams keep how many others from being clips.

    Possible is what lies on the same grid within the span of all streams together.
    """
    fallout = Fallout("clips", 0, 0, [StreamFallout(name, len(times)) for name, times in every.items()])
    filled = [times for times in every.values() if len(times)]
    if not filled:
        return fallout, np.empty(0, np.int64)
    first, last = max(int(times[0]) for times in filled), min(int(times[-1]) for times in filled)
    low, high = min(int(times[0]) for times in filled), max(int(times[-1]) for times in filled)
    origin = first - (first - low) // stride_ns * stride_ns
    possible = fallout.possible = max(0, (high - duration_ns - origin) // stride_ns + 1)
    if not possible:
        fallout.other[f"recordings that span less, {span(high - low)}"] = 1
    for stream, times in zip(fallout.streams, every.values()):
        if not len(times):
            stream.lose("in recordings where it has no frame", possible)
            continue
        early = min(possible, -((origin - int(times[0])) // stride_ns))
        in_time = (int(times[-1]) - duration_ns - origin) // stride_ns + 1
        stream.lose("before its first frame", early)
        stream.lose("after its last frame", possible - min(possible, max(0, in_time)))
    if len(filled) < len(every):
        return fallout, np.empty(0, np.int64)
    return fallout, np.arange(first, last - duration_ns + 1, stride_ns, dtype=np.int64)


def _steps(duration: int, step: int, count: int, name: str, asked: Mapping[str, int]) -> NDArray[np.int64]:
    """The times of a stream's frames, counted from the clip's start: int64 [count]."""
    if count < 1:
        raise UsageError(f"frames_per_stream of {name!r} must be at least 1, not {count}")
    if name in asked:
        return np.arange(count, dtype=np.int64) * duration // count
    return np.arange(count, dtype=np.int64) * step
