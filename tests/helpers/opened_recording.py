"""A finished recording taken apart with the format's own functions and nothing of the reader."""

from __future__ import annotations

from pathlib import Path

from isal import isal_zlib

from trainload.formats.sections import sections_from_bytes
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format.payload import decode_payload
from trainload.recordings.format.records import walk_records
from trainload.recordings.format.sections import Drop, drops_from_bytes
from trainload.recordings.format.streams import StreamInfo, streams_from_bytes
from trainload.recordings.format.windows import WindowTable


class OpenedRecording:
    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        size = len(self.data)
        self.header = hfrm.HyperframeHeader.from_bytes(self.data[:512], file_size=size)
        at, end = self.header.index_offset, self.header.index_offset + self.header.index_size
        self.index = hfrm.index_from_bytes(self.data[at:end], self.header, file_size=size)
        at, end = self.header.sections_offset, self.header.sections_offset + self.header.sections_size
        self.sections = dict(sections_from_bytes(self.data[at:end], path="", offset=at))
        self.streams = {stream.name: stream for stream in streams_from_bytes(self.sections[b"STRM"])}
        self.windows = WindowTable.from_bytes(self.sections[b"WNDW"], frame_count=len(self.index), file_size=size)
        self.records = list(walk_records(lambda offset, n: self.data[offset : offset + n], size))

    @property
    def drops(self) -> list[Drop]:
        return drops_from_bytes(self.sections[b"DROP"]) if b"DROP" in self.sections else []

    def rows(self, name: str) -> list[tuple[int, ...]]:
        """The stream's index entries as tuples in the order of the fields."""
        rows: list[tuple[int, ...]] = self.index[self.index["stream_id"] == self.streams[name].id].tolist()
        return rows

    def frames(self, name: str) -> list[tuple[int, bytes]]:
        """(timestamp, data) of every frame of a stream, by time; each one's CRC-32 is checked on the way."""
        return [(time, self._data_of(self.streams[name], row)) for row in self.rows(name) for time in row[3:4]]

    def _data_of(self, stream: StreamInfo, row: tuple[int, ...]) -> bytes:
        _, flags, _, _, offset, size, crc = row
        stored = self.data[offset : offset + size]
        assert len(stored) == size and isal_zlib.crc32(stored) == crc
        return bytes(decode_payload(stored, flags, stream.shuffle))
