"""For every reference time, the sample of a stream that belongs to it: nearest, previous, interval, interpolate.

Arrays of times in, arrays of indices and residuals out; int64 nanoseconds throughout. Knows no streams and no files.
Times of the stream are sorted, equal times are allowed; reference times may come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.recordings.format.field_rules import GivenRules

Int64 = NDArray[np.int64]
NO_MATCH_NS = int(np.iinfo(np.int64).max)  # the residual of an unmatched time: larger than every limit
GAP_PERIODS = 3  # a hole of more than this many median periods is a gap, unless max_gap says otherwise


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one stream or clock: int64[n] starts, sorted for a stream, and int64[n] ends (None: instants)."""

    starts: Int64
    ends: Int64 | None = None

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Match:
    """What a method found for n reference times.

    index: int64[n], position in the stream, -1 where nothing fits. residual_ns: int64[n], time of that sample minus the
    reference time, NO_MATCH_NS where nothing fits. Interpolate: `index` and `right` are the two samples used, `weight`
    float64[n] is the share of the right one (below 0 or above 1: extrapolated), and the residual is that of the closer
    of the two. Interval: `overlap_ns` int64[n] is the time both intervals share.
    """

    index: Int64
    residual_ns: Int64
    right: Int64 | None = None
    weight: NDArray[np.float64] | None = None
    overlap_ns: Int64 | None = None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def matched(self) -> NDArray[np.bool_]:
        """bool[n]: where a sample was found."""
        found: NDArray[np.bool_] = self.index >= 0
        return found

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Match:
        """The same for some of the reference times."""
        parts = (self.right, self.weight, self.overlap_ns)
        right, weight, overlap = (None if part is None else part[rows] for part in parts)
        return Match(self.index[rows], self.residual_ns[rows], right, weight, overlap)  # type: ignore[arg-type]


class Method(Protocol):
    """A way to match: `Nearest`, `Previous`, `Interval` or `Interpolate`."""

    __slots__ = ()

    def match(self, reference: Times, stream: Times) -> Match:
        """The sample of `stream` for every reference time."""


@dataclass(frozen=True, slots=True)
class Nearest(Method):
    """The sample closest in time, the earlier of two equally close; `max` bounds the distance ("20ms")."""

    max: str | int | None = None

    def __post_init__(self) -> None:
        _optional_ns(self.max, "Nearest(max=...)")

    def match(self, reference: Times, stream: Times) -> Match:
        """One binary search among the midpoints between samples, one subtraction."""
        times, wanted = stream.starts, reference.starts
        if not len(times):
            return _nothing(len(wanted))
        steps = np.diff(times)
        index = np.searchsorted(times[:-1] + (steps >> 1), wanted)
        if not steps.all():  # of equal times the first counts
            index = np.searchsorted(times, times)[index]
        residual = times[index]
        residual -= wanted
        limit = _optional_ns(self.max, "Nearest(max=...)")
        if limit is not None:
            _refuse(np.abs(residual) > limit, index, residual)
        return Match(index, residual)


@dataclass(frozen=True, slots=True)
class Previous(Method):
    """The last sample at or before the time, as a running system would have known it; `max_age` bounds its age."""

    max_age: str | int | None = None

    def __post_init__(self) -> None:
        _optional_ns(self.max_age, "Previous(max_age=...)")

    def match(self, reference: Times, stream: Times) -> Match:
        """One binary search, one subtraction. Of equal times the last counts. Residuals are never positive."""
        times, wanted = stream.starts, reference.starts
        if not len(times):
            return _nothing(len(wanted))
        index = np.searchsorted(times, wanted, "right")
        index -= 1
        residual = times[np.maximum(index, 0)]
        residual -= wanted
        refused = index < 0
        limit = _optional_ns(self.max_age, "Previous(max_age=...)")
        if limit is not None:
            refused |= residual < -limit
        _refuse(refused, index, residual)
        return Match(index, residual)


@dataclass(frozen=True, slots=True)
class Interval(Method):
    """The sample whose [start, end] shares most time with the reference's [start, end], the earlier of equal ones.

    Exposures and sweeps are closed intervals: an instant inside one shares no time but matches, unless `min_overlap`
    asks for more. A stream without durations has instants.
    """

    min_overlap: str | int | None = None

    def __post_init__(self) -> None:
        _optional_ns(self.min_overlap, "Interval(min_overlap=...)")

    def match(self, reference: Times, stream: Times) -> Match:
        """Two binary searches for samples that began before the reference; a step per sample that begins inside it."""
        if not len(stream):
            nothing = _nothing(len(reference))
            return Match(nothing.index, nothing.residual_ns, overlap_ns=np.zeros(len(reference), np.int64))
        index, overlap = _largest_overlap(reference, stream)
        residual = stream.starts[np.maximum(index, 0)]
        residual -= reference.starts
        least = _optional_ns(self.min_overlap, "Interval(min_overlap=...)") or 0
        refused = overlap < least
        _refuse(refused, index, residual)
        overlap[refused] = 0
        return Match(index, residual, overlap_ns=overlap)


@dataclass(frozen=True, slots=True)
class Interpolate(Method):
    """The value between the two samples around the time, never across a gap.

    max_gap: two samples further apart are a gap; left out, GAP_PERIODS median periods of the stream, where samples at
    one time count as one. extrapolate: how far beyond the first and the last sample the line through the two outermost
    times may be continued; left out, not at all. fields: how each field is combined ("linear", "angle",
    "angle_degrees", "quaternion_xyzw", "quaternion_wxyz", "nearest", "previous", or one rule per column of a field),
    over what the stream declares; a key is a field's name or a tuple of four names that are a quaternion together. See
    values.py for the defaults.
    """

    max_gap: str | int | None = None
    extrapolate: str | int | None = None
    fields: GivenRules | None = None

    def __post_init__(self) -> None:
        _optional_ns(self.max_gap, "Interpolate(max_gap=...)")
        _optional_ns(self.extrapolate, "Interpolate(extrapolate=...)")

    def match(self, reference: Times, stream: Times) -> Match:
        """One binary search; a time that meets a sample exactly takes that sample alone, gap or not.

        Of samples at one time, the last stands for it on the way to what follows and where it is met, and the first on
        the way from what came before.
        """
        times, wanted = stream.starts, reference.starts
        if not len(times):
            nothing = _nothing(len(wanted))
            return Match(nothing.index, nothing.residual_ns, nothing.index.copy(), np.zeros(len(wanted)))
        last = len(times) - 1
        left = np.searchsorted(times, wanted, "right") - 1
        exact = times[np.maximum(left, 0)] == wanted
        beyond = (left < 0) | (left == last)
        first_end = int(np.searchsorted(times, times[0], "right")) - 1  # the last sample at the first time
        last_start = int(np.searchsorted(times, times[-1]))  # the first sample at the last time
        left = np.where(exact, left, np.clip(left, first_end, max(last_start - 1, 0)))
        right = np.where(exact, left, np.minimum(left + 1, last))
        gap = times[right] - times[left]
        since = wanted - times[left]
        weight = np.divide(since, gap, out=np.zeros(len(wanted)), where=gap > 0)
        residual = np.where(np.abs(since) <= np.abs(gap - since), -since, gap - since)
        refused = (gap > self._gap_ns(times)) | (gap == 0) | (beyond & (np.abs(residual) > self._reach_ns()))
        refused &= ~exact
        for unused in (right, weight):
            unused[refused] = 0
        _refuse(refused, left, residual)
        right[refused] = -1
        return Match(left, residual, right, weight)

    def _gap_ns(self, times: Int64) -> int:
        limit = _optional_ns(self.max_gap, "Interpolate(max_gap=...)")
        if limit is not None:
            return limit
        return GAP_PERIODS * int(median_period(times))

    def _reach_ns(self) -> int:
        return _optional_ns(self.extrapolate, "Interpolate(extrapolate=...)") or 0


def median_period(times: Int64) -> float:
    """The median time between samples that follow one another, those at one time counted as one; 0 where all are."""
    steps = np.diff(times)
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 0.0


def parse_method(text: str) -> Method:
    """The method that the command line writes as "nearest:20ms", "previous", "interval:1ms" or "interpolate:15ms".

    What follows the colon is the method's first bound. Raises UsageError for another name.
    """
    name, _, bound = text.partition(":")
    limit = bound or None
    methods: dict[str, Method] = {
        "nearest": Nearest(limit),
        "previous": Previous(limit),
        "interval": Interval(limit),
        "interpolate": Interpolate(limit),
    }
    if name not in methods:
        raise UsageError(f"a method is one of {', '.join(methods)}, with its bound after a colon, not {text!r}")
    return methods[name]


def _largest_overlap(reference: Times, stream: Times) -> tuple[Int64, Int64]:
    """int64[n] index of the sample that shares most (-1: none meets the reference) and the time they share (-1: none).

    Of the samples begun at or before the reference, the one that ends last shares most, or the first that outlasts the
    reference: a running maximum of the ends finds it. Those that begin inside are tried in order until what is left of
    the reference is no longer than the best overlap so far.
    """
    begin = reference.starts
    end = begin if reference.ends is None else reference.ends
    starts = stream.starts
    ends = starts if stream.ends is None else stream.ends
    first_inside = np.searchsorted(starts, begin, "right")
    after_inside = np.searchsorted(starts, end, "right")
    latest_end = np.maximum.accumulate(ends)
    before = np.minimum(latest_end[np.maximum(first_inside - 1, 0)], end)
    meets = (first_inside > 0) & (before >= begin)
    overlap = np.where(meets, before - begin, -1)
    index = np.where(meets, np.searchsorted(latest_end, before), -1)
    rows = np.flatnonzero(first_inside < after_inside)
    sample = first_inside[rows]
    while len(rows):
        shared = np.minimum(ends[sample], end[rows]) - starts[sample]
        better = shared > overlap[rows]
        overlap[rows[better]] = shared[better]
        index[rows[better]] = sample[better]
        sample += 1
        go_on = sample < after_inside[rows]
        go_on[go_on] = end[rows[go_on]] - starts[sample[go_on]] > overlap[rows[go_on]]
        rows, sample = rows[go_on], sample[go_on]
    return index, overlap


def _optional_ns(value: str | int | None, what: str) -> int | None:
    return None if value is None else duration_ns(value, what=what)


def _nothing(count: int) -> Match:
    return Match(np.full(count, -1, np.int64), np.full(count, NO_MATCH_NS, np.int64))


def _refuse(refused: NDArray[np.bool_], index: Int64, residual: Int64) -> None:
    index[refused] = -1
    residual[refused] = NO_MATCH_NS
