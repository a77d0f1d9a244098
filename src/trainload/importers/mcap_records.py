"""MCAP records read forward from any file, whole or damaged: schemas, channels, messages, attachments, metadata.

The `mcap` library stops at the first damaged byte and holds whole attachments; an import has to go on. Lengths are
checked against the file before anything is read. Source: the MCAP specification, version 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainload.errors import FormatError
from trainload.importers.source import Damage
from trainload.importers.unpack import unpack_partly
from trainload.storage.file import FileSource

MAGIC = b"\x89MCAP0\r\n"
FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX = 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
CHUNK_INDEX, ATTACHMENT, STATISTICS, METADATA, DATA_END = 0x08, 0x09, 0x0B, 0x0C, 0x0F
MAX_RECORD_BYTES = 256 << 20  # of a chunk, stored or unpacked: what an import may hold in memory
_HEAD = struct.Struct("<BQ")
_CHUNK_HEAD = struct.Struct("<QQQI")
_FOOTER_BYTES = _HEAD.size + 20 + len(MAGIC)
_RESYNC_STEP = 4 << 20
_CHUNK_SIGNS = (b"\x04\0\0\0zstd", b"\x03\0\0\0lz4")  # the compression field, at a fixed place in a chunk record
_SIGN_PLACE = _HEAD.size + _CHUNK_HEAD.size


@dataclass(slots=True)
class Summary:
    """The end of a whole file: records that repeat schemas and channels, chunk places, statistics (b"" where none)."""

    records: list[tuple[int, memoryview]] = field(default_factory=list)
    chunk_offsets: list[int] = field(default_factory=list)
    statistics: memoryview | None = None


def read_summary(file: FileSource) -> Summary:
    """What the summary section says; an empty one where there is none or it cannot be read."""
    result = Summary()
    start, end = _summary_range(file)
    place = start
    while place + _HEAD.size <= end:
        opcode, size = _HEAD.unpack(file.read_at(place, _HEAD.size))
        if size > min(end - place - _HEAD.size, MAX_RECORD_BYTES):
            return result
        body = memoryview(file.read_at(place + _HEAD.size, size))
        if opcode in (SCHEMA, CHANNEL):
            result.records.append((opcode, body))
        elif opcode == CHUNK_INDEX and size >= 24:
            result.chunk_offsets.append(struct.unpack_from("<Q", body, 16)[0])
        elif opcode == STATISTICS and size >= 42:
            result.statistics = body
        place += _HEAD.size + size
    return result


def _summary_range(file: FileSource) -> tuple[int, int]:
    if file.size < len(MAGIC) + _FOOTER_BYTES:
        return 0, 0
    tail = file.read_at(file.size - _FOOTER_BYTES, _FOOTER_BYTES)
    opcode, size, summary_start = struct.unpack_from("<BQQ", tail)
    end = file.size - _FOOTER_BYTES
    whole = tail.endswith(MAGIC) and opcode == FOOTER and size == 20 and len(MAGIC) <= summary_start <= end
    return (summary_start, end) if whole else (0, 0)


class RecordReader:
    """Iterates over (opcode, body) of a file's data section, chunks taken apart; `place` is how far it has read."""

    def __init__(self, file: FileSource, chunk_offsets: list[int], damage: Damage) -> None:
        self._file = file
        self._chunk_offsets = sorted(chunk_offsets)
        self._damage = damage
        self._lost_chunk = False
        self.place = 0

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """Schema, channel, message, attachment and metadata records in the order of the file.

        Raises FormatError for a file that does not begin as MCAP. What is damaged is counted and skipped.
        """
        file = self._file
        if file.size < len(MAGIC) or file.read_at(0, len(MAGIC)) != MAGIC:
            found = file.read_at(0, min(file.size, len(MAGIC)))
            raise FormatError(
                "an MCAP file begins with its magic",
                field="magic",
                offset=0,
                found=found,
                expected=MAGIC,
                path=file.path,
            )
        self.place = len(MAGIC)
        while self.place + _HEAD.size <= file.size:
            opcode, size = _HEAD.unpack(file.read_at(self.place, _HEAD.size))
            left = file.size - self.place - _HEAD.size
            if opcode in (FOOTER, DATA_END) and size <= 20:
                return
            if opcode == 0 or DATA_END < opcode < 0x80 or size > left:
                if opcode == CHUNK and self._next_chunk(self.place + 1) == file.size:
                    yield from self._last_chunk(left)
                    return
                self._skip(self._next_chunk(self.place + 1), "no MCAP record")
                continue
            yield from self._record(opcode, size)
            self.place += _HEAD.size + size
        self._damage.add(f"{file.path}: the file ends without its footer at byte {file.size:,}")

    def _record(self, opcode: int, size: int) -> Iterator[tuple[int, memoryview]]:
        if opcode == MESSAGE_INDEX and self._lost_chunk and size >= 6:
            self._damage.frames += struct.unpack("<I", self._file.read_at(self.place + _HEAD.size + 2, 4))[0] // 16
        elif opcode == CHUNK:
            self._lost_chunk = False
            if size > MAX_RECORD_BYTES:
                self._lose(size, f"a chunk of {size:,} bytes is larger than an import may hold")
            else:
                yield from self._chunk(memoryview(self._file.read_at(self.place + _HEAD.size, size)))
        elif opcode in (SCHEMA, CHANNEL, MESSAGE, ATTACHMENT, METADATA):
            if size > MAX_RECORD_BYTES:
                self._damage.add(f"byte {self.place:,}: a record of {size:,} bytes", frames=1, size_bytes=size)
            else:
                yield opcode, memoryview(self._file.read_at(self.place + _HEAD.size, size))

    def _chunk(self, body: memoryview) -> Iterator[tuple[int, memoryview]]:
        try:
            unpacked_size, crc, compression, stored = _chunk_parts(body)
            data, problem = unpack_partly(compression, stored, unpacked_size)
            if problem or len(data) != unpacked_size:
                raise ValueError(problem or f"{len(data):,} bytes where {unpacked_size:,} are expected")
            if crc and zlib.crc32(data) != crc:
                raise ValueError("the CRC-32 does not match")
        except (ValueError, struct.error) as error:
            self._lose(len(body), str(error))
            return
        yield from self._inner(memoryview(data))

    def _last_chunk(self, left: int) -> Iterator[tuple[int, memoryview]]:
        """What can be unpacked of a chunk that the end of the file cuts off."""
        body = memoryview(self._file.read_at(self.place + _HEAD.size, min(left, MAX_RECORD_BYTES)))
        self._damage.add(f"{self._file.path}: the file ends inside the chunk at byte {self.place:,}")
        try:
            unpacked_size, _, compression, stored = _chunk_parts(body, whole=False)
        except (ValueError, struct.error):
            self._damage.bytes += left
            return
        data, _ = unpack_partly(compression, stored, unpacked_size)
        yield from self._inner(memoryview(data))

    def _inner(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        place = 0
        while place + _HEAD.size <= len(data):
            opcode, size = _HEAD.unpack_from(data, place)
            end = place + _HEAD.size + size
            if end > len(data):
                break
            if opcode in (SCHEMA, CHANNEL, MESSAGE):
                yield opcode, data[place + _HEAD.size : end]
            place = end
        if place < len(data):
            self._damage.add(
                f"the chunk at byte {self.place:,} ends inside a record", frames=1, size_bytes=len(data) - place
            )

    def _lose(self, size: int, why: str) -> None:
        self._lost_chunk = True
        self._damage.add(f"the chunk at byte {self.place:,}: {why}", size_bytes=size)

    def _skip(self, to: int, why: str) -> None:
        self._damage.add(f"byte {self.place:,}: {why}; skipped to byte {to:,}", size_bytes=to - self.place)
        self.place = to

    def _next_chunk(self, place: int) -> int:
        """Where the next chunk begins, by the summary or by the look of a compressed chunk; the end where none does."""
        known = next((offset for offset in self._chunk_offsets if place <= offset < self._file.size), self._file.size)
        while place < known:
            size = min(_RESYNC_STEP + _SIGN_PLACE, known - place)
            block = self._file.read_at(place, size)
            for sign in _CHUNK_SIGNS:
                found = block.find(sign, _SIGN_PLACE)
                while found >= 0:
                    start = place + found - _SIGN_PLACE
                    if self._looks_like_chunk(start):
                        return start
                    found = block.find(sign, found + 1)
            place += _RESYNC_STEP
        return known

    def _looks_like_chunk(self, place: int) -> bool:
        opcode, size = _HEAD.unpack(self._file.read_at(place, _HEAD.size))
        return bool(opcode == CHUNK and _CHUNK_HEAD.size < size <= min(MAX_RECORD_BYTES, self._file.size - place))


def _chunk_parts(body: memoryview, *, whole: bool = True) -> tuple[int, int, str, memoryview]:
    _, _, unpacked_size, crc = _CHUNK_HEAD.unpack_from(body)
    if unpacked_size > MAX_RECORD_BYTES:
        raise ValueError(f"{unpacked_size:,} bytes unpacked are more than an import may hold")
    compression, place = text_at(body, _CHUNK_HEAD.size)
    size = struct.unpack_from("<Q", body, place)[0]
    place += 8
    if whole and size != len(body) - place:
        raise ValueError(f"{size:,} bytes of records where {len(body) - place:,} are stored")
    return unpacked_size, crc, compression, body[place : place + size]


def text_at(body: memoryview, place: int) -> tuple[str, int]:
    """A string with its u32 length, and where it ends. Raises ValueError where it would leave the record."""
    size = struct.unpack_from("<I", body, place)[0]
    end = place + 4 + size
    if end > len(body):
        raise ValueError(f"a string of {size:,} bytes where {len(body) - place - 4:,} are left")
    return bytes(body[place + 4 : end]).decode("utf-8", "replace"), end
