"""An interrupted import taken up again: the windows that were committed are copied as they are, the rest is imported.

A source gives the same items in the same order each time, so a frame is known by its stream and number. The unfinished
file is kept under OUT.resume until the new one is whole; a second interruption loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isal import isal_zlib

from trainload.errors import UsageError
from trainload.formats import hyperframe as hfrm
from trainload.formats import hyperframe_sections as sections
from trainload.formats.hyperframe_records import WindowRecord, walk_records
from trainload.formats.hyperframe_streams import StreamInfo, streams_from_bytes
from trainload.recording.part import StoredFrame
from trainload.recording.writer import HyperframeWriter
from trainload.storage.file import FileSource


@dataclass(slots=True)
class FrameSet:
    """Frame numbers of one stream; little memory where they are about consecutive."""

    below: int = 0  # all numbers below this are in the set
    others: set[int] = field(default_factory=set)

    def add(self, number: int) -> None:
        self.others.add(number)
        while self.below in self.others:
            self.others.remove(self.below)
            self.below += 1

    def __contains__(self, number: int) -> bool:
        return number < self.below or number in self.others


class Leftover:
    """What an interrupted import of `out` left: its whole windows, up to the first damage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.frames: dict[int, FrameSet] = {}
        self.end_ns = -1  # the end of the last window copied
        self.streams: dict[int, StreamInfo] = {}
        self.meta: dict[str, Any] = {}
        with FileSource(path) as file:
            head = file.read_at(0, min(file.size, hfrm.HEADER_BYTES))
            header = hfrm.HyperframeHeader.from_bytes(
                head, file_size=file.size, path=file.path, unfinished_allowed=True
            )
            self.window_ns = header.window_ns
            for record in _whole_records(file):
                self._read_tables(record, file.path)

    @staticmethod
    def of(out: str | os.PathLike[str]) -> Leftover | None:
        """What is left beside `out`, None where nothing is. Of two leftovers the larger counts, the other goes."""
        path = Path(out)
        unfinished, kept = path.with_name(path.name + ".tmp"), path.with_name(path.name + ".resume")
        found = sorted((file for file in (kept, unfinished) if file.exists()), key=lambda file: file.stat().st_size)
        if not found or found[-1].stat().st_size < hfrm.HEADER_BYTES:
            for file in found:
                file.unlink()
            return None
        found[-1].replace(kept)
        unfinished.unlink(missing_ok=True)
        return Leftover(kept)

    def copy_into(self, writer: HyperframeWriter) -> None:
        """Write the windows as they were stored, without unpacking, and note their frames."""
        with FileSource(self.path) as file:
            writer.part.set_streams(self.streams.values())
            for record in _whole_records(file):
                frames = _frames_of(record, file)
                if frames is None:
                    return
                writer.part.write_window(record.head.start_ns, record.head.end_ns, frames)
                self.end_ns = record.head.end_ns
                for frame in frames:
                    self.frames.setdefault(frame.stream_id, FrameSet()).add(frame.stream_index)

    def has(self, stream_id: int, number: int, timestamp_ns: int) -> bool:
        """True where that frame was copied. Packed samples come in time order, so their time decides."""
        info = self.streams.get(stream_id)
        if info is not None and info.packed:
            return timestamp_ns <= self.end_ns
        return stream_id in self.frames and number in self.frames[stream_id]

    def take_up(self, writer: HyperframeWriter, stream_id: int, name: str) -> None:
        """Go on with a stream of that id. Raises UsageError where the interrupted import knew it by another name."""
        known = self.streams.get(stream_id)
        if known is not None and known.name != name:
            raise UsageError(f"{self.path} was made from another source: its stream {known.name!r} is {name!r} here")
        if stream_id in self.frames:
            writer.continue_from(stream_id, self.frames[stream_id].below)

    def _read_tables(self, record: WindowRecord, path: str) -> None:
        for tag, body in record.sections:
            if tag == sections.TAG_STREAMS:
                self.streams.update((info.id, info) for info in streams_from_bytes(body, path=path))
            elif tag == sections.TAG_META:
                self.meta = sections.meta_from_bytes(body, path=path)


def _whole_records(file: FileSource) -> Iterator[WindowRecord]:
    for found in walk_records(file.read_at, file.size, path=file.path):
        if not isinstance(found, WindowRecord) or found.last or found.end > file.size:
            return
        yield found


def _frames_of(record: WindowRecord, file: FileSource) -> list[StoredFrame] | None:
    """The record's frames, None where the bytes of one are not what its CRC-32 says."""
    count, side = len(record.entries), dict(record.sections)
    receive = durations = [0] * count
    if sections.TAG_RECEIVE_TIMES in side:
        body = side[sections.TAG_RECEIVE_TIMES]
        receive = sections.receive_times_from_bytes(body, entries=count, path=file.path).tolist()
    if sections.TAG_DURATIONS in side:
        durations = sections.durations_from_bytes(side[sections.TAG_DURATIONS], entries=count, path=file.path).tolist()
    frames = []
    for row, received, lasted in zip(record.entries.tolist(), receive, durations):
        stream_id, flags, number, time, offset, size, crc = row
        stored = file.read_at(offset, size)
        if isal_zlib.crc32(stored) != crc:
            return None
        frames.append(StoredFrame(time, stream_id, flags, number, stored, received, lasted))
    return frames
