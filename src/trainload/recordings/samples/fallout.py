"""Why samples fall out of a data set: counts per stream, as a table and as an error where nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainload.errors import UsageError
from trainload.formats.html import html_table

_COLUMNS = ("stream", "frames", "costs", "why")


@dataclass(slots=True)
class StreamFallout:
    """One stream. frames: how many it has, over all recordings. lost: reason to number of samples that it costs.

    A sample that several streams cost is counted at each. left_out: why the stream is no part of any sample.
    """

    name: str
    frames: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    left_out: str = ""

    def lose(self, reason: str, count: int) -> None:
        """Count samples that this stream costs."""
        if count:
            self.lost[reason] = self.lost.get(reason, 0) + int(count)

    @property
    def most(self) -> int:
        """The samples of its most costly reason."""
        return max(self.lost.values(), default=0)


@dataclass(slots=True)
class Fallout:
    """How many samples there could be, how many are kept, and what each stream costs. `print(ds.report())` shows it."""

    what: str
    possible: int
    kept: int
    streams: list[StreamFallout]
    other: dict[str, int] = field(default_factory=dict)
    """Samples lost to what is no stream's doing (tags)."""

    def _repr_html_(self) -> str:
        others = [(reason, "", f"{count:,}", "") for reason, count in self.other.items()]
        return html_table(self.headline, _COLUMNS, [*map(_row, self.streams), *others])

    def __str__(self) -> str:
        rows = [_COLUMNS, *map(_row, self.streams)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        table = [
            f"  {a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}  {d}".rstrip() for a, b, c, d in rows
        ]
        others = [f"  {reason}: {count:,}" for reason, count in self.other.items()]
        return "\n".join([self.headline, *table, *others])

    @property
    def headline(self) -> str:
        """One line: kept of possible."""
        return f"{self.kept:,} of {self.possible:,} {self.what} are samples"

    def worst(self) -> StreamFallout | None:
        """The stream that costs most, None where none costs anything."""
        used = [stream for stream in self.streams if not stream.left_out and stream.most]
        return max(used, key=lambda stream: stream.most, default=None)

    def require_some(self, ways_out: str) -> None:
        """Raise UsageError, naming the stream that costs most and its reason, where nothing is kept."""
        if self.kept:
            return
        worst = self.worst()
        if worst is None:
            why = "; ".join(f"{reason}: {count:,}" for reason, count in self.other.items()) or "there is no frame"
            raise UsageError(f"none of {self.possible:,} {self.what} is left: {why}")
        reason = max(worst.lost, key=lambda reason: worst.lost[reason])
        raise UsageError(
            f"none of {self.possible:,} {self.what} is left: {worst.name!r}, with {worst.frames:,} frames, costs "
            f"{worst.lost[reason]:,} of them ({reason}). {ways_out}"
        )


def _row(stream: StreamFallout) -> tuple[str, str, str, str]:
    if stream.left_out:
        return stream.name, f"{stream.frames:,}", "-", f"left out: {stream.left_out}"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in stream.lost.items())
    return stream.name, f"{stream.frames:,}", f"{stream.most:,}", reasons


def summed(what: str, parts: Sequence[Fallout], left_out: Sequence[StreamFallout] = ()) -> Fallout:
    """The fallout of all recordings together."""
    total = Fallout(what, sum(part.possible for part in parts), sum(part.kept for part in parts), [])
    by_name: dict[str, StreamFallout] = {}
    for part in parts:
        for reason, count in part.other.items():
            total.other[reason] = total.other.get(reason, 0) + count
        for stream in part.streams:
            mine = by_name.setdefault(stream.name, StreamFallout(stream.name))
            mine.frames += stream.frames
            for reason, count in stream.lost.items():
                mine.lose(reason, count)
    total.streams = [*by_name.values(), *left_out]
    return total
