"""The alignment report as text for a terminal of about 80 columns: one table, then what stands out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainload.formats.html import html_table
from trainload.formats.printable import printable

if TYPE_CHECKING:
    from trainload.recordings.aligning.report import Report, StreamReport

HOST_WARNING = "HOST AND HARDWARE CLOCKS ARE MIXED (allow_host): residuals are not the true errors."
COLUMNS = ("unmatched", "mean", "p50", "p90", "p99", "p99.9", "max", "offset", "drift", "jitter")
_SIZES = COLUMNS.index("offset")  # the columns before it make the table, the others a line of their own
_WIDTH = 80
_BARS = " ▁▂▃▄▅▆▇█"


def to_text(report: Report) -> str:
    """Several lines: what was aligned, a row of statistics per stream, histogram and worst residuals of each."""
    lines = [headline(report)]
    if report.mixed_clocks:
        lines.append(HOST_WARNING)
    rows = [["stream", *COLUMNS[:_SIZES]], *([s.name, *cells(s)[:_SIZES]] for s in report.streams)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines.append("")
    for row in rows:
        lines.append(" ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths))))
    for stream in report.streams:
        lines += ["", *_details(stream, report.start_ns or 0)]
    return "\n".join(lines)


def to_line(report: Report) -> str:
    """What was aligned, and the largest residual and the unmatched times of each stream."""
    streams = [f"{printable(s.name)} max {span(s.max_ns)}, {s.unmatched:,} unmatched" for s in report.streams]
    mixed = ["mixed clocks"] if report.mixed_clocks else []
    return "; ".join([printable(headline(report)), *mixed, *streams])


def to_table(report: Report) -> str:
    """The statistics as an HTML table, for notebooks; names are escaped."""
    warning = f" {HOST_WARNING}" if report.mixed_clocks else ""
    rows = ([stream.name, *cells(stream)] for stream in report.streams)
    return html_table(f"{headline(report)}{warning}", ("stream", *COLUMNS), rows)


def headline(report: Report) -> str:
    """What was aligned to what, in one line."""
    if report.start_ns is None or report.end_ns is None:
        return f"aligned to {report.reference}: no reference times"
    return f"aligned to {report.reference}: {report.pairs:,} times over {(report.end_ns - report.start_ns) / 1e9:.3f} s"


def cells(stream: StreamReport) -> list[str]:
    """The statistics of one stream as text, in the order of COLUMNS."""
    sizes = (stream.mean_ns, stream.p50_ns, stream.p90_ns, stream.p99_ns, stream.p99_9_ns, stream.max_ns)
    drift = "-" if math.isnan(stream.drift_ppm) else f"{stream.drift_ppm:+.2f} ppm"
    return [
        f"{stream.unmatched:,}",
        *(span(size) for size in sizes),
        span(stream.offset_ns, signed=True),
        drift,
        span(stream.jitter_ns),
    ]


def span(value_ns: float, *, signed: bool = False) -> str:
    """A time in the unit that keeps it readable: 850 ns, 12.40 us, 16.667 ms, 1.200 s; "-" for NaN."""
    if math.isnan(value_ns):
        return "-"
    sign = "+" if signed else ""
    for unit, size, digits in (("s", 1e9, 3), ("ms", 1e6, 3), ("us", 1e3, 2)):
        if abs(value_ns) >= size:
            return f"{value_ns / size:{sign}.{digits}f} {unit}"
    return f"{value_ns:{sign}.0f} ns"


def sparkline(counts: Sequence[int]) -> str:
    """A histogram as a row of block characters; a bin that is not empty is never blank."""
    top = max(counts, default=0)
    return "".join(_BARS[math.ceil(count / top * (len(_BARS) - 1))] if count else " " for count in counts)


def _details(stream: StreamReport, start_ns: int) -> list[str]:
    lines = [f"{stream.name}: {stream.method}, {stream.clock} clock, {stream.total:,} times"]
    if not stream.worst:
        return [*lines, "  nothing matched"]
    low, high = stream.edges_ns[0], stream.edges_ns[-1]
    lines.append(f"  {span(low, signed=True)} |{sparkline(stream.counts)}| {span(high, signed=True)}")
    lines.append("  " + ", ".join(f"{name} {cell}" for name, cell in zip(COLUMNS[_SIZES:], cells(stream)[_SIZES:])))
    worst = [f"{span(w.residual_ns, signed=True)} at {(w.time_ns - start_ns) / 1e9:.3f} s" for w in stream.worst]
    whole = ", ".join(worst).replace(" ", "\u00a0").replace(",\u00a0", ", ")  # no line ends inside a residual
    wrapped = textwrap.wrap(f"worst: {whole}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines += [line.replace("\u00a0", " ") for line in wrapped]
    if stream.unwrapped:
        lines.append("  its clock drifts through whole periods: offset and drift are unwrapped")
    if stream.latency is not None:
        late = stream.latency
        parts = f"mean {span(late.mean_ns)}, p50 {span(late.p50_ns)}, p99 {span(late.p99_ns)}, max {span(late.max_ns)}"
        lines += ["  received later than acquired (never used to match):", f"    {parts}"]
    return lines
