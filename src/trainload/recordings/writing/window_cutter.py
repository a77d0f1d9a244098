"""The window rule as frames arrive: which windows can be closed now. Pure; knows neither clocks nor files.

The batch form of the same rule is recordings/format/windows.py (docs/spec/hyperframe.md, section 4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from trainload.recordings.format.hyperframe import MAX_TIMESTAMP_NS

T = TypeVar("T")
MOST_LATE = 1024


class CutWindow(NamedTuple, Generic[T]):
    """One closed window: [start_ns, end_ns], both ends included, and its items in the order of their timestamps.

    Items that came late, for windows closed before, lead the list and lie before start_ns, unless they come alone: then
    start_ns and end_ns are their own.
    """

    start_ns: int
    end_ns: int
    items: list[T]


class WindowCutter(Generic[T]):
    """Takes items with timestamps in about any order and gives them back window by window.

    A window closes when the newest timestamp seen is more than `lateness_ns` past the window's end, so no silent stream
    holds it open. An item at or before `taken_to_ns` is late: its window is closed, and it comes out with the next one,
    or with other late items alone once these span a window or are MOST_LATE (a clock that ran ahead makes all that
    follows late). Items with equal timestamps keep the order in which they came.
    """

    def __init__(self, window_ns: int, lateness_ns: int) -> None:
        self.window_ns = window_ns
        self.lateness_ns = lateness_ns
        self.taken_to_ns = -1  # the end of the last closed window
        self._pending: list[tuple[Any, ...]] = []  # (timestamp, order of arrival, item)
        self._count = 0
        self._close_at = MAX_TIMESTAMP_NS  # a timestamp beyond this closes the first open window
        self._newest = -1
        self._late: list[int] = []  # the timestamps of late items that are pending

    def push(self, timestamp_ns: int, item: T) -> bool:
        """Take one item; True where `cut()` has a window to give now."""
        self._pending.append((timestamp_ns, self._count, item))
        self._count += 1
        if timestamp_ns > self._newest:
            self._newest = timestamp_ns
        if timestamp_ns > self.taken_to_ns:
            close_at = timestamp_ns + self.window_ns + self.lateness_ns
            if close_at < self._close_at:
                self._close_at = close_at
        else:
            self._late.append(timestamp_ns)
        return self._newest > self._close_at or (bool(self._late) and self._late_is_due())

    def cut(self) -> list[CutWindow[T]]:
        """The windows that are closed by what has arrived, in order; often none."""
        windows = []
        while self._newest > self._close_at:
            windows.append(self._take())
        if self._late and self._late_is_due():
            windows.append(self._take_late())
        return windows

    def pending(self) -> list[T]:
        """The items that are in no closed window yet."""
        return [item for _, _, item in self._pending]

    def flush(self) -> list[CutWindow[T]]:
        """Close everything that is pending. What comes later for these windows is late."""
        windows = []
        while len(self._pending) > len(self._late):
            windows.append(self._take())
        if self._late:
            windows.append(self._take_late())
        return windows

    def _late_is_due(self) -> bool:
        return len(self._late) >= MOST_LATE or self._late[-1] - self._late[0] > self.window_ns

    def _take(self) -> CutWindow[T]:
        """Cut off the first open window, with the late items before it."""
        self._pending.sort()
        start = self._pending[bisect_left(self._pending, (self.taken_to_ns + 1,))][0]
        self.taken_to_ns = min(start + self.window_ns, MAX_TIMESTAMP_NS)
        items = self._take_to(self.taken_to_ns)
        rest = self._pending
        self._close_at = rest[0][0] + self.window_ns + self.lateness_ns if rest else MAX_TIMESTAMP_NS
        return CutWindow(start, self.taken_to_ns, items)

    def _take_late(self) -> CutWindow[T]:
        """Cut off the late items alone, as a window of their own."""
        start, end = min(self._late), max(self._late)
        self._pending.sort()
        return CutWindow(start, end, self._take_to(end))

    def _take_to(self, end_ns: int) -> list[T]:
        count = bisect_left(self._pending, (end_ns + 1,))
        items = [item for _, _, item in self._pending[:count]]
        del self._pending[:count]
        self._late.clear()
        return items


def window_advice(window_ns: int, rates_hz: Iterable[float]) -> str | None:
    """What to say about a window length that is not 1 to 2 periods of the slowest stream; None where it is."""
    slowest_hz = min(rates_hz, default=None)
    if slowest_hz is None or 1 <= window_ns * slowest_hz / 1e9 <= 2:
        return None
    low, high = 1e3 / slowest_hz, 2e3 / slowest_hz
    return (
        f"windows of {window_ns / 1e6:g} ms: the slowest stream has {slowest_hz:g} Hz, and 1 to 2 of its periods "
        f"({low:.0f} to {high:.0f} ms) serve well"
    )
