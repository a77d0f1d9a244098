"""The bytes of a log by place: of a file, or of a chunk that was unpacked. Beside them a block is held, no more."""

from __future__ import annotations

from typing import Protocol

from trainload.storage.file import FileSource

BLOCK_BYTES = 64 << 10


class LogBytes(Protocol):
    """Where records lie: a file, or an unpacked chunk."""

    size: int

    def at(self, place: int, size: int) -> memoryview:
        """Bytes inside [0, self.size)."""


class FileBytes:
    """A file's bytes; small reads come from a block that is kept."""

    def __init__(self, file: FileSource) -> None:
        self.size = file.size
        self._file = file
        self._begin = 0
        self._block = memoryview(b"")

    def at(self, place: int, size: int) -> memoryview:
        if size > BLOCK_BYTES:
            buffer = bytearray(size)
            self._file.readinto_at(place, buffer)
            return memoryview(buffer)
        begin = place - self._begin
        if begin < 0 or begin + size > len(self._block):
            self._block = memoryview(self._file.read_at(place, min(BLOCK_BYTES, self.size - place)))
            self._begin, begin = place, 0
        return self._block[begin : begin + size]


class ChunkBytes:
    """The records of an unpacked chunk."""

    def __init__(self, data: memoryview) -> None:
        self.size = len(data)
        self._data = data

    def at(self, place: int, size: int) -> memoryview:
        return self._data[place : place + size]
