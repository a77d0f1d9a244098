"""The window rule as frames arrive: which windows can be closed now. Pure; knows neither clocks nor files.

The batch form of the same rule is formats/hyperframe_windows.py (docs/spec/hyperframe.md, section 4).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Generic, NamedTuple, TypeVar

from trainload.formats.hyperframe import MAX_TIMESTAMP_NS

T = TypeVar("T")


class CutWindow(NamedTuple, Generic[T]):
    """One closed window: [start_ns, end_ns], both ends included, and its items in the order of their timestamps.

    Items that came late, for windows closed before, lead the list and lie before start_ns.
    """

    start_ns: int
    end_ns: int
    items: list[T]


class WindowCutter(Generic[T]):
    """Takes items with timestamps in about any order and gives them back window by window.

    A window closes when the newest timestamp seen is more than `lateness_ns` past the window's end, so no silent stream
    holds it open. An item at or before `taken_to_ns` is late: its window is closed, and it comes out with the next one.
    Items with equal timestamps keep the order in which they came.
    """

    def __init__(self, window_ns: int, lateness_ns: int) -> None:
        self.window_ns = window_ns
        self.lateness_ns = lateness_ns
        self.taken_to_ns = -1  # the end of the last closed window
        self._pending: list[tuple[Any, ...]] = []  # (timestamp, order of arrival, item)
        self._count = 0
        self._close_at = MAX_TIMESTAMP_NS  # a timestamp beyond this closes the first open window
        self._newest = -1

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
        return self._newest > self._close_at

    def cut(self) -> list[CutWindow[T]]:
        """The windows that are closed by what has arrived, in order; often none."""
        windows = []
        while self._newest > self._close_at:
            windows.append(self._take())
        return windows

    def flush(self) -> list[CutWindow[T]]:
        """Close everything that is pending. What comes later for these windows is late."""
        windows = []
        while self._pending:
            windows.append(self._take())
        return windows

    def _take(self) -> CutWindow[T]:
        """Cut off the first open window, with the late items before it."""
        pending = self._pending
        pending.sort()
        first_on_time = bisect_left(pending, (self.taken_to_ns + 1,))
        if first_on_time < len(pending):
            start = pending[first_on_time][0]
            end = min(start + self.window_ns, MAX_TIMESTAMP_NS)
        else:  # late items alone
            start, end = pending[0][0], self.taken_to_ns
        count = bisect_left(pending, (end + 1,))
        items = [item for _, _, item in pending[:count]]
        del pending[:count]
        self.taken_to_ns = end
        self._close_at = pending[0][0] + self.window_ns + self.lateness_ns if pending else MAX_TIMESTAMP_NS
        return CutWindow(start, end, items)
