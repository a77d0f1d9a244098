"""Frames of finished recordings into a new one, stored bytes untouched: what slice and merge share.

Times, StreamIndex, receive times, durations and flags stay. Windows are cut anew by the window rule, so every frame
lies in its own window again and none is late. A payload whose CRC-32 does not match is an error, never copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.formats.hyperframe import FRAME_CRCS, HARDWARE_TIME, KEY_FRAME, LATE, MAX_TIMESTAMP_NS, Index
from trainload.formats.hyperframe_sections import KNOWN_TAGS, Drop
from trainload.formats.hyperframe_streams import StreamInfo
from trainload.formats.hyperframe_windows import window_starts
from trainload.reading.frame import check_crc
from trainload.reading.hyperframe_file import HyperframeFile
from trainload.reading.runs import Runs, plan_stretches
from trainload.recording.part import Part, StoredFrame

Progress = Callable[[int, int], None]
Section = tuple[bytes, bytes]

_PLAIN_FLAGS = KEY_FRAME | HARDWARE_TIME


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of one stream in one file that go into the new recording as stream `stream_id`."""

    file: HyperframeFile
    rows: slice
    stream_id: int


@dataclass(frozen=True, slots=True)
class RewriteSummary:
    """What was written: path, frames, windows, bytes of payload and of the file, frames left out as duplicates."""

    path: str
    streams: int
    frames: int
    windows: int
    payload_bytes: int
    file_bytes: int
    duplicates: int

    def __str__(self) -> str:
        left_out = f", {self.duplicates:,} duplicates left out" if self.duplicates else ""
        return (
            f"{self.path}: {self.frames:,} frames of {self.streams} streams in {self.windows:,} windows, "
            f"{self.file_bytes:,} bytes{left_out}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return asdict(self)


def rewrite(
    path: str | os.PathLike[str],
    streams: Sequence[StreamInfo],
    selections: Sequence[Selection],
    *,
    window_ns: int,
    meta: dict[str, Any],
    drops: Sequence[Drop] = (),
    unknown: Sequence[Section] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RewriteSummary:
    """Write the selected frames to `path`, which appears when it is whole.

    progress: called with (frames done, frames in all). Memory: one window. Raises UsageError where `path` exists,
    FormatError for a damaged frame, OSError from the system; then nothing is left under `path`.
    """
    table, duplicates = _sorted_frames(selections)
    part = Part(path, window_ns, meta=meta, overwrite=overwrite)
    try:
        part.set_streams(streams)
        part.set_drops(list(drops))
        part.keep_sections(unknown)
        for start_ns, first, last in _windows(table.times, window_ns):
            end_ns = min(start_ns + window_ns, MAX_TIMESTAMP_NS)
            part.write_window(start_ns, end_ns, _stored_frames(table, first, last))
            if progress is not None:
                progress(last, len(table.times))
        windows = part.finalize()
    except BaseException:
        part.abort()
        raise
    payload = int(table.entries["byte_size"].sum(dtype=np.int64))
    return RewriteSummary(os.fspath(path), len(streams), len(table.times), windows, payload, part.size, duplicates)


def unknown_sections(files: Sequence[HyperframeFile]) -> list[Section]:
    """The sections of kinds that trainload does not know, each (tag, body) once."""
    found: list[Section] = []
    for file in files:
        for tag in file.section_tags:
            body = None if tag in KNOWN_TAGS else file.section(tag)
            if body is not None and (tag, body) not in found:
                found.append((tag, body))
    return found


@dataclass(frozen=True, slots=True)
class _Frames:
    """The chosen frames in time order, as columns."""

    files: Sequence[HyperframeFile]
    entries: Index
    times: NDArray[np.int64]
    file_of: NDArray[np.int32]
    stream_ids: NDArray[np.uint16]
    receive: NDArray[np.uint64]
    duration: NDArray[np.uint32]


def _sorted_frames(selections: Sequence[Selection]) -> tuple[_Frames, int]:
    """All selections together by (time, stream), exact duplicates of a frame once; how many were left out."""
    files = list({id(some.file): some.file for some in selections}.values())
    places = {id(file): n for n, file in enumerate(files)}
    columns: list[tuple[Any, ...]] = []
    for some in selections:
        entries = some.file.index[some.rows]
        count = len(entries)
        receive, duration = some.file.receive_times, some.file.durations_stored
        columns.append((
            entries, np.full(count, places[id(some.file)], np.int32), np.full(count, some.stream_id, np.uint16),
            np.zeros(count, np.uint64) if receive is None else receive[some.rows],
            np.zeros(count, np.uint32) if duration is None else duration[some.rows],
        ))  # fmt: skip
    entries, file_of, ids, receives, durations = (np.concatenate(column) for column in zip(*columns))
    times = entries["timestamp_ns"].astype(np.int64)
    order = np.lexsort((entries["stream_index"], ids, times))
    keep = order[~_repeats(entries[order], ids[order], [file.header.plain for file in files])]
    frames = _Frames(files, entries[keep], times[keep], file_of[keep], ids[keep], receives[keep], durations[keep])
    return frames, len(order) - len(keep)


def _repeats(entries: Index, ids: NDArray[np.uint16], plain: Sequence[bool]) -> NDArray[np.bool_]:
    """True for a frame that equals the one before it in stream, time, number, size and CRC-32."""
    same = np.zeros(len(entries), bool)
    if any(plain):
        return same  # no CRC-32 to tell equal payloads
    same[1:] = ids[1:] == ids[:-1]
    for name in ("timestamp_ns", "stream_index", "byte_size", "crc"):
        same[1:] &= entries[name][1:] == entries[name][:-1]
    return same


def _windows(times: NDArray[np.int64], window_ns: int) -> Iterator[tuple[int, int, int]]:
    """(start_ns, first, last) of every window over ascending times."""
    starts = window_starts(times, window_ns)
    bounds = np.append(np.searchsorted(times, starts), len(times)).tolist()
    return zip(starts.tolist(), bounds, bounds[1:])


def _stored_frames(table: _Frames, first: int, last: int) -> list[StoredFrame]:
    entries = table.entries[first:last].tolist()
    file_of = table.file_of[first:last].tolist()
    runs = {
        n: Runs(table.files[n], plan_stretches([e for e, m in zip(entries, file_of) if m == n])) for n in set(file_of)
    }
    sides = zip(
        table.stream_ids[first:last].tolist(), table.receive[first:last].tolist(), table.duration[first:last].tolist()
    )
    frames: list[StoredFrame] = []
    for entry, n, (stream_id, receive, duration) in zip(entries, file_of, sides):
        file, stored = table.files[n], runs[n].stored(entry)
        if file.header.flags & FRAME_CRCS:  # whatever the reader was told: a new CRC-32 must not cover damage
            check_crc(entry, stored, file.streams[entry[0]].name, file.path)
        flags = entry[1] & (_PLAIN_FLAGS if file.header.plain else ~LATE)
        frames.append(StoredFrame(entry[3], stream_id, flags, entry[2], stored, receive, duration))
    return frames
