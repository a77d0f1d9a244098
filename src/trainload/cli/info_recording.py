"""How `trainload info` shows a recording on a terminal: a few lines for the file, three for each stream."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

from trainload.cli.terminal import Terminal


def show_recording(facts: dict[str, Any], console: Terminal) -> None:
    """Print the facts of `HyperframeReader.facts()`."""
    lines = [
        ", ".join(facts["paths"]),
        f"  {facts['bytes']:,} bytes, {facts['frames']:,} frames, index {facts['index_bytes']:,} bytes",
        f"  {facts['duration_s']:.3f} s from {facts['start_ns']} ns, "
        f"{facts['windows']:,} windows of {facts['window_ns'] / 1e6:g} ms",
        f"  profile {facts['profile']}, sections {' '.join(facts['sections']) or '-'}",
    ]
    for stream in facts["streams"]:
        lines += _stream_lines(stream)
    for drop in facts["drops"]:
        lines.append(f"dropped {drop['frames']:,} frames of {drop['stream']}: {drop['reason']}")
    if facts["meta"]:
        lines.append(f"meta {shorten(str(facts['meta']), 300)}")
    for line in lines:
        console.print(line, soft_wrap=True)


def _stream_lines(stream: dict[str, Any]) -> list[str]:
    fill, compression, lost = stream["window_fill"], stream["compression"], stream["lost_samples"]
    samples = stream["samples_per_frame"]
    packed = "" if samples is None else f" of {samples:.1f} samples each"
    ratio = "" if compression["ratio"] is None else f", stored {compression['ratio']:.0%} of its size"
    nominal = "" if stream["nominal_rate_hz"] is None else f" (nominal {stream['nominal_rate_hz']:g})"
    timing = (
        f"{_number(stream['rate_hz'], 2)} Hz{nominal}, jitter {_number(stream['jitter_ms'], 3)} ms "
        f"(p99 {_number(stream['jitter_p99_ms'], 3)}), longest gap {_number(stream['longest_gap_ms'], 1)} ms"
    )
    if stream["packed"] and stream["samples"] is None:
        timing = stream.get("error", "samples not read: --samples gives their rate, jitter, gaps and losses")
    missing = "" if lost is None else f" frames, {lost['inside']:,} samples inside and {lost['between']:,} between them"
    shares = f"in {fill['share']:.0%} of the windows, {fill['least']} to {fill['most']} per window"
    return [
        f"{stream['name']}: stream {stream['id']}, {stream['kind']}, {stream['encoding']}, {stream['clock']} clock",
        f"  {stream['frames']:,} frames{packed}, {stream['stored_bytes']:,} bytes, codec {compression['codec']}{ratio}",
        f"  {timing}",
        f"  lost {stream['lost_frames']:,}{missing}, late {stream['late_frames']:,}, {shares}",
    ]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
