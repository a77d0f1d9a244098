"""`--window auto`: a window of 1 to 2 periods of the slowest stream, so that every window has a frame of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from trainload.formats.limits import MAX_SECTION_BYTES
from trainload.recordings.importers.source import Span

MIN_FRAMES = 10  # a stream with fewer is an occasional one (a map, a static transform), not a sensor
MAX_WINDOW_NS = 2_000_000_000
DEFAULT_WINDOW_NS = 100_000_000
_TABLE_BYTES = MAX_SECTION_BYTES // 4  # half of what a file takes; a window needs 32 bytes and 8 for each stream
_MS = 1_000_000
_STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


class WindowLength(NamedTuple):
    """A window length and the sentence that says why."""

    window_ns: int
    reason: str


def choose_window_length(spans: Mapping[str, Span]) -> WindowLength:
    """A round length of about 1.5 periods of the slowest stream, at most MAX_WINDOW_NS.

    Longer only where that gave more windows than one file holds: 5 million, fewer with many streams.
    """
    often = {name: span.period_ns for name, span in spans.items() if span.frames >= MIN_FRAMES and span.period_ns > 0}
    if not often:
        return WindowLength(
            DEFAULT_WINDOW_NS, f"window 100 ms: no stream has {MIN_FRAMES} frames to tell a period from"
        )
    slowest = max(often, key=lambda name: often[name])
    period = often[slowest]
    about = f"the slowest stream is {slowest} with a frame every {period / 1e6:.4g} ms"
    if period * 1.5 > MAX_WINDOW_NS:
        return WindowLength(MAX_WINDOW_NS, f"window 2 s, the most that auto takes: {about}")
    crowd = spans[slowest].frames * (32 + 8 * (1 + len(spans))) / _TABLE_BYTES  # first and last time may be wrong
    if crowd > 1:
        window = min(math.ceil(period * 1.5 * crowd / _MS) * _MS, MAX_WINDOW_NS)
        return WindowLength(window, f"window {window // _MS} ms, or there were too many for one file: {about}")
    window = _round_length(period)
    return WindowLength(window, f"window {window / 1e6:g} ms, {window / period:.2f} periods: {about}")


def _round_length(period: float) -> int:
    """The round number closest to 1.5 periods, which lies between 1 and 2."""
    scale = float(10 ** math.floor(math.log10(period * 1.5)))
    round_ones = [scale * step for step in _STEPS if period <= scale * step <= 2 * period]
    best: float = min(round_ones or [1.5 * period], key=lambda length: abs(length - 1.5 * period))
    return max(1, round(best))
