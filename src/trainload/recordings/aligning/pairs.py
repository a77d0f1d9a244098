"""What belongs together at every reference time, with the residuals: `align` makes it, training reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.formats.printable import printable
from trainload.recordings.aligning.clock import check_clocks, clock_reference, stream_reference
from trainload.recordings.aligning.match import Interval, Match, Method, Nearest
from trainload.recordings.aligning.recording import timed_streams
from trainload.recordings.aligning.streams import TimedStreams, times_of
from trainload.recordings.aligning.values import matched_values
from trainload.recordings.format.envelopes import IMPORT_PREFIX

if TYPE_CHECKING:
    from trainload.recordings.aligning.report import Report
    from trainload.recordings.reading.hyperframe import HyperframeReader

Bound = str | int | Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Pair:
    """One reference time: position of the sample per stream (-1: none) and its residual in ns.

    reference_index: position in the reference stream, None for a fixed clock. mixed_clocks: host and hardware times
    met here by leave of allow_host=True.
    """

    time_ns: int
    reference_index: int | None
    index: dict[str, int]
    residual_ns: dict[str, int]
    mixed_clocks: bool


@dataclass(frozen=True, slots=True, repr=False)
class Pairs:
    """n reference times and, per stream, the `Match` for each of them.

    reference: name of the reference stream or clock. times: int64[n] ns. reference_index: int64[n] positions in the
    reference stream, None for a fixed clock. mixed_clocks marks a result in which host and hardware times met.
    """

    recording: TimedStreams
    reference: str
    times: NDArray[np.int64]
    reference_index: NDArray[np.int64] | None
    methods: dict[str, Method]
    matches: dict[str, Match]
    mixed_clocks: bool

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        counts = [f"{printable(name)} {int(match.matched.sum()):,}" for name, match in self.matches.items()]
        mixed = ", mixed clocks" if self.mixed_clocks else ""
        return f"Pairs({len(self):,} times of {printable(self.reference)}{mixed}; matched: {', '.join(counts)})"

    def __getitem__(self, row: int) -> Pair:
        if not -len(self) <= row < len(self):
            raise IndexError(f"pair {row} of {len(self)}")
        return Pair(
            time_ns=int(self.times[row]),
            reference_index=None if self.reference_index is None else int(self.reference_index[row]),
            index={name: int(match.index[row]) for name, match in self.matches.items()},
            residual_ns={name: int(match.residual_ns[row]) for name, match in self.matches.items()},
            mixed_clocks=self.mixed_clocks,
        )

    def __iter__(self) -> Iterator[Pair]:
        return (self[row] for row in range(len(self)))

    @property
    def residuals(self) -> dict[str, NDArray[np.int64]]:
        """int64[n] ns per stream: sample time minus reference time, NO_MATCH_NS where nothing matched."""
        return {name: match.residual_ns for name, match in self.matches.items()}

    @property
    def complete(self) -> NDArray[np.bool_]:
        """bool[n]: where every stream has a sample."""
        full = np.ones(len(self), np.bool_)
        for match in self.matches.values():
            full &= match.matched
        return full

    def select(self, *, max_residual: Bound | None = None, complete: bool = True) -> Pairs:
        """The pairs good enough to train on.

        max_residual: "20ms" for all streams or a bound per stream. complete: only where every stream has a sample
        (a bound on a stream asks for a sample of it anyway).
        """
        keep = self.complete if complete else np.ones(len(self), np.bool_)
        for name, bound in self._bounds(max_residual, "max_residual").items():
            keep &= np.abs(self.matches[name].residual_ns) <= bound
        return self.take(np.flatnonzero(keep))

    def take(self, rows: NDArray[np.int64]) -> Pairs:
        """The pairs at these positions, in this order."""
        return replace(
            self,
            times=self.times[rows],
            reference_index=None if self.reference_index is None else self.reference_index[rows],
            matches={name: match.take(rows) for name, match in self.matches.items()},
        )

    def weights(self, scale: Bound) -> NDArray[np.float64]:
        """float64[n] in 0..1: the product over streams of exp(-|residual| / scale); 0 where a stream is unmatched."""
        weights = np.ones(len(self))
        for name, bound in self._bounds(scale, "scale").items():
            match = self.matches[name]
            weights *= np.where(match.matched, np.exp(-np.abs(match.residual_ns) / bound), 0)
        return weights

    def values(self, stream: str) -> NDArray[Any]:
        """One value of `stream` per pair, interpolated where that is the method; blank where unmatched."""
        if stream not in self.matches:
            raise UsageError(f"{stream!r} was not aligned; these were: {', '.join(map(repr, self.matches))}")
        match, method = self.matches[stream], self.methods[stream]
        return matched_values(self.recording.values(stream), match, method, self.recording.streams[stream])

    def report(self) -> Report:
        """How well each stream fits: print it, or save it as JSON, PNG or HTML."""
        from trainload.recordings.aligning.report import make_report

        return make_report(self)

    def _bounds(self, bound: Bound | None, what: str) -> dict[str, int]:
        if bound is None:
            return {}
        bounds = bound if isinstance(bound, Mapping) else dict.fromkeys(self.matches, bound)
        unknown = set(bounds) - set(self.matches)
        if unknown:
            raise UsageError(f"{what} names {', '.join(sorted(unknown))}, which was not aligned")
        return {name: duration_ns(value, what=what) for name, value in bounds.items()}


def align(
    recording: TimedStreams | HyperframeReader,
    *,
    to: str | None = None,
    every: str | int | None = None,
    using: Mapping[str, Method] | None = None,
    allow_host: bool = False,
) -> Pairs:
    """For every time of stream `to`, or of a clock that ticks `every` so long, the samples of the other streams.

    recording: an open recording, or anything with the methods of TimedStreams (ArrayStreams, for instance).
    using: the method per stream; left out, every other stream by `Nearest()`, but for what an import keeps beside the
    sensors (IMPORT_PREFIX). Only acquisition times are used, never
    receive times. Cost: about one binary search per stream and reference time.
    Raises UsageError for unknown streams, and where host-stamped and hardware-stamped streams would meet.
    """
    if (to is None) == (every is None):
        raise UsageError('align takes one reference: to="a stream" or every="100ms"')
    recording = timed_streams(recording)
    sensors = [name for name in recording.streams if name != to and not name.startswith(IMPORT_PREFIX)]
    methods: dict[str, Method] = dict(using) if using is not None else {name: Nearest() for name in sensors}
    ends = any(isinstance(method, Interval) for method in methods.values())
    if to is not None:
        reference = stream_reference(recording, to, with_ends=ends)
    else:
        assert every is not None
        reference = clock_reference(recording, every, methods)
    matches: dict[str, Match] = {}
    times = {name: times_of(recording, name, with_ends=isinstance(m, Interval)) for name, m in methods.items()}
    mixed = check_clocks(recording, [*methods, *([to] if to else [])], allow_host=allow_host)
    for name, method in methods.items():
        matches[name] = method.match(reference.times, times[name])
    index = None if to is None else np.arange(len(reference.times))
    return Pairs(recording, reference.name, reference.times.starts, index, methods, matches, mixed)
