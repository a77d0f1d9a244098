"""One HFRM file as it is written: window records and frames, then index and sections, then its name.

Knows neither codecs nor the window rule: it gets whole windows of stored frames. The law is docs/spec/hyperframe.md.
"""

from __future__ import annotations

import os
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isal import isal_zlib

from trainload.errors import UsageError
from trainload.formats.limits import MAX_SECTION_BYTES
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import sections
from trainload.recordings.format.records import (
    END_RECORD,
    MAX_RECORD_BYTES,
    RECORD_HEAD_BYTES,
    RECORD_TAIL,
    RecordHead,
    Section,
    record_sections_to_bytes,
    record_to_bytes,
)
from trainload.recordings.format.streams import StreamInfo, streams_to_bytes
from trainload.recordings.writing.index_runs import SIDE_COLUMNS, IndexRuns
from trainload.recordings.writing.index_tables import IndexTables
from trainload.recordings.writing.tail import Tail
from trainload.storage.atomic import AtomicFile, sync_folder, tmp_name
from trainload.storage.claim import being_written, is_being_written
from trainload.storage.target import check_target

MAX_FRAMES = MAX_SECTION_BYTES // 8
STREAM_TABLE_EVERY = 64  # windows: one damaged record must not take every stream's name with it
_ZEROS = [bytes(count) for count in range(hfrm.ALIGNMENT)]
_crc32 = isal_zlib.crc32
_pack_entry = hfrm.INDEX_ENTRY.pack

OpenFile = Callable[[Path], AtomicFile]


def keep_tmp(path: Path) -> AtomicFile:
    """A file whose .tmp outlives an error, so that what was written can be recovered."""
    return AtomicFile(path, keep=True)


def drop_tmp(path: Path) -> AtomicFile:
    """A file that is gone after an error, for what can be made again; it gets in nobody's way."""
    return AtomicFile(path)


class StoredFrame(NamedTuple):
    """One frame as it goes into the file: index fields, stored bytes, and what RECV and DURA say (0: nothing)."""

    timestamp_ns: int
    stream_id: int
    flags: int
    stream_index: int
    stored: bytes | memoryview
    receive_ns: int = 0
    duration_ns: int = 0


class Part:
    """A new HFRM file at `path`, written at `tmp_path` until `finalize()` gives it its name.

    After an OSError from `write_window` the file ends with its last whole window again, and `finalize()` may still
    succeed. After one from `sync` nothing does: what the disk holds since the last good sync is not known.
    Raises UsageError where `path` or its .tmp file exists, unless `overwrite`, and where another process writes it.
    parts_before: finished files of the same recording, for error messages.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        window_ns: int,
        *,
        meta: dict[str, Any] | None = None,
        overwrite: bool = False,
        open_file: OpenFile = keep_tmp,
        parts_before: int = 0,
    ) -> None:
        self.path = Path(path)
        check_target(self.path, overwrite=overwrite)
        if open_file is not drop_tmp:
            _refuse_unfinished(self.path, overwrite=overwrite)
        self.meta = meta or {}
        self.file_id = uuid.uuid4().bytes
        self.window_ns = window_ns
        self.windows = 0  # whole windows written
        self.synced_windows = self._synced_frames = 0
        self._synced_end_ns = -1
        self.frames = 0
        self.size = hfrm.HEADER_BYTES  # the next record goes here; after finalize() the size of the file
        self.start_ns = self.end_ns = -1  # of the first and the last window written
        self.failed = False  # the system refused a write or a sync
        self._failed_sync: OSError | None = None
        self._parts_before = parts_before
        self._streams: dict[int, StreamInfo] = {}
        self._streams_changed = True
        self._drops: list[sections.Drop] = []
        self._drops_changed = False
        self._kept: list[Section] = []
        self._flags = 0
        self._index = IndexRuns(self.path.parent)
        self._file = open_file(self.path)
        self.tmp_path = self._file.tmp_path
        try:
            check_target(self.path, overwrite=overwrite)  # it may have come before the lock was ours
            self._file.write_at(0, self._header(finalized=False).to_bytes())
        except BaseException:
            self.abort()
            raise

    def set_streams(self, streams: Iterable[StreamInfo]) -> None:
        """The stream table from the next window on."""
        self._streams = {stream.id: stream for stream in streams}
        self._streams_changed = True

    def add_stream(self, stream: StreamInfo) -> None:
        """One more stream in the table, from the next window on."""
        self._streams[stream.id] = stream
        self._streams_changed = True

    def set_drops(self, drops: list[sections.Drop]) -> None:
        """The counts of dropped frames up to now; stored with the next window and at the end."""
        if drops != self._drops:
            self._drops, self._drops_changed = drops, True

    def keep_sections(self, unknown: Iterable[Section]) -> None:
        """Sections of kinds that this program does not know; they go into the finished file as they are."""
        self._kept = list(unknown)

    def write_window(self, start_ns: int, end_ns: int, frames: Sequence[StoredFrame]) -> None:
        """Append one window, its record first, in one system call for up to 500 frames. Raises OSError, UsageError."""
        self._check_sync()
        self._check_room(len(frames))
        side = self._side_sections(frames)
        side_bytes = record_sections_to_bytes([*side, *self._table_sections()])
        record_size = RECORD_HEAD_BYTES + len(frames) * hfrm.INDEX_ENTRY_BYTES + len(side_bytes) + RECORD_TAIL.size
        if record_size > MAX_RECORD_BYTES:
            raise UsageError(f"a window of {len(frames):,} frames is too large; choose a shorter one: {self.path}")
        place = hfrm.align(self.size + record_size)
        rows: list[bytes] = []
        buffers: list[bytes | memoryview] = [b"", _ZEROS[place - self.size - record_size]]
        flags = 0
        for time, stream_id, frame_flags, number, stored, _, _ in frames:
            size = len(stored)
            rows.append(_pack_entry(stream_id, frame_flags, number, time, place, size, _crc32(stored)))
            pad = -size % hfrm.ALIGNMENT
            buffers += (stored, _ZEROS[pad]) if pad else (stored,)
            place += size + pad
            flags |= frame_flags
        head = RecordHead(self.file_id, self.windows, start_ns, end_ns, place - self.size, len(frames), len(side_bytes))
        entries = b"".join(rows)
        buffers[0] = record_to_bytes(head, (entries,), side_bytes)
        try:
            self._index.make_room()
            self._append(buffers, place)
        except OSError as error:
            raise self.with_safe(error) from error
        self._index.add(entries, dict(side))
        self._flags |= hfrm.COMPRESSED if flags & hfrm.CODEC_MASK else 0
        self._streams_changed = self._drops_changed = False
        if self.windows == 0:
            self.start_ns = start_ns
        self.windows += 1
        self.frames += len(frames)
        self.end_ns = max(self.end_ns, end_ns)  # a window of late frames lies before others

    def sync(self) -> int:
        """Ask the disk to hold every window written so far; how many windows that are."""
        self._check_sync()
        if self.synced_windows < self.windows:
            try:
                self._file.sync()
                if self.synced_windows == 0:  # the .tmp name itself must outlive a power cut
                    sync_folder(self.path.parent)
            except OSError as error:
                self._failed_sync = error
                raise self.with_safe(error) from error
            self._note_synced()
        return self.synced_windows

    def finalize(self, check: Callable[[Path], None] | None = None) -> int:
        """Write the end record, index and sections, sync, the header, sync, rename, sync the folder.

        The number of windows in the finished file. After an OSError the .tmp file stays, for `trainload recover`.
        check: called with the path of the finished file before it has its name; what it raises keeps the name away.
        """
        if self._failed_sync is not None:
            self.detach()
        self._check_sync()
        try:
            header, windows = self._write_index()
            self._file.sync()
            self._note_synced()
            self._file.write_at(0, header.to_bytes())
            if check is not None:
                check(self.tmp_path)
            self._file.commit()
        except OSError as error:
            self.detach()
            raise self.with_safe(error) from error
        self._index.close()
        return windows

    def abort(self) -> None:
        """Close and remove the .tmp file."""
        self._file.remove()
        self._index.close()

    def detach(self) -> None:
        """Close, and leave the .tmp file as it is."""
        self._file.abort()
        self._index.close()

    def with_safe(self, error: OSError) -> OSError:
        """The same error, with what is safe in the unfinished file added to its text."""
        self.failed = True
        reason = error.strerror or str(error)
        if self._file.published:
            text = f"{reason}; the file is whole, but its name may not outlive a power cut"
            return OSError(error.errno, text, os.fspath(self.path))
        if not self._file.keeps:
            return OSError(error.errno, f"{reason}; nothing was written under this name", os.fspath(self.path))
        text = f"{reason}; {self._safe()}: trainload recover {self.tmp_path} {self.path}"
        return OSError(error.errno, text, os.fspath(self.tmp_path))

    @property
    def sync_failed(self) -> bool:
        """True after a failed sync, which is final."""
        return self._failed_sync is not None

    def _safe(self) -> str:
        """What a power cut cannot take any more, and what it can."""
        until = f" up to time {self._synced_end_ns:,} ns" if self.synced_windows else ""
        text = f"safe are {self.synced_windows:,} whole windows of {self._synced_frames:,} frames{until}"
        if self._parts_before:
            text += f", and the {self._parts_before:,} parts before this one"
        more = self.windows - self.synced_windows
        return text + (f"; {more:,} more were written, but the disk has not confirmed them" if more else "")

    def _check_sync(self) -> None:
        """Raise OSError where a sync failed before: a later good one would say nothing about that one's bytes."""
        if self._failed_sync is not None:
            error = self._failed_sync
            text = f"a sync of this file failed ({error.strerror or error}), and it cannot be gone on with"
            raise self.with_safe(OSError(error.errno, text)) from error

    def _note_synced(self) -> None:
        self.synced_windows, self._synced_frames, self._synced_end_ns = self.windows, self.frames, self.end_ns

    def _check_room(self, frames: int) -> None:
        """Refuse what would make a section larger than readers take: RECV by its frames, WNDW by its windows."""
        if self.frames + frames > MAX_FRAMES:
            raise UsageError(f"a file holds at most {MAX_FRAMES:,} frames; split the recording: {self.path}")
        if self.windows * (32 + 8 * len(self._streams)) > MAX_SECTION_BYTES // 2:
            raise UsageError(f"{self.windows:,} windows are too many; choose longer ones, or split: {self.path}")

    def _append(self, buffers: Sequence[bytes | memoryview], end: int) -> None:
        try:
            self._file.write_vector_at(self.size, buffers)
        except OSError:
            self._cut_back()
            raise
        self.size = end

    def _cut_back(self) -> None:
        """Take a half-written window off the end. A system that refuses even this leaves it; readers skip it."""
        try:
            self._file.truncate(self.size)
        except OSError:
            return

    def _side_sections(self, frames: Sequence[StoredFrame]) -> list[Section]:
        found: list[Section] = []
        receive, duration = [frame[5] for frame in frames], [frame[6] for frame in frames]
        if any(receive):
            found.append((sections.TAG_RECEIVE_TIMES, struct.pack(f"<{len(frames)}Q", *receive)))
        if any(duration):
            found.append((sections.TAG_DURATIONS, struct.pack(f"<{len(frames)}I", *duration)))
        return found

    def _table_sections(self, *, every: bool = False) -> list[Section]:
        """Stream table and drops where a record should carry them."""
        found: list[Section] = []
        if every or self._streams_changed or self.windows % STREAM_TABLE_EVERY == 0:
            found.append((sections.TAG_STREAMS, streams_to_bytes(self._streams.values())))
        if self._drops_changed or (every and self._drops):
            found.append((sections.TAG_DROPS, sections.drops_to_bytes(self._drops)))
        if self.meta and (every or self.windows == 0):
            found.append((sections.TAG_META, sections.meta_to_bytes(self.meta)))
        return found

    def _write_index(self) -> tuple[hfrm.HyperframeHeader, int]:
        """Write all that follows the windows; the header that belongs to it, and the number of windows by the rule."""
        tables = self._table_sections(every=True)
        tail = Tail(self._file, self.size)
        with IndexTables(self.path.parent, self._index, self.window_ns) as found:
            try:
                tail.write([self._end_record(tables)])
                index_offset = tail.end
                index_crc = tail.write(found.columns["entry"].chunks())
                sections_offset = tail.end
                for tag, body in tables:
                    tail.write_section(tag, [body])
                tail.write_section(sections.TAG_WINDOWS, found.window_table())
                for tag in self._index.side:
                    tail.write_section(tag, found.columns[SIDE_COLUMNS[tag]].chunks())
                for tag, body in self._kept:
                    tail.write_section(tag, [body])
            except OSError:
                self._cut_back()
                raise
        self.size = tail.end
        return self._header(
            finalized=True,
            frame_count=self.frames,
            stream_count=len(self._streams),
            index_offset=index_offset,
            index_size=sections_offset - index_offset,
            index_crc=index_crc,
            sections_offset=sections_offset,
            sections_size=tail.end - sections_offset,
            time_window_start_ns=found.start_ns,
            time_window_end_ns=found.end_ns,
        ), found.windows

    def _end_record(self, tables: list[Section]) -> bytes:
        body = record_sections_to_bytes(tables)
        extent = hfrm.align(RECORD_HEAD_BYTES + len(body) + RECORD_TAIL.size)
        time = max(self.end_ns, 0)
        head = RecordHead(self.file_id, self.windows, time, time, extent, 0, len(body), END_RECORD)
        return record_to_bytes(head, (), body).ljust(extent, b"\0")

    def _header(self, *, finalized: bool, **fields: int) -> hfrm.HyperframeHeader:
        flags = self._flags | hfrm.LITTLE_ENDIAN | hfrm.WINDOW_RECORDS | hfrm.FRAME_CRCS
        if finalized:
            flags |= hfrm.FINALIZED
        return hfrm.HyperframeHeader(flags=flags, window_ns=self.window_ns, file_id=self.file_id, **fields)


def _refuse_unfinished(path: Path, *, overwrite: bool) -> None:
    tmp_path = tmp_name(path)
    if is_being_written(tmp_path):
        raise being_written(path)
    if not overwrite and os.path.lexists(tmp_path):
        raise UsageError(
            f"an unfinished recording is in the way; recover it (trainload recover {tmp_path} OUT) "
            f"or remove it: {tmp_path}"
        )
