"""How regular the samples of a packed stream are, from the times inside its payloads.

One stream at a time, a stretch of samples at a time: memory does not grow with the recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format.streams import TIME_FIELD, StreamInfo
from trainload.recordings.reading.frame import Frame

STRETCH = 1 << 16  # samples that are looked at together
_KEPT = 1 << 20  # intervals that jitter is taken from: all of them, or evenly spread ones
_REGULAR = 0.9  # share of intervals within half a median of the median, from which on missing samples can be counted


def has_sample_times(info: StreamInfo) -> bool:
    """True for a packed stream whose samples carry their times as the spec says."""
    names = () if info.dtype is None else info.dtype.names or ()
    return info.packed and names[:1] == (TIME_FIELD,) and info.dtype is not None and info.dtype[TIME_FIELD] == "<u8"


def sample_timing(frames: Iterable[Frame]) -> dict[str, Any]:
    """What the samples in the payloads of one packed stream, given in order, say of themselves.

    samples: how many. From two times on also: rate_hz over the whole stream; jitter_ms, the root mean square of the
    intervals about their median, and jitter_p99_ms; longest_gap_ms, and longest_gap_at_ns where it begins;
    lost_samples: how many more the intervals have room for, "inside" payloads and "between" them, None where the times
    are too irregular to tell. Jitter of more than a million intervals is that of evenly spread ones. FormatError.
    """
    meter = _Meter()
    times: list[NDArray[np.int64]] = []
    waiting = 0
    for frame in frames:
        times.append(frame.array()[TIME_FIELD].astype(np.int64))
        waiting += len(times[-1])
        if waiting >= STRETCH:
            meter.take(times)
            times, waiting = [], 0
    meter.take(times)
    return meter.facts()


class _Meter:
    """Intervals, taken in stretch by stretch."""

    def __init__(self) -> None:
        self._samples = self._payloads = 0
        self._first = self._last = self._last_owner = 0
        self._longest, self._longest_at = -1, 0
        self._period = 0.0
        self._regular = 0
        self._lost = {"inside": 0, "between": 0}
        self._kept: list[NDArray[np.int64]] = []
        self._step = 1  # every so manieth interval is kept

    def take(self, payloads: list[NDArray[np.int64]]) -> None:
        """The times of some payloads; those of a late one may lie between others."""
        times = np.concatenate([np.empty(0, np.int64), *payloads])
        if not len(times):
            return
        owners = np.repeat(np.arange(len(payloads)) + self._payloads, [len(each) for each in payloads])
        order = np.argsort(times, kind="stable")
        times, owners = times[order], owners[order]
        if self._samples:
            times, owners = np.append(self._last, times), np.append(self._last_owner, owners)
        else:
            self._first = int(times[0])
        self._samples += len(order)
        self._payloads += len(payloads)
        self._last, self._last_owner = int(times.max()), int(owners[-1])
        if len(times) > 1:
            self._intervals(np.maximum(np.diff(times), 0), times, owners[1:] != owners[:-1])

    def _intervals(self, intervals: NDArray[np.int64], times: NDArray[np.int64], between: NDArray[np.bool_]) -> None:
        at = int(intervals.argmax())
        if intervals[at] > self._longest:
            self._longest, self._longest_at = int(intervals[at]), int(times[at])
        self._period = self._period or float(np.median(intervals))
        if self._period:
            self._regular += int(np.count_nonzero(np.abs(intervals - self._period) < self._period / 2))
            missing = np.maximum(np.rint(intervals / self._period) - 1, 0)
            self._lost["between"] += int(missing[between].sum())
            self._lost["inside"] += int(missing[~between].sum())
        self._kept.append(intervals[:: self._step])
        if sum(map(len, self._kept)) > _KEPT:
            self._kept, self._step = [np.concatenate(self._kept)[::2]], self._step * 2

    def facts(self) -> dict[str, Any]:
        intervals = np.concatenate([np.empty(0, np.int64), *self._kept])
        if not len(intervals) or self._last == self._first:
            return {"samples": self._samples}
        count, off = self._samples - 1, np.abs(intervals - np.median(intervals))
        return {
            "samples": self._samples,
            "rate_hz": count * 1e9 / (self._last - self._first),
            "jitter_ms": float(np.sqrt(np.mean(off**2))) / 1e6,
            "jitter_p99_ms": float(np.percentile(off, 99)) / 1e6,
            "longest_gap_ms": self._longest / 1e6,
            "longest_gap_at_ns": self._longest_at,
            "lost_samples": self._lost if self._regular >= _REGULAR * count else None,
        }
