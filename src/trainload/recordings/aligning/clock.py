"""The times that everything is matched to, a stream's or a fixed clock's, and which clocks may meet there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.recordings.aligning.match import Times
from trainload.recordings.aligning.streams import TimedStreams, times_of

MAX_TICKS = 1 << 31


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference times and their name; stream is None for a fixed clock."""

    name: str
    stream: str | None
    times: Times


def stream_reference(recording: TimedStreams, stream: str, *, with_ends: bool) -> Reference:
    """The times of one stream of the recording."""
    return Reference(stream, stream, times_of(recording, stream, with_ends=with_ends))


def clock_reference(recording: TimedStreams, every: str | int, names: Iterable[str]) -> Reference:
    """Ticks `every` so long, from the first sample of any of the named streams to the last.

    A stream that starts late or stops early is unmatched there and the report says so. A tick's interval, for
    `Interval`, lasts until the next tick.
    """
    step = duration_ns(every, what="every=...")
    starts = [times_of(recording, name, with_ends=False).starts for name in names]
    filled = [times for times in starts if len(times)]
    name = f"every {every} ns" if isinstance(every, int) else f"every {every}"
    if not filled:
        nothing = np.empty(0, np.int64)
        return Reference(name, None, Times(nothing, nothing))
    first = min(int(times[0]) for times in filled)
    last = max(int(times[-1]) for times in filled)
    if (last - first) // step >= MAX_TICKS:
        raise UsageError(f"a clock that ticks {name} over {(last - first) / 1e9:,.0f} s has too many ticks")
    ticks = np.arange(first, last + 1, step, dtype=np.int64)
    return Reference(name, None, Times(ticks, ticks + step))


def check_clocks(recording: TimedStreams, names: Iterable[str], *, allow_host: bool) -> bool:
    """True where host-stamped and hardware-stamped streams meet, which `allow_host` must have allowed.

    A host stamp is the moment a driver published, tens of milliseconds after the event when the machine is busy.
    Raises UsageError where they meet without leave.
    """
    clocks: dict[str, list[str]] = {"hardware": [], "host": []}
    for name in names:
        clocks[recording.streams[name].clock].append(name)
    mixed = bool(clocks["hardware"] and clocks["host"])
    if mixed and not allow_host:
        raise UsageError(
            f"host-stamped {', '.join(clocks['host'])} cannot be aligned with hardware-stamped "
            f"{', '.join(clocks['hardware'])}: the host stamps when it publishes, not when the sensor measured. "
            "allow_host=True (--allow-host) does it all the same and marks every result"
        )
    return mixed
