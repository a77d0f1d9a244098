"""One sample is one reference time of an alignment: the frames that belong together, with their residuals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.recordings.aligning.match import Interpolate
from trainload.recordings.aligning.pairs import Bound, Pairs
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.aligning.report_text import span
from trainload.recordings.samples.cache import FrameCache
from trainload.recordings.samples.clip import NO_RESIDUAL, NO_TIME, Clip
from trainload.recordings.samples.dataset import KeptSamples
from trainload.recordings.samples.fallout import Fallout, StreamFallout, summed
from trainload.recordings.samples.recordings import tagged, warn_of_bytes
from trainload.recordings.samples.store import FrameStore
from trainload.recordings.samples.values import plain_columns, read_only


class AlignedDataset(KeptSamples):
    """Map-style: ds[i] is the Clip of one pair: one value per stream, the reference stream's own frame included.

    pairs: what `trainload.align` gave for a recording, or a list of them, one per recording. max_residual, complete: as
    `Pairs.select`. tags: only pairs at times that carry all of them. Interpolated and packed streams are held in
    memory as one value per pair; the others are read. `report()` says what falls out. Raises UsageError, naming the
    stream that costs most, where nothing is left.
    """

    noun = "pair"
    squeeze = True

    def __init__(
        self,
        pairs: Pairs | Sequence[Pairs],
        *,
        max_residual: Bound | None = None,
        complete: bool = True,
        tags: Collection[str] = (),
        cache_bytes: int = 0,
    ) -> None:
        given = [pairs] if isinstance(pairs, Pairs) else list(pairs)
        timed = [_recording(some) for some in given]
        good = [some.select(max_residual=max_residual, complete=complete) for some in given]
        self.pairs = [
            some.take(np.flatnonzero(tagged(recording.reader, tags, some.times, some.times)))
            for some, recording in zip(good, timed)
        ]
        self.streams = tuple(dict.fromkeys(name for some in self.pairs for name in _names(some)))
        self._fallout = summed("reference times", [_fallout(some, max_residual, complete) for some in given])
        self._fallout.kept = sum(map(len, self.pairs))
        lost = sum(map(len, good)) - self._fallout.kept
        if lost:
            self._fallout.other[f"without the tags {', '.join(tags)}"] = lost
        self._fallout.require_some("Look at pairs.report(); allow more, or align without that stream")
        warn_of_bytes([recording.reader for recording in timed], self.streams)
        self._held = [_held_values(some, recording) for some, recording in zip(self.pairs, timed)]
        self.store = FrameStore([recording.reader for recording in timed], self.streams, FrameCache(cache_bytes))
        counts = [len(some) for some in self.pairs]
        self.recording_of = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        self.numbers = np.concatenate([np.arange(count) for count in counts])

    def read(self, i: int, store: FrameStore) -> Clip:
        """Sample `i` through another store of the same recordings (a loader's, with chunks)."""
        recording, row = int(self.recording_of[i]), int(self.numbers[i])
        pairs, held = self.pairs[recording], self._held[recording]
        time = int(pairs.times[row])
        values: dict[str, list[NDArray[Any] | None]] = {}
        times, residuals = {}, {}
        for name in _names(pairs):
            match = pairs.matches.get(name)
            assert match is not None or pairs.reference_index is not None
            position = int(match.index[row]) if match is not None else int(pairs.reference_index[row])  # type: ignore[index]
            residual = int(match.residual_ns[row]) if match is not None else 0
            found = position >= 0
            if name in held:
                values[name] = [held[name][row] if found else None]
            else:
                values[name] = [store.value(recording, name, position) if found else None]
            times[name] = np.array([time + residual if found else NO_TIME], np.int64)
            residuals[name] = np.array([residual if found else NO_RESIDUAL], np.int64)
        return Clip(
            id=i,
            recording=recording,
            number=row,
            start_ns=time,
            end_ns=time,
            values=values,
            times=times,
            residuals=residuals,
            mixed_clocks=pairs.mixed_clocks,
        )

    def chunks(self) -> list[NDArray[np.int64]]:
        """Per recording, the chunk of each of its samples: int64 [n]."""
        return [self.store.chunk_of_times(n, pairs.times) for n, pairs in enumerate(self.pairs)]


def _recording(pairs: Pairs) -> RecordingTimes:
    if not isinstance(pairs.recording, RecordingTimes):
        raise UsageError("AlignedDataset reads frames: align an open recording, not arrays of times")
    return pairs.recording


def _fallout(pairs: Pairs, max_residual: Bound | None, complete: bool) -> Fallout:
    streams = []
    for name, match in pairs.matches.items():
        bound = max_residual.get(name) if isinstance(max_residual, Mapping) else max_residual
        limit = None if bound is None else duration_ns(bound, what="max_residual")
        stream = StreamFallout(name, len(pairs.recording.timestamps(name)))
        if complete or limit is not None:
            stream.lose("unmatched", int((~match.matched).sum()))
        if limit is not None:
            far = match.matched & (np.abs(match.residual_ns) > limit)
            stream.lose(f"farther off than {span(limit)}", int(far.sum()))
        streams.append(stream)
    return Fallout("reference times", len(pairs), 0, streams)


def _names(pairs: Pairs) -> tuple[str, ...]:
    reference = () if pairs.reference_index is None else (pairs.reference,)
    return (*reference, *(name for name in pairs.matches if name not in reference))


def _held_values(pairs: Pairs, recording: RecordingTimes) -> dict[str, NDArray[Any]]:
    """One value per pair of the streams that are interpolated, or packed and so small."""
    held = {}
    for name in _names(pairs):
        packed = recording.streams[name].packed
        if name in pairs.matches and (packed or isinstance(pairs.methods[name], Interpolate)):
            held[name] = read_only(plain_columns(pairs.values(name)))
        elif packed:
            held[name] = read_only(plain_columns(recording.values(name)[pairs.reference_index]))
    return held
