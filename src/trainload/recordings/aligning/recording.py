"""A recording as alignment sees it: one time and one value per sample, packed samples taken apart.

A stream whose index has a frame without the hardware-time flag counts as host-stamped, whatever its table says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib.recfunctions import repack_fields
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.recordings.aligning.streams import TimedStreams
from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import HARDWARE_TIME, MAX_TIMESTAMP_NS
from trainload.recordings.format.streams import TIME_FIELD, StreamInfo
from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.hyperframe import HyperframeReader


class RecordingTimes:
    """`TimedStreams` over a HyperframeReader. Packed streams are read once, whole, when their times are asked for.

    A position in a packed stream counts samples, not payloads: `values(stream)[position]` is the sample.
    """

    def __init__(self, reader: HyperframeReader) -> None:
        self.reader = reader
        self._packed: dict[str, NDArray[Any]] = {}

    @cached_property
    def streams(self) -> Mapping[str, StreamInfo]:
        """The recording's stream table with the clock that the index vouches for."""
        found = {}
        for name, info in self.reader.streams.items():
            flags = [file.index["flags"][file.rows.get(info.id, slice(0, 0))] for file in self.reader.files]
            stamped = all(bool((some & HARDWARE_TIME).all()) for some in flags)
            found[name] = replace(info, clock="hardware" if stamped and info.clock == "hardware" else "host")
        return found

    def timestamps(self, stream: str) -> NDArray[np.int64]:
        if self.streams[stream].packed:
            times: NDArray[np.int64] = self._samples(stream)[TIME_FIELD].astype(np.int64)
            return times
        return self.reader.timestamps(stream)

    def durations(self, stream: str) -> NDArray[np.int64] | None:
        return None if self.streams[stream].packed else self.reader.durations(stream)

    def receive_times(self, stream: str) -> NDArray[np.int64] | None:
        return None if self.streams[stream].packed else self.reader.receive_times(stream)

    def values(self, stream: str) -> NDArray[Any]:
        """The whole stream as one array. Raises UsageError where a frame is not one number, row or record."""
        info = self.streams[stream]
        if info.packed:
            samples = self._samples(stream)
            names = [name for name in samples.dtype.names or () if name != TIME_FIELD]
            return samples[names[0]] if names == ["value"] else repack_fields(samples[names])
        if info.dtype is None:
            raise UsageError(f"{stream!r} holds {info.encoding} frames, which cannot be interpolated")
        arrays = [frame.array() for frame in self._frames(stream)]
        if any(len(array) != 1 for array in arrays):
            raise UsageError(f"{stream!r} holds many elements per frame, which cannot be interpolated")
        return np.concatenate(arrays) if arrays else np.empty(0, info.dtype)

    def _frames(self, stream: str) -> Iterator[Frame]:
        return self.reader.iter_positions(stream, 0, self.reader.count(stream))

    def _samples(self, stream: str) -> NDArray[Any]:
        if stream not in self._packed:
            arrays = [frame.array() for frame in self._frames(stream)]
            samples = np.concatenate(arrays) if arrays else np.empty(0, self.reader.streams[stream].dtype)
            if len(samples) and samples[TIME_FIELD].max() > MAX_TIMESTAMP_NS:
                raise rules.SAMPLE_TIME.broken(
                    field=TIME_FIELD,
                    offset=None,
                    found=f"{samples[TIME_FIELD].max():,}",
                    expected=f"at most {MAX_TIMESTAMP_NS:,}",
                    path=self.reader.path,
                )
            self._packed[stream] = samples[np.argsort(samples[TIME_FIELD], kind="stable")]
        return self._packed[stream]

    def __reduce__(self) -> tuple[type[RecordingTimes], tuple[HyperframeReader]]:
        return RecordingTimes, (self.reader,)

    def __enter__(self) -> RecordingTimes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reader.close()


def timed_streams(recording: TimedStreams | HyperframeReader) -> TimedStreams:
    """`recording` itself, or a recording as TimedStreams."""
    return RecordingTimes(recording) if isinstance(recording, HyperframeReader) else recording
