"""A stretch of a recording, or some of its streams, as a recording of its own."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trainload.errors import UsageError
from trainload.formats.progress import Progress
from trainload.recordings.exporters.rewrite import RewriteSummary, Selection, rewrite, unknown_sections
from trainload.recordings.format.hyperframe import KEY_FRAME, MAX_TIMESTAMP_NS
from trainload.recordings.reading.file import HyperframeFile
from trainload.recordings.reading.hyperframe import HyperframeReader


def slice_recording(
    recording: HyperframeReader,
    path: str | os.PathLike[str],
    *,
    start_ns: int | str | None = None,
    end_ns: int | str | None = None,
    streams: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RewriteSummary:
    """Write the frames with start_ns <= time < end_ns of the named streams (all, where left out) to `path`.

    Stored bytes, StreamIndex, receive times, durations, META, drop counts and unknown sections are kept. A delta stream
    starts with the key frame that its first frame needs, a packed one with the payload that reaches into the span.
    progress: gets frames. Raises UsageError for an unknown stream, an empty span and a `path` that exists; FormatError
    for damaged frames.
    """
    names = list(recording.streams) if streams is None else list(dict.fromkeys(streams))
    for name in names:
        if name not in recording.streams:
            raise UsageError(f"no stream {name!r}; the recording has {', '.join(recording.streams)}: {recording.path}")
    first = 0 if start_ns is None else recording.time_ns(start_ns)
    last = MAX_TIMESTAMP_NS + 1 if end_ns is None else recording.time_ns(end_ns)
    if first >= last:
        raise UsageError(f"a slice must end after it starts, not from {first:,} ns to {last:,} ns")
    infos = [recording.streams[name] for name in names]
    selections = [
        Selection(file, _rows(file, info.id, first, last, packed=info.packed), info.id)
        for file in recording.files
        for info in infos
        if info.id in file.rows
    ]
    if not any(some.rows.start < some.rows.stop for some in selections):
        raise UsageError(f"no frame of {', '.join(names)} lies from {first:,} ns to {last:,} ns: {recording.path}")
    kept = {info.id for info in infos}
    return rewrite(
        path,
        [replace(info) for info in infos],
        selections,
        window_ns=recording.header.window_length_ns,
        meta=recording.meta,
        drops=[drop for drop in recording.drops if drop.stream_id in kept],
        unknown=unknown_sections(recording.files),
        inputs=recording.files,
        overwrite=overwrite,
        progress=progress,
    )


def _rows(file: HyperframeFile, stream_id: int, start_ns: int, end_ns: int, *, packed: bool) -> slice:
    """The rows of the index whose frames lie in the span, led by what they cannot do without."""
    whole = file.rows[stream_id]
    times, flags = file.index["timestamp_ns"][whole], file.index["flags"][whole]
    first, last = bisect_left(times, start_ns), bisect_left(times, end_ns)  # exact; searchsorted compares as float64
    if packed and first and int(times[first - 1]) + file.header.window_length_ns > start_ns:
        first -= 1
    keys = np.flatnonzero(flags[: first + 1] & KEY_FRAME)
    if first < last and len(keys):
        first = int(keys[-1])
    return slice(whole.start + first, whole.start + last)
