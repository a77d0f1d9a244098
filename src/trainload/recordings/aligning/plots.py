"""The alignment report as a picture: per stream a histogram, the residual over time, and the tail (extra `plots`)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from trainload.errors import UsageError
from trainload.recordings.aligning.report_text import HOST_WARNING, headline

if TYPE_CHECKING:
    from trainload.recordings.aligning.report import Report, StreamReport

MAX_POINTS = 20_000  # more residuals than this are drawn as the largest and smallest of equal slices


def draw(report: Report) -> bytes:
    """A PNG, one row per stream. Raises UsageError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("drawing needs matplotlib: pip install 'trainload[plots]'") from error
    rows = max(len(report.streams), 1)
    figure = Figure(figsize=(13, 2.7 * rows + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 3, squeeze=False)
    for row, stream in zip(axes, report.streams):
        _histogram(row[0], stream)
        _over_time(row[1], report, stream)
        _tail(row[2], report, stream)
    title = headline(report) + (f"\n{HOST_WARNING}" if report.mixed_clocks else "")
    figure.suptitle(title, color="firebrick" if report.mixed_clocks else "black")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=100)
    return out.getvalue()


def _histogram(axis: Any, stream: StreamReport) -> None:
    edges = np.asarray(stream.edges_ns) / 1e6
    axis.stairs(stream.counts, edges, fill=True)
    axis.set(xlabel="residual, ms", ylabel="pairs", title=f"{stream.name} ({stream.unmatched:,} unmatched)")


def _over_time(axis: Any, report: Report, stream: StreamReport) -> None:
    match = report.source.matches[stream.name]
    times = report.source.times[match.matched]
    residual = match.residual_ns[match.matched] / 1e6
    since = (times - (report.start_ns or 0)) / 1e9
    if len(residual) > MAX_POINTS:
        slices = np.array_split(np.arange(len(residual)), MAX_POINTS // 2)
        keep = np.array([(part[residual[part].argmin()], part[residual[part].argmax()]) for part in slices]).ravel()
        since, residual = since[keep], residual[keep]
    axis.plot(since, residual, ".", markersize=2)
    if not stream.unwrapped and len(residual):
        line = (stream.offset_ns + stream.drift_ppm * 1e3 * since) / 1e6
        axis.plot(since, line, linewidth=1, color="firebrick")
    axis.set(xlabel="time, s", ylabel="residual, ms", title=f"drift {stream.drift_ppm:+.2f} ppm")


def _tail(axis: Any, report: Report, stream: StreamReport) -> None:
    match = report.source.matches[stream.name]
    size = np.sort(np.abs(match.residual_ns[match.matched])) / 1e6
    share = 1 - np.arange(len(size)) / max(len(size), 1)
    axis.plot(size, share, drawstyle="steps-post")
    axis.set(xlabel="absolute residual, ms", ylabel="share at least this large", title="tail")
    if len(size):
        axis.set_yscale("log")
