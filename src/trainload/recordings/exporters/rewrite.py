"""Frames of finished recordings into a new one, stored bytes untouched: what slice and merge share.

Times, StreamIndex, receive times, durations and flags stay. Windows are cut anew by the window rule, so every frame
lies in its own window again and none is late. A payload whose CRC-32 does not match is an error, never copied.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.formats.progress import Progress
from trainload.recordings.format.hyperframe import FRAME_CRCS, HARDWARE_TIME, KEY_FRAME, LATE, MAX_TIMESTAMP_NS
from trainload.recordings.format.records import Section
from trainload.recordings.format.sections import KNOWN_TAGS, Drop
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.format.windows import window_starts
from trainload.recordings.reading.file import HyperframeFile
from trainload.recordings.reading.frame import check_crc
from trainload.recordings.reading.frame_reads import StoredBytes, plan_stretches
from trainload.recordings.writing.index_runs import ROW_DTYPE, SAMPLE_EVERY, Rows, entries_of, times_of, whole_windows
from trainload.recordings.writing.part import Part, StoredFrame, drop_tmp
from trainload.storage.target import check_target

PIECE_FRAMES = 1 << 16
_PLAIN_FLAGS = KEY_FRAME | HARDWARE_TIME
_ROW_DTYPE = np.dtype([*ROW_DTYPE.descr, ("file", "<u4"), ("stream_id", "<u2")])


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
    inputs: Sequence[HyperframeFile] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RewriteSummary:
    """Write the selected frames to `path`, which appears when it is whole.

    inputs: files that were opened beside those of the selections; `path` may be none of all these.
    progress: gets frames. Memory: what the readers hold, one window, PIECE_FRAMES entries.
    Raises UsageError where `path` exists, FormatError for a damaged frame, OSError from the system; then nothing is
    left under `path`.
    """
    files = (*inputs, *(some.file for some in selections))
    check_target(path, overwrite=overwrite, inputs=[file.path for file in files])
    part = Part(path, window_ns, meta=meta, overwrite=overwrite, open_file=drop_tmp)
    try:
        part.set_streams(streams)
        part.set_drops(list(drops))
        part.keep_sections(unknown)
        copy = _Copy(part, selections, progress)
        for rows in whole_windows(copy.rows_by_time(), window_ns):
            copy.write(rows)
        windows = part.finalize()
    except BaseException:
        part.abort()
        raise
    return RewriteSummary(
        os.fspath(path), len(streams), part.frames, windows, copy.payload_bytes, part.size, copy.duplicates
    )


def unknown_sections(files: Sequence[HyperframeFile]) -> list[Section]:
    """The sections of kinds that trainload does not know, each (tag, body) once."""
    found: list[Section] = []
    for file in files:
        for tag in file.section_tags:
            body = None if tag in KNOWN_TAGS else file.section(tag)
            if body is not None and (tag, body) not in found:
                found.append((tag, body))
    return found


class _Copy:
    """Frames of `selections` on their way into `part`, sorted and written one stretch of time after another."""

    def __init__(self, part: Part, selections: Sequence[Selection], progress: Progress | None) -> None:
        self._part = part
        self._selections = selections
        self._progress = progress
        self._files = list({id(some.file): some.file for some in selections}.values())
        self._place = {id(file): n for n, file in enumerate(self._files)}
        self._total = sum(some.rows.stop - some.rows.start for some in selections)
        self.payload_bytes = self.duplicates = 0

    def rows_by_time(self) -> Iterator[Rows]:
        """All rows by (time, stream, number), exact duplicates of a frame once, in pieces of about PIECE_FRAMES."""
        times = [some.file.index["timestamp_ns"][some.rows] for some in self._selections]
        samples = np.sort(np.concatenate([one[::SAMPLE_EVERY] for one in times]))
        begins = [0] * len(times)
        for next_ns in [*sorted(set(samples[:: PIECE_FRAMES // SAMPLE_EVERY].tolist()))[1:], MAX_TIMESTAMP_NS + 1]:
            ends = [bisect_left(one, next_ns) for one in times]  # searchsorted would copy the whole column
            spans = zip(self._selections, begins, ends)
            yield self._sorted([self._rows(some, begin, end) for some, begin, end in spans if begin < end])
            begins = ends

    def write(self, rows: Rows) -> None:
        """Write a stretch of whole windows."""
        for start_ns, first, last in _windows(times_of(rows), self._part.window_ns):
            end_ns = min(start_ns + self._part.window_ns, MAX_TIMESTAMP_NS)
            self._part.write_window(start_ns, end_ns, self._stored_frames(rows[first:last]))
            if self._progress is not None:
                self._progress(self._part.frames + self.duplicates, self._total)
        self.payload_bytes += int(entries_of(rows)["byte_size"].sum(dtype=np.int64))

    def _rows(self, some: Selection, begin: int, end: int) -> Rows:
        """Rows begin .. end of a selection."""
        file, span = some.file, slice(some.rows.start + begin, some.rows.start + end)
        rows = np.zeros(end - begin, _ROW_DTYPE)
        rows["entry"] = file.index[span].view(_ROW_DTYPE["entry"])
        rows["file"], rows["stream_id"] = self._place[id(file)], some.stream_id
        if file.receive_times is not None:
            rows["receive_ns"] = file.receive_times[span]
        if file.durations_stored is not None:
            rows["duration_ns"] = file.durations_stored[span]
        return rows

    def _sorted(self, parts: list[Rows]) -> Rows:
        rows = np.concatenate(parts)
        entries = entries_of(rows)
        rows = rows.take(np.lexsort((entries["stream_index"], rows["stream_id"], entries["timestamp_ns"])))
        again = _repeats(rows, plain=any(file.header.plain for file in self._files))
        self.duplicates += int(np.count_nonzero(again))
        return rows[~again]

    def _stored_frames(self, rows: Rows) -> list[StoredFrame]:
        """The frames of one window, each held to its CRC-32."""
        index, place = entries_of(rows), rows["file"]
        runs = {n: StoredBytes(self._files[n], plan_stretches([index[place == n]])) for n in np.unique(place).tolist()}
        sides = zip(*(rows[name].tolist() for name in ("stream_id", "receive_ns", "duration_ns")))
        frames: list[StoredFrame] = []
        for entry, n, (stream_id, receive, duration) in zip(index.tolist(), place.tolist(), sides):
            file, stored = self._files[n], runs[n].stored(entry)
            from_id, flags, number, time_ns, *_ = entry
            if file.header.flags & FRAME_CRCS:  # whatever the reader was told: a new CRC-32 must not cover damage
                check_crc(entry, stored, file.streams[from_id].name, file.path)
            flags &= _PLAIN_FLAGS if file.header.plain else ~LATE
            frames.append(StoredFrame(time_ns, stream_id, flags, number, stored, receive, duration))
        return frames


def _repeats(rows: Rows, *, plain: bool) -> NDArray[np.bool_]:
    """True for a frame that equals the one before it in stream, time, number, size and CRC-32."""
    same = np.zeros(len(rows), bool)
    if plain:
        return same  # no CRC-32 to tell equal payloads
    entries = entries_of(rows)
    same[1:] = rows["stream_id"][1:] == rows["stream_id"][:-1]
    for name in ("timestamp_ns", "stream_index", "byte_size", "crc"):
        same[1:] &= entries[name][1:] == entries[name][:-1]
    return same


def _windows(times: NDArray[np.int64], window_ns: int) -> Iterator[tuple[int, int, int]]:
    """(start_ns, first, last) of every window over ascending times."""
    starts = window_starts(times, window_ns)
    bounds = np.append(np.searchsorted(times, starts), len(times)).tolist()
    return zip(starts.tolist(), bounds, bounds[1:])
