"""Why frames of an import came late, far behind newer ones, in a sentence that names the streams.

Three causes are told apart: stamps of another clock than the log's, single stamps that lie far ahead of all others
(what comes after them looks late and is not), and frames that are simply out of order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainload.recordings.format.envelopes import IMPORT_PREFIX
from trainload.recordings.importers.source import SourceFrame

MANY_LATE = 0.1  # share of frames
_OTHER_CLOCK_NS = 60_000_000_000  # no driver takes so long to log a frame
_MOST_NAMED = 5
_LOG_TIMES = "--times log puts every frame on the log's time"


@dataclass(slots=True)
class _Ahead:
    """A frame that was the newest while `behind` older ones came, the first of them `by_ns` behind it."""

    stream: str
    number: int
    time_ns: int
    behind: int = 0
    by_ns: int = 0


class Lateness:
    """Sees every frame of an import in its order; memory grows with the streams only."""

    def __init__(self) -> None:
        self._newest: _Ahead | None = None
        self._farthest: _Ahead | None = None
        self._between: dict[str, tuple[int, int]] = {}  # least and most of log time minus stamp
        self._frames: dict[str, int] = {}

    def add(self, frame: SourceFrame) -> None:
        """The next frame."""
        number = self._frames.get(frame.stream, 0)
        self._frames[frame.stream] = number + 1
        if self._newest is None or frame.timestamp_ns > self._newest.time_ns:
            self._newest = _Ahead(frame.stream, number, frame.timestamp_ns)
        elif frame.timestamp_ns < self._newest.time_ns:
            self._newest.by_ns = self._newest.by_ns or self._newest.time_ns - frame.timestamp_ns
            self._newest.behind += 1
            if self._farthest is None or self._newest.behind > self._farthest.behind:
                self._farthest = self._newest
        if frame.receive_ns:
            late = frame.receive_ns - frame.timestamp_ns
            least, most = self._between.get(frame.stream, (late, late))
            self._between[frame.stream] = min(least, late), max(most, late)

    def sentence(self, late: Mapping[str, int]) -> str:
        """What is to be said of the late frames of each stream; "" where they are few."""
        late = {name: count for name, count in late.items() if count and not name.startswith(IMPORT_PREFIX)}
        total = sum(late.values())
        if total <= sum(self._frames.values()) * MANY_LATE:
            return ""
        most = sorted(late, key=lambda name: (-late[name], name))
        named = [f"{name} ({late[name]:,} of {self._frames.get(name, 0):,})" for name in most[:_MOST_NAMED]]
        more = f" and {len(most) - _MOST_NAMED:,} more streams" if len(most) > _MOST_NAMED else ""
        return f"{total:,} frames are far behind newer ones: {', '.join(named)}{more}. {self._why(total)}"

    def _why(self, total: int) -> str:
        ahead = self._farthest
        if ahead is not None and ahead.behind * 2 > total:
            return (
                f"They come after frame {ahead.number:,} of {ahead.stream}, whose time {ahead.time_ns} lies "
                f"{ahead.by_ns / 1e9:,.3f} s ahead of the next: that stamp seems to be wrong, the others right"
                + (f"; {_LOG_TIMES}" if ahead.stream in self._between else "")
            )
        other = sorted(
            name for name, (least, most) in self._between.items() if least > _OTHER_CLOCK_NS or most < -_OTHER_CLOCK_NS
        )
        if other:
            return (
                f"The stamps of {', '.join(other[:_MOST_NAMED])} seem to be of another clock than the log's (a "
                f"simulation, time since boot); {_LOG_TIMES}"
            )
        return "They lie out of order in the source; a longer --window leaves fewer of them behind"
