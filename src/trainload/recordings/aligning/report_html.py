"""The alignment report as one HTML file: tables and the picture inside it, no other file, no script, no network."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from trainload.recordings.aligning.plots import draw
from trainload.recordings.aligning.report_text import COLUMNS, HOST_WARNING, cells, headline, span

if TYPE_CHECKING:
    from trainload.recordings.aligning.report import Report, StreamReport

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 82rem; padding: 0 1rem; color: #1b1b1b }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .7rem; border-bottom: 1px solid #ddd }
td { text-align: right; font-variant-numeric: tabular-nums } th { text-align: right } .name { text-align: left }
.warning { background: #fde8e8; border-left: 4px solid #b22222; padding: .6rem 1rem } img { max-width: 100% }
"""


def to_html(report: Report) -> str:
    """A whole page. Raises UsageError without matplotlib (extra `plots`)."""
    picture = base64.b64encode(draw(report)).decode()
    warning = f'<p class="warning">{escape(HOST_WARNING)}</p>' if report.mixed_clocks else ""
    rows = "".join(_row([stream.name, *cells(stream)], "td") for stream in report.streams)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(headline(report))}</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{escape(headline(report))}</h1>{warning}\n"
        f"<table>{_row(['stream', *COLUMNS], 'th')}{rows}</table>\n"
        f'<img alt="histogram, residual over time and tail per stream" src="data:image/png;base64,{picture}">\n'
        + "".join(_details(stream, report.start_ns or 0) for stream in report.streams)
        + "</body></html>\n"
    )


def _row(texts: list[str], tag: str) -> str:
    first, *rest = (escape(text) for text in texts)
    return f'<tr><{tag} class="name">{first}</{tag}>' + "".join(f"<{tag}>{text}</{tag}>" for text in rest) + "</tr>\n"


def _details(stream: StreamReport, start_ns: int) -> str:
    about = f"{stream.method}, {stream.clock} clock, {stream.total:,} times"
    rows = "".join(
        _row(
            [f"{(worst.time_ns - start_ns) / 1e9:.6f} s", str(worst.time_ns), span(worst.residual_ns, signed=True)],
            "td",
        )
        for worst in stream.worst
    )
    table = f"<table>{_row(['since the start', 'time, ns', 'residual'], 'th')}{rows}</table>" if rows else ""
    late = stream.latency
    latency = (
        ""
        if late is None
        else (
            f"<p>Received later than acquired by p50 {span(late.p50_ns)}, p99 {span(late.p99_ns)}, "
            f"max {span(late.max_ns)} (never used to match).</p>"
        )
    )
    return f"<h2>{escape(stream.name)}</h2><p>{escape(about)}. The worst:</p>{table}{latency}\n"
