"""Times in another unit than their data set's: tools that write a layout do not always keep to its unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from trainload.recordings.importers.columns import seconds_to_ns
from trainload.recordings.importers.rows.csv import Words

_FIRST_NS, _LAST_NS = 946_684_800 * 10**9, 4_102_444_800 * 10**9  # the years 2000 to 2100
_SHORTEST_NS = 50_000  # between samples of a sensor: 20 kHz
_LARGER = (("microseconds", 10**3), ("milliseconds", 10**6), ("seconds", 10**9))
_BY_DIGITS = ((18, "nanoseconds", 1), (15, "microseconds", 10**3), (12, "milliseconds", 10**6))


class TimeUnit(NamedTuple):
    """name: in words. to_ns raises ValueError for what is no time. why: a sentence where it is not the usual unit."""

    name: str
    to_ns: Callable[[str], int]
    why: str = ""


def unit_of_whole(rows: Sequence[Words], column: int = 0) -> TimeUnit:
    """The unit of a column of nanoseconds, by its first rows; another only where nanoseconds cannot be.

    That is: the numbers are dates of this century in the other unit, and as nanoseconds no sensor is so fast.
    """
    texts = [words[column].strip() for words in rows if len(words) > column]
    if any("." in text for text in texts):
        return TimeUnit("seconds", seconds_to_ns, "the times have decimals and are taken for seconds")
    times = [int(text) for text in texts if text.isdecimal() and len(text) < 20]
    if not times:
        return TimeUnit("nanoseconds", int)
    period = (times[-1] - times[0]) / max(len(times) - 1, 1)
    for name, factor in _LARGER:
        if all(_FIRST_NS <= time * factor <= _LAST_NS for time in times) and period < _SHORTEST_NS:
            why = f"times of {len(str(times[0]))} digits are taken for {name}: as nanoseconds they came too fast"
            return TimeUnit(name, partial(_scaled, factor), why)
    return TimeUnit("nanoseconds", int)


class Seconds:
    """Times that should be decimal seconds, as ns; whole numbers that are too large for seconds are of another unit.

    why: a sentence on that, "" where there were none.
    """

    def __init__(self) -> None:
        self.why = ""

    def __call__(self, text: str) -> int:
        """Raises ValueError for what is no time."""
        digits = len(text) if text.isdecimal() else 0
        for least, name, factor in _BY_DIGITS:
            if least <= digits < 20:
                self.why = self.why or f"times of {digits} digits without decimals are taken for {name}"
                return int(text) * factor
        return seconds_to_ns(text)


def _scaled(factor: int, text: str) -> int:
    return int(text) * factor
