"""What a recording is, in one line or one table: span, streams, rates. From what is in memory; reads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainload.formats.html import html_table
from trainload.formats.printable import printable

if TYPE_CHECKING:
    from trainload.recordings.reading.hyperframe import HyperframeReader

_MOST_NAMED = 6  # streams in one line


def summary_line(reader: HyperframeReader) -> str:
    """Span, number of streams, and the first of them with their rates."""
    names = list(reader.streams)
    named = ", ".join(f"{printable(name)} {_rate(reader, name)}" for name in names[:_MOST_NAMED])
    more = f", and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"{_span(reader)}, {len(names):,} streams: {named}{more}"


def summary_table(reader: HyperframeReader) -> str:
    """The streams as an HTML table; names are escaped."""
    rows = []
    for name, info in reader.streams.items():
        stored = f"{int(reader.sizes(name).sum(dtype=np.int64)) / 1e6:,.1f} MB"
        rows.append((name, info.kind, info.encoding, f"{reader.count(name):,}", _rate(reader, name), stored))
    caption = f"{reader.path}: {_span(reader)}"
    return html_table(caption, ("stream", "kind", "encoding", "frames", "rate", "stored"), rows)


def _span(reader: HyperframeReader) -> str:
    return f"{(reader.end_ns - reader.start_ns) / 1e9:,.3f} s"


def _rate(reader: HyperframeReader, name: str) -> str:
    """Measured over the whole stream; of a packed one, what its samples are said to have; else the number of frames."""
    info, times = reader.streams[name], reader.timestamps(name)
    if info.packed and info.rate_hz:
        return f"{info.rate_hz:g} Hz"
    seconds = int(times[-1] - times[0]) / 1e9 if len(times) > 1 else 0.0
    if info.packed or not seconds:
        return f"({len(times):,} frames)"
    return f"{(len(times) - 1) / seconds:.4g} Hz"
