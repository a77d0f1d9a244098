"""Recovery: every whole window of an unfinished or damaged recording, in a new file that was read again and checked.

Walks the window records (recordings/format/records.py); never writes to the file that it reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainload.errors import FormatError
from trainload.formats.progress import Progress
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import rules, sections
from trainload.recordings.format.records import Hole, Section, WindowRecord, walk_records
from trainload.recordings.format.streams import StreamInfo, streams_from_bytes
from trainload.recordings.format.windows import window_starts
from trainload.recordings.reading.tables import read_header
from trainload.recordings.recovering.file_tables import FileTables
from trainload.recordings.recovering.recheck import EntrySum, recheck
from trainload.recordings.recovering.record_frames import frames_of_record, whole_frames
from trainload.recordings.writing.part import Part, StoredFrame, drop_tmp
from trainload.storage.claim import is_being_written
from trainload.storage.file import FileSource
from trainload.storage.target import check_target


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
    was there, so nothing after it can be missing. still_written: another process was writing the original, so that it
    has gone on since.
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
    still_written: bool = False


def recover(
    source_path: str | os.PathLike[str],
    target_path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RecoverReport:
    """Copy every whole window of `source_path` into a new recording at `target_path`, and read that again to be sure.

    Frames whose bytes fail their CRC-32 are left out and listed. progress: gets bytes of the source.
    Raises FormatError where no whole window is found, UsageError where the target exists (unless `overwrite`) or is
    the source; the target has its name only after all checks.
    """
    target = Path(target_path)
    check_target(target, overwrite=overwrite, inputs=[source_path])
    still_written = is_being_written(os.path.realpath(source_path))
    with FileSource(source_path) as source:
        rescue = _Rescue(source, progress)
        # The source may well be <target>.tmp, so the new file grows under a name that nothing else has.
        part = Part(target, rescue.window_ns, overwrite=overwrite, open_file=drop_tmp)
        try:
            rescue.copy_into(part)
            part.finalize(check=lambda work: recheck(work, rescue.copied))
        except BaseException:
            part.abort()
            raise
        return replace(rescue.report(target), still_written=still_written)


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
        self.copied = EntrySum()
        self._windows = self._partial_windows = 0
        self._payload_bytes = 0
        self._tables = FileTables.if_good(source)
        self._ended_in_order = self._tables is not None
        self._times: tuple[int, int] | None = None  # start of the first window, end of the last

    def copy_into(self, part: Part) -> None:
        """Every whole window into `part`, every frame checked; holes and damaged frames are noted."""
        part.meta = {"recovered_from": Path(self.source.path).name}
        hole: Hole | None = None
        if self._tables is not None:
            found_sections = self._tables.sections_beside_index()
            self._read_sections(found_sections, part)
            part.keep_sections([each for each in found_sections if each[0] not in sections.KNOWN_TAGS])
        for found in _walk(self.source, self._file_id):
            if isinstance(found, Hole):
                hole = found
                continue
            self._read_sections(found.sections, part)
            if hole is not None and not self._copy_hole(hole, part):
                self._note_hole(hole, found)
            hole = None
            if found.last:
                self._ended_in_order = True
                break
            self._copy_window(found, part)
            if self._progress is not None:
                self._progress(min(found.end, self.source.size), self.source.size)
        if hole is not None and not self._copy_hole(hole, part):
            self._note_hole(hole, None)
        if not self._windows and not self._ended_in_order:
            raise _nothing_to_recover(self.source)
        self._name_unknown_streams()
        part.set_streams(self._streams.values())
        part.set_drops(self._drops)
        if self._progress is not None:
            self._progress(self.source.size, self.source.size)

    def report(self, target: Path) -> RecoverReport:
        start, end = self._times or (None, None)
        losses = [replace(loss, frames={self._name(i): n for i, n in lost.items()}) for loss, lost in self._losses]
        return RecoverReport(
            self.source.path,
            os.fspath(target),
            self._windows,
            self._partial_windows,
            self.copied.count,
            self._payload_bytes,
            start,
            end,
            self._ended_in_order,
            tuple(losses),
        )

    def _read_sections(self, found: Iterable[Section], part: Part) -> None:
        for tag, body in found:
            if tag == sections.TAG_STREAMS:
                self._streams.update((s.id, s) for s in streams_from_bytes(body, path=self.source.path))
                part.set_streams(self._streams.values())
            elif tag == sections.TAG_DROPS:
                self._drops = sections.drops_from_bytes(body, path=self.source.path)
            elif tag == sections.TAG_META:
                part.meta = {**sections.meta_from_bytes(body, path=self.source.path), **part.meta}

    def _copy_window(self, record: WindowRecord, part: Part) -> None:
        frames, good = frames_of_record(self.source, record)
        self._copy(part, record.head.start_ns, record.head.end_ns, record.entries, frames, good)

    def _copy_hole(self, hole: Hole, part: Part) -> bool:
        """Take the frames in a hole by the index of a finished file; False where there is no such index."""
        if self._tables is None:
            return False
        rows, side = self._tables.inside(hole)
        times = rows["timestamp_ns"].astype(np.int64)
        bounds = [*np.searchsorted(times, window_starts(times, self.window_ns)).tolist(), len(rows)]
        for first, end in pairwise(bounds):
            window = rows[first:end]
            stored = [
                memoryview(self.source.read_at(row[hfrm.BYTE_OFFSET], row[hfrm.BYTE_SIZE])) for row in window.tolist()
            ]
            frames, good = whole_frames(window, stored, side[first:end])
            start_ns = int(times[first])
            self._copy(part, start_ns, start_ns + self.window_ns, window, frames, good)
        return True

    def _copy(
        self,
        part: Part,
        start_ns: int,
        end_ns: int,
        rows: hfrm.Index,
        frames: list[StoredFrame],
        good: NDArray[np.bool_],
    ) -> None:
        """Write `frames`, which are the `good` ones of `rows`, as one window; note the others."""
        if frames:
            part.write_window(start_ns, end_ns, frames)
            self.copied.add(rows[good], placed=False)
            self._windows += 1
            self._partial_windows += len(frames) < len(rows)
            self._payload_bytes += int(rows["byte_size"][good].sum(dtype=np.int64))
            self._times = (start_ns if self._times is None else self._times[0], end_ns)
        if len(frames) < len(rows):
            self._note_frames(rows[~good])
        for stream_id, _, number, *_ in rows.tolist():
            self._next_index[stream_id] = max(self._next_index.get(stream_id, 0), number + 1)

    def _note_hole(self, hole: Hole, after: WindowRecord | None) -> None:
        """The time of a hole lies between the windows beside it; its frames are missing from the streams' numbers."""
        firsts: dict[int, int] = {}
        for stream_id, flags, number, *_ in after.entries.tolist() if after is not None else ():
            if stream_id in self._next_index and not flags & hfrm.LATE:
                firsts[stream_id] = min(firsts.get(stream_id, number), number)
        gaps = {stream: first - self._next_index[stream] for stream, first in firsts.items()}
        missing = {stream: gap for stream, gap in gaps.items() if gap > 0}
        before_ns = self._times[1] if self._times is not None else None
        after_ns = None if after is None or after.last else after.head.start_ns
        self._losses.append((Loss(hole.offset, hole.end - hole.offset, hole.reason, before_ns, after_ns, {}), missing))

    def _note_frames(self, lost: hfrm.Index) -> None:
        ids, counts = np.unique(lost["stream_id"], return_counts=True)
        cut_off = int((lost["byte_offset"] + lost["byte_size"]).max()) > self.source.size
        reason = "the file ends inside this window" if cut_off else "a frame's CRC-32 does not match"
        loss = Loss(
            int(lost["byte_offset"].min()),
            int(lost["byte_size"].sum(dtype=np.int64)),
            reason,
            int(lost["timestamp_ns"].min()),
            int(lost["timestamp_ns"].max()),
            {},
        )
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
    try:
        header = read_header(source, unfinished_allowed=True)
        if not header.plain:
            return header.file_id, header.window_ns
    except FormatError:  # the records say all that is needed
        pass
    for found in _walk(source, None):
        if isinstance(found, WindowRecord) and not found.last:
            return found.head.file_id, max(1, found.head.end_ns - found.head.start_ns)
    raise _nothing_to_recover(source)


def _nothing_to_recover(source: FileSource) -> FormatError:
    return rules.RECOVER_NOTHING.broken(
        field="window records",
        offset=None,
        found="none in the whole file",
        expected="a file that was written with them",
        path=source.path,
    )
