"""What a recording looks like while it runs: counts, and rates over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from trainload.recordings.writing.durable import Durable

RATE_SPAN_S = 2.0  # rates are means over about this long


@dataclass(frozen=True, slots=True)
class StreamStats:
    """One stream: frames and payload bytes taken, and frames per second of late.

    late: frames that came after their window was written. lost: frames missing from the sensor's own numbers. dropped:
    frames that the full queue refused.
    """

    name: str
    frames: int
    bytes: int
    rate_hz: float
    late: int
    lost: int
    dropped: int


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """A recording at one moment.

    megabytes_per_s: payload taken of late. queue_*: what waits. windows, committed_windows: of the current part,
    written, and known to be on the disk. parts: files finished before it. durable: the same in times and frame numbers.
    """

    seconds: float
    megabytes_per_s: float
    queue_bytes: int
    queue_frames: int
    windows: int
    committed_windows: int
    parts: int
    file_bytes: int
    streams: tuple[StreamStats, ...]
    durable: Durable

    @property
    def dropped(self) -> int:
        return sum(stream.dropped for stream in self.streams)


class RateMeter:
    """Rates per second of several counters, from the snapshots of the last RATE_SPAN_S."""

    def __init__(self) -> None:
        self._snapshots: deque[tuple[float, dict[str, int]]] = deque()

    def rates(self, counts: dict[str, int]) -> dict[str, float]:
        """Rates of `counts`, which only grow, since the oldest snapshot kept; the first call gives zeros."""
        now = time.monotonic()
        while len(self._snapshots) > 1 and now - self._snapshots[0][0] > RATE_SPAN_S:
            self._snapshots.popleft()
        self._snapshots.append((now, counts))
        then, before = self._snapshots[0]
        span = now - then
        return {name: (count - before.get(name, 0)) / span if span > 0 else 0.0 for name, count in counts.items()}
