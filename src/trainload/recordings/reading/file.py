"""One finished HFRM file, opened: header, index, stream table at once; the other sections when they are asked for.

Payload is read here, into aligned memory, and not interpreted: that is frame.py.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import FRAME_CRCS, HARDWARE_TIME, Index
from trainload.recordings.format.sections import (
    NO_DURATION,
    TAG_DROPS,
    TAG_DURATIONS,
    TAG_META,
    TAG_RECEIVE_TIMES,
    TAG_STREAMS,
    TAG_WINDOWS,
    Drop,
    drops_from_bytes,
    durations_from_bytes,
    meta_from_bytes,
    receive_times_from_bytes,
)
from trainload.recordings.format.streams import StreamInfo, streams_from_bytes
from trainload.recordings.format.windows import WindowTable, window_table
from trainload.recordings.reading.index import read_index
from trainload.recordings.reading.tables import find_sections, hold_tables, read_header, read_section
from trainload.storage.location import open_source


class HyperframeFile:
    """The parts of one file. header. index: sorted entries. rows: of each stream id in the index.

    checks_frames: each payload's CRC-32 is compared when it is read. streams: StreamInfo by id, with a made-up entry
    ("7" for stream 7) for each stream that the stream table leaves out.
    Raises FormatError for a file that breaks docs/spec/hyperframe.md or was never finished, OSError from the system.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, check_frames: bool = True, window_ns: int | None = None
    ) -> None:
        """`window_ns` replaces the window length of a file that has no window table."""
        self.source = open_source(path)
        self.path = self.source.path
        self.read = self.source.read_aligned_at  # (offset, size): bytes in fresh memory, aligned to 64
        self._window_ns = window_ns
        try:
            self.header = read_header(self.source)
            self.checks_frames = check_frames and bool(self.header.flags & FRAME_CRCS)
            self.unpacks_frames = not self.header.plain  # the published format gives codec bits no meaning
            self.index: Index
            hold_tables(self.source, self.header)
            self.index, self.rows = read_index(self.source, self.header)
            self._sections = list(find_sections(self.source, self.header))
            self.streams = self._read_streams()
            if self.header.sections_size:
                self.source.hold(self.header.sections_offset, self.header.sections_size)
        except BaseException:
            self.source.close()
            raise

    @property
    def section_tags(self) -> list[bytes]:
        """The tags of all sections, in file order, unknown ones among them."""
        return [place.tag for place in self._sections]

    def section(self, tag: bytes) -> bytes | None:
        """The body of the first section of that tag, its CRC-32 checked; None where the file has none. FormatError."""
        place = next((place for place in self._sections if place.tag == tag), None)
        return None if place is None else read_section(self.source, place)

    def _read_streams(self) -> dict[int, StreamInfo]:
        body = self.section(TAG_STREAMS)
        streams = {} if body is None else {info.id: info for info in streams_from_bytes(body, path=self.path)}
        names = {info.name for info in streams.values()}
        for stream_id in self.rows:
            if stream_id not in streams:
                name = str(stream_id) if str(stream_id) not in names else f"stream {stream_id}"
                hardware = self.index["flags"][self.rows[stream_id].start] & HARDWARE_TIME
                streams[stream_id] = StreamInfo(stream_id, name, clock="hardware" if hardware else "host")
        return dict(sorted(streams.items()))

    @cached_property
    def windows(self) -> WindowTable:
        """The window table: as written, or by the rule from the index. Raises FormatError."""
        body = self.section(TAG_WINDOWS)
        if body is None:
            return window_table(self.index, self._window_ns or self.header.window_length_ns)
        table = WindowTable.from_bytes(body, frame_count=len(self.index), file_size=self.source.size, path=self.path)
        counts = dict(zip(table.stream_ids.tolist(), table.count.sum(axis=0, dtype=np.int64).tolist()))
        rows = {stream_id: part.stop - part.start for stream_id, part in self.rows.items()}
        if {stream_id: count for stream_id, count in counts.items() if count} != rows:
            raise rules.WINDOWS_INDEX.broken(
                field="section WNDW",
                path=self.path,
                offset=None,
                found=f"frames {counts}"[:200],
                expected=f"frames {rows}"[:200],
            )
        return table

    @property
    def window_table_stored(self) -> bool:
        """True where the file carries its window table, so that extents are tight."""
        return TAG_WINDOWS in self.section_tags

    @cached_property
    def receive_times(self) -> NDArray[np.uint64] | None:
        """Receive time per index entry, or None. Raises FormatError."""
        body = self.section(TAG_RECEIVE_TIMES)
        return None if body is None else receive_times_from_bytes(body, entries=len(self.index), path=self.path)

    @cached_property
    def durations_stored(self) -> NDArray[np.uint32] | None:
        """Duration per index entry as section DURA says, NO_DURATION where it says nothing; or None. FormatError."""
        body = self.section(TAG_DURATIONS)
        return None if body is None else durations_from_bytes(body, entries=len(self.index), path=self.path)

    @cached_property
    def durations(self) -> NDArray[np.uint32] | None:
        """Duration per index entry, the streams' own filled in; None where nothing gives any. Raises FormatError."""
        stored = self.durations_stored
        own = {stream_id: info.frame_duration_ns for stream_id, info in self.streams.items()}
        if stored is None and not any(own.values()):
            return None
        values = np.zeros(len(self.index), np.uint32) if stored is None else stored.copy()
        for stream_id, rows in self.rows.items():
            part = values[rows]
            part[part == NO_DURATION] = own[stream_id] or NO_DURATION
        return values

    @cached_property
    def meta(self) -> dict[str, Any]:
        """The free JSON object of section META, {} where there is none. Raises FormatError."""
        body = self.section(TAG_META)
        return {} if body is None else meta_from_bytes(body, path=self.path)

    @cached_property
    def drops(self) -> list[Drop]:
        """Frames that the recorder dropped before they were written. Raises FormatError."""
        body = self.section(TAG_DROPS)
        return [] if body is None else drops_from_bytes(body, path=self.path)
