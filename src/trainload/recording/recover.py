"""Recovery: every whole window of an unfinished or damaged recording, in a new file that was read again and checked.

Walks the window records (formats/hyperframe_records.py); never writes to the file that it reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from isal import isal_zlib

from trainload.errors import FormatError, UsageError
from trainload.formats import hyperframe as hfrm
from trainload.formats import hyperframe_sections as sections
from trainload.formats.hyperframe_records import Hole, WindowRecord, walk_records
from trainload.formats.hyperframe_streams import StreamInfo, streams_from_bytes
from trainload.recording.part import Part, StoredFrame
from trainload.recording.recheck import recheck
from trainload.storage.atomic import sync_folder
from trainload.storage.file import FileSource

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Loss:
    """One place where something is missing from the recovered file.

    offset, size: bytes in the original. from_ns, to_ns: between these times lies what was lost (None: not known, the
    end of the recording). frames: lost frames by stream name, as far as they can be counted.
    """

    offset: int
    size: int
    reason: str
    from_ns: int | None
    to_ns: int | None
    frames: dict[str, int]


@dataclass(frozen=True, slots=True)
class RecoverReport:
    """What recovery found and wrote.

    windows: those in the new file, of which partial_windows lost some of their frames. ended_in_order: the end record
    was there, so nothing after it can be missing.
    """

    source: str
    target: str
    windows: int
    partial_windows: int
    frames: int
    payload_bytes: int
    start_ns: int | None
    end_ns: int | None
    ended_in_order: bool
    losses: tuple[Loss, ...]


def recover(
    source_path: str | os.PathLike[str],
    target_path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RecoverReport:
    """Copy every whole window of `source_path` into a new recording at `target_path`, and read that again to be sure.

    Frames whose bytes fail their CRC-32 are left out and listed. progress(done, total) gets bytes of the source.
    Raises FormatError where no whole window is found, UsageError where the target exists (unless `overwrite`) or is
    the source; the target has its name only after all checks.
    """
    target = Path(target_path)
    if target.exists() and (not overwrite or target.samefile(source_path)):
        raise UsageError(f"the file exists; give another name, or overwrite=True: {target}")
    # The source may well be <target>.tmp, so the new file grows under a name of its own.
    work = target.with_name(target.name + ".recovering")
    with FileSource(source_path) as source:
        rescue = _Rescue(source, progress)
        part = Part(work, rescue.window_ns, overwrite=True)
        try:
            rescue.copy_into(part)
            part.finalize()
            recheck(work, rescue.rows)
            work.replace(target)
        except BaseException:
            part.abort()
            work.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)
        return rescue.report(target)


class _Rescue:
    """One walk over a damaged file: whole windows go into the new part, what is missing is noted."""

    def __init__(self, source: FileSource, progress: Progress | None) -> None:
        self.source = source
        self._losses: list[tuple[Loss, dict[int, int]]] = []  # with the lost frames by stream id
        self._progress = progress
        self._file_id, self.window_ns = _id_and_window(source)
        self._streams: dict[int, StreamInfo] = {}
        self._drops: list[sections.Drop] = []
        self._next_index: dict[int, int] = {}
        self._rows: list[hfrm.Index] = []
        self._windows = self._partial_windows = 0
        self._payload_bytes = 0
        self._ended_in_order = False
        self._times: tuple[int, int] | None = None  # start of the first window, end of the last

    def copy_into(self, part: Part) -> None:
        """Every whole window into `part`, every frame checked; holes and damaged frames are noted."""
        part.meta = {"recovered_from": Path(self.source.path).name}
        hole: Hole | None = None
        for found in _walk(self.source, self._file_id):
            if isinstance(found, Hole):
                hole = found
                continue
            self._read_sections(found, part)
            if hole is not None:
                self._note_hole(hole, found)
                hole = None
            if found.last:
                self._ended_in_order = True
                break
            self._copy_window(found, part)
            if self._progress is not None:
                self._progress(min(found.end, self.source.size), self.source.size)
        if hole is not None:
            self._note_hole(hole, None)
        if not self._rows and not self._ended_in_order:
            raise _nothing_to_recover(self.source)
        self._name_unknown_streams()
        part.set_streams(self._streams.values())
        part.set_drops(self._drops)

    @property
    def rows(self) -> hfrm.Index:
        """The index entries of all frames copied, with byte_offset 0."""
        return np.concatenate([np.empty(0, hfrm.INDEX_DTYPE), *self._rows])

    def report(self, target: Path) -> RecoverReport:
        start, end = self._times or (None, None)
        losses = [replace(loss, frames={self._name(i): n for i, n in lost.items()}) for loss, lost in self._losses]
        return RecoverReport(
            self.source.path, os.fspath(target), self._windows, self._partial_windows, len(self.rows),
            self._payload_bytes, start, end, self._ended_in_order, tuple(losses),
        )  # fmt: skip

    def _read_sections(self, record: WindowRecord, part: Part) -> None:
        for tag, body in record.sections:
            if tag == sections.TAG_STREAMS:
                self._streams.update((s.id, s) for s in streams_from_bytes(body, path=self.source.path))
                part.set_streams(self._streams.values())
            elif tag == sections.TAG_DROPS:
                self._drops = sections.drops_from_bytes(body, path=self.source.path)
            elif tag == sections.TAG_META:
                part.meta = {**sections.meta_from_bytes(body, path=self.source.path), **part.meta}

    def _copy_window(self, record: WindowRecord, part: Part) -> None:
        size = min(record.head.extent_size, self.source.size - record.offset)
        data = memoryview(self.source.read_at(record.offset, size))
        frames = _frames_of(record, data, self.source.path)
        good = np.array([_is_whole(frame.stored, row) for frame, row in zip(frames, record.entries)], bool)
        kept = [frame for frame, is_good in zip(frames, good) if is_good]
        if kept:
            part.write_window(record.head.start_ns, record.head.end_ns, kept)
            rows = record.entries[good].copy()
            rows["byte_offset"] = 0
            self._rows.append(rows)
            self._windows += 1
            self._partial_windows += len(kept) < len(frames)
            self._payload_bytes += int(rows["byte_size"].sum(dtype=np.int64))
            first = record.head.start_ns if self._times is None else self._times[0]
            self._times = (first, record.head.end_ns)
        if len(kept) < len(frames):
            self._note_frames(record, record.entries[~good])
        for row in record.entries:
            stream = int(row["stream_id"])
            self._next_index[stream] = max(self._next_index.get(stream, 0), int(row["stream_index"]) + 1)

    def _note_hole(self, hole: Hole, after: WindowRecord | None) -> None:
        """The time of a hole lies between the windows beside it; its frames are missing from the streams' numbers."""
        missing: dict[int, int] = {}
        for stream_id in np.unique(after.entries["stream_id"]).tolist() if after is not None else ():
            assert after is not None
            mine = after.entries["stream_index"][after.entries["stream_id"] == stream_id]
            count = int(mine.min()) - self._next_index.get(stream_id, 0)
            if count > 0:
                missing[stream_id] = count
        before_ns = self._times[1] if self._times is not None else None
        after_ns = None if after is None or after.last else after.head.start_ns
        self._losses.append((Loss(hole.offset, hole.end - hole.offset, hole.reason, before_ns, after_ns, {}), missing))

    def _note_frames(self, record: WindowRecord, lost: hfrm.Index) -> None:
        ids, counts = np.unique(lost["stream_id"], return_counts=True)
        cut_off = record.end > self.source.size
        reason = "the file ends inside this window" if cut_off else "a frame's CRC-32 does not match"
        loss = Loss(
            int(lost["byte_offset"].min()), int(lost["byte_size"].sum(dtype=np.int64)), reason,
            int(lost["timestamp_ns"].min()), int(lost["timestamp_ns"].max()), {},
        )  # fmt: skip
        self._losses.append((loss, dict(zip(ids.tolist(), counts.tolist()))))

    def _name(self, stream_id: int) -> str:
        return self._streams[stream_id].name if stream_id in self._streams else f"stream-{stream_id}"

    def _name_unknown_streams(self) -> None:
        """Where damage took every copy of the stream table, streams keep their ids and get plain names."""
        for stream_id in self._next_index:
            if stream_id not in self._streams:
                self._streams[stream_id] = StreamInfo(stream_id, self._name(stream_id), clock="host")


def _walk(source: FileSource, file_id: bytes | None) -> Iterator[WindowRecord | Hole]:
    return walk_records(source.read_at, source.size, file_id=file_id, path=source.path)


def _id_and_window(source: FileSource) -> tuple[bytes | None, int]:
    """File id and window length, from the header where it can be read, else from the first window record."""
    head = source.read_at(0, min(hfrm.HEADER_BYTES, source.size))
    try:
        header = hfrm.HyperframeHeader.from_bytes(
            head, file_size=source.size, path=source.path, unfinished_allowed=True
        )
        if not header.plain:
            return header.file_id, header.window_ns
    except FormatError:  # the records say all that is needed
        pass
    for found in _walk(source, None):
        if isinstance(found, WindowRecord) and not found.last:
            return found.head.file_id, max(1, found.head.end_ns - found.head.start_ns)
    raise _nothing_to_recover(source)


def _nothing_to_recover(source: FileSource) -> FormatError:
    return FormatError(
        "without one whole window there is nothing to recover", field="window records", offset=None,
        found="none in the whole file", expected="a file that was written with them", path=source.path,
    )  # fmt: skip


def _frames_of(record: WindowRecord, data: memoryview, path: str) -> list[StoredFrame]:
    """The record's frames as they lie in `data`, which starts at the record; cut short where the file ends early."""
    count = len(record.entries)
    side = dict(record.sections)
    receive, duration = [0] * count, [0] * count
    if sections.TAG_RECEIVE_TIMES in side:
        body = side[sections.TAG_RECEIVE_TIMES]
        receive = sections.receive_times_from_bytes(body, entries=count, path=path).tolist()
    if sections.TAG_DURATIONS in side:
        body = side[sections.TAG_DURATIONS]
        duration = sections.durations_from_bytes(body, entries=count, path=path).tolist()
    frames = []
    for row, received, lasted in zip(record.entries.tolist(), receive, duration):
        stream_id, flags, number, time, offset, size, _ = row
        at = offset - record.offset
        frames.append(StoredFrame(time, stream_id, flags, number, data[at : at + size], received, lasted))
    return frames


def _is_whole(stored: bytes | memoryview, row: np.void) -> bool:
    return len(stored) == int(row["byte_size"]) and isal_zlib.crc32(stored) == int(row["crc"])
