"""What alignment asks of a recording, and the same held in memory for times that come from elsewhere.

A `HyperframeReader` answers all of it (see `timed_streams`); `ArrayStreams` does for anybody's numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.recordings.aligning.match import Times
from trainload.recordings.format.field_rules import GivenRules, check_rules
from trainload.recordings.format.streams import StreamInfo


class TimedStreams(Protocol):
    """Streams by name, with one time, and perhaps a duration, a receive time and a value, per sample."""

    @property
    def streams(self) -> Mapping[str, StreamInfo]:
        """What each stream is; alignment looks at clock, rate_hz and frame_duration_ns."""

    def timestamps(self, stream: str) -> NDArray[np.int64]:
        """int64[n] acquisition times in ns, sorted."""

    def durations(self, stream: str) -> NDArray[np.int64] | None:
        """int64[n] exposure or sweep in ns, 0: the nominal one of the stream; None where no sample has its own."""

    def receive_times(self, stream: str) -> NDArray[np.int64] | None:
        """int64[n] host times of arrival in ns, 0 or None where unknown. Never used to match."""

    def values(self, stream: str) -> NDArray[Any]:
        """One number, row or record per sample, for `Interpolate`."""


class ArrayStreams:
    """Streams held as arrays: add each with its times, then give the object to `align`.

    >>> rig = ArrayStreams()
    >>> rig.add("lidar", times_ns, durations="50ms")
    >>> rig.add("imu", imu_times_ns, values=rates)            # (n,), (n, c) or a structured array
    """

    def __init__(self) -> None:
        self._infos: dict[str, StreamInfo] = {}
        self._times: dict[str, NDArray[np.int64]] = {}
        self._durations: dict[str, NDArray[np.int64]] = {}
        self._receive_times: dict[str, NDArray[np.int64]] = {}
        self._values: dict[str, NDArray[Any]] = {}

    def add(
        self,
        name: str,
        timestamps: ArrayLike,
        *,
        clock: str = "hardware",
        durations: ArrayLike | str | None = None,
        receive_times: ArrayLike | None = None,
        values: ArrayLike | None = None,
        rate_hz: float | None = None,
        fields: GivenRules | None = None,
    ) -> None:
        """Take one stream; samples out of order are sorted by time, equal times keep their order.

        timestamps, receive_times: whole ns. durations: ns per sample, or one like "50ms" for all. clock: "hardware" or
        "host". fields: how values are combined, as Recorder.add_stream takes it. Raises UsageError for lengths that
        differ, times that are not whole, a clock of another name and fields that are not there.
        """
        if clock not in ("hardware", "host"):
            raise UsageError(f'the clock of {name!r} must be "hardware" or "host", not {clock!r}')
        times = _whole(timestamps, f"the timestamps of {name!r}")
        order = np.argsort(times, kind="stable")
        frame_duration = (
            duration_ns(durations, what=f"the duration of {name!r}") if isinstance(durations, str) else None
        )
        columns = {
            "durations": None if durations is None or isinstance(durations, str) else _whole(durations, "durations"),
            "receive times": None if receive_times is None else _whole(receive_times, "receive times"),
            "values": None if values is None else np.asarray(values),
        }
        for what, column in columns.items():
            if column is not None and len(column) != len(times):
                raise UsageError(f"{name!r} has {len(times):,} timestamps and {len(column):,} {what}")
        if columns["durations"] is not None and (columns["durations"] < 0).any():
            raise UsageError(f"a duration of {name!r} is negative")
        stores: tuple[dict[str, NDArray[Any]], ...] = (self._durations, self._receive_times, self._values)
        for store, column in zip(stores, columns.values()):
            store.pop(name, None)
            if column is not None:
                store[name] = column[order]
        try:
            check_rules(fields or {}, None if columns["values"] is None else columns["values"].dtype)
        except ValueError as error:
            raise UsageError(f"{name!r}: {error}") from error
        self._times[name] = times[order]
        self._infos[name] = StreamInfo(
            id=len(self._infos),
            name=name,
            clock=clock,
            rate_hz=rate_hz,
            frame_duration_ns=frame_duration,
            fields=dict(fields or {}),
        )

    @property
    def streams(self) -> Mapping[str, StreamInfo]:
        return self._infos

    def timestamps(self, stream: str) -> NDArray[np.int64]:
        return self._times[stream]

    def durations(self, stream: str) -> NDArray[np.int64] | None:
        return self._durations.get(stream)

    def receive_times(self, stream: str) -> NDArray[np.int64] | None:
        return self._receive_times.get(stream)

    def values(self, stream: str) -> NDArray[Any]:
        if stream not in self._values:
            raise UsageError(f"{stream!r} was added without values; give add(..., values=...) to interpolate it")
        return self._values[stream]


def times_of(recording: TimedStreams, name: str, *, with_ends: bool) -> Times:
    """The starts, and with_ends the ends, of a stream's samples. Raises UsageError for a name that is not there."""
    if name not in recording.streams:
        raise UsageError(f"no stream is called {name!r}; there are {', '.join(map(repr, recording.streams))}")
    starts = recording.timestamps(name)
    if not with_ends:
        return Times(starts)
    durations, nominal = recording.durations(name), recording.streams[name].frame_duration_ns
    if durations is None:
        return Times(starts, starts + nominal if nominal else None)
    return Times(starts, starts + (np.where(durations > 0, durations, nominal) if nominal else durations))


def _whole(values: ArrayLike, what: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError(f"{what} must be one row of whole nanoseconds, not {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "u" and len(array) and int(array.max()) > np.iinfo(np.int64).max:
        raise UsageError(f"{what} must fit into 63 bits")
    return array.astype(np.int64)
