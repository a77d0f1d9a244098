"""MCAP records read forward from any file, whole or damaged: schemas, channels, messages, attachments, metadata.

The `mcap` library stops at the first damaged byte and holds whole attachments; an import has to go on. Lengths are
checked against the file before anything is read. What has a CRC-32 is given only where that matches; a message without
one only where a sound record follows it. Source: the MCAP specification, version 0.
"""

from __future__ import annotations

import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator

from trainload.recordings.format import rules
from trainload.recordings.format.log_records import attachment_of, metadata_of, text_at
from trainload.recordings.importers.logs.log_bytes import ChunkBytes, FileBytes
from trainload.recordings.importers.logs.mcap.structure import (
    ANY,
    ATTACHMENT,
    ATTACHMENT_INDEX,
    CHANNEL,
    CHUNK,
    CHUNK_HEAD,
    CHUNK_INDEX,
    CHUNKS,
    DATA_END,
    FOOTER,
    HEAD,
    HEADER,
    INNER,
    MAGIC,
    MAX_MORE_BYTES,
    MESSAGE,
    MESSAGE_INDEX,
    METADATA,
    METADATA_INDEX,
    OUTER,
    PRIVATE,
    SCHEMA,
    STATISTICS,
    SUMMARY_OFFSET,
    claimed_end,
    is_followed,
    next_sound,
    record_end,
)
from trainload.recordings.importers.logs.mcap.summary import Summary
from trainload.recordings.importers.logs.unpack import unpack_partly
from trainload.recordings.importers.source import Damage

MAX_RECORD_BYTES = 256 << 20  # of a chunk, stored or unpacked: what an import may hold in memory
_AFTER_DATA = (FOOTER, DATA_END, CHUNK_INDEX, ATTACHMENT_INDEX, STATISTICS, METADATA_INDEX, SUMMARY_OFFSET)
_IN_CHUNKS = (SCHEMA, CHANNEL, MESSAGE)
_CRC_STEP = 4 << 20


class RecordReader:
    """Iterates over (opcode, body) of a file's data section, chunks taken apart; `place` is how far it has read.

    name: what messages call the file.
    """

    def __init__(self, source: FileBytes, name: str, summary: Summary, damage: Damage) -> None:
        self._source = source
        self._name = name
        self._summary = summary
        self._damage = damage
        self._chunked: bool | None = True if summary.chunks else None
        self._lost_chunk = False
        self._unchecked = False
        self._previous = 0  # opcode
        self.place = 0

    def records(self) -> Iterator[tuple[int, memoryview]]:
        """Schema, channel, message, attachment and metadata records in the order of the file.

        Raises FormatError for a file that neither begins nor ends as MCAP. What is damaged is counted and skipped.
        """
        before = self._damage.bytes
        self._check_magic()
        self.place = len(MAGIC)
        while self.place < self._summary.data_end:
            end = claimed_end(self._source, self.place)
            opcode = self._source.at(self.place, 1)[0]
            if end > self._source.size and opcode == CHUNK and not self._summary.ended:
                yield from self._last_chunk()
                return
            if not self._holds(opcode, end):
                self._skip()
                continue
            if opcode in _AFTER_DATA:
                break
            yield from self._record(opcode, end)
            self.place, self._previous = end, opcode
        else:
            if not self._summary.ended:
                self._damage.add(f"{self._name}: the file ends without its footer at byte {self._source.size:,}")
        if self._unchecked and self._summary.data_crc and self._damage.bytes == before:
            self._check_data()

    def _check_magic(self) -> None:
        begin = bytes(self._source.at(0, min(self._source.size, len(MAGIC))))
        if begin == MAGIC:
            return
        if not self._summary.ended:
            raise rules.MCAP_MAGIC.broken(
                field="magic",
                offset=0,
                found=begin,
                expected=MAGIC,
                path=self._name,
            )
        self._damage.add(f"{self._name}: the file does not begin as MCAP, though it ends so", size_bytes=len(MAGIC))

    def _holds(self, opcode: int, end: int) -> bool:
        """True where the record at `place` lies whole in the file and nothing speaks against it."""
        if not 0 < end <= self._source.size or (opcode == HEADER) != (self.place == len(MAGIC)):
            return False
        if opcode == MESSAGE or opcode >= PRIVATE:
            return is_followed(self._source, end, cut=not self._summary.ended) and self._is_expected(opcode, end)
        if claimed_end(self._source, self.place, more=0):
            return True
        following = self._source.at(end, 1)[0] if end < self._source.size else FOOTER
        if opcode in _AFTER_DATA and following not in (SCHEMA, CHANNEL, *_AFTER_DATA):
            return False  # a chunk whose opcode is damaged
        return is_followed(self._source, end, cut=not self._summary.ended)  # else its length is wrong

    def _is_expected(self, opcode: int, end: int) -> bool:
        """False for a single message among chunks: another record, of whose opcode a byte is damaged."""
        following = self._source.at(end, 1)[0] if end < self._source.size else MESSAGE
        return opcode != MESSAGE or not self._chunked or self._previous in _IN_CHUNKS or following in _IN_CHUNKS

    def _record(self, opcode: int, end: int) -> Iterator[tuple[int, memoryview]]:
        start, size = self.place + HEAD.size, end - self.place - HEAD.size
        if opcode == MESSAGE_INDEX and self._lost_chunk:
            self._damage.frames += struct.unpack("<I", self._source.at(start + 2, 4))[0] // 16
        elif opcode == CHUNK:
            self._lost_chunk, self._chunked = False, True
            if size > MAX_RECORD_BYTES:
                self._lose(size, f"a chunk of {size:,} bytes is larger than an import may hold")
            else:
                yield from self._chunk(self._source.at(start, size))
        elif opcode >= PRIVATE:
            self._damage.add(f"byte {self.place:,}: a private record (opcode {opcode:#x}) is not kept", size_bytes=size)
        elif opcode in (*_IN_CHUNKS, ATTACHMENT, METADATA):
            if opcode == MESSAGE and self._chunked is None:
                self._chunked = False
            if size > MAX_RECORD_BYTES:
                self._damage.add(f"byte {self.place:,}: a record of {size:,} bytes", frames=1, size_bytes=size)
                return
            body = self._source.at(start, size)
            self._unchecked = self._unchecked or opcode == MESSAGE
            problem = _kept_problem(opcode, body) if opcode in (ATTACHMENT, METADATA) else ""
            if problem:
                what = "an attachment" if opcode == ATTACHMENT else "a metadata record"
                self._damage.add(f"byte {self.place:,}: {what} {problem}", frames=1, size_bytes=size)
                return
            yield opcode, body

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
        self._unchecked = self._unchecked or not crc
        yield from self._checked(data) if crc else self._unchecked_records(data, cut=False)

    def _last_chunk(self) -> Iterator[tuple[int, memoryview]]:
        """What can be unpacked of a chunk that the end of the file cuts off."""
        left = self._source.size - self.place - HEAD.size
        body = self._source.at(self.place + HEAD.size, min(left, MAX_RECORD_BYTES))
        self._damage.add(f"{self._name}: the file ends inside the chunk at byte {self.place:,}")
        try:
            unpacked_size, _, compression, stored = _chunk_parts(body, whole=False)
        except (ValueError, struct.error):
            self._damage.bytes += left
            return
        data, _ = unpack_partly(compression, stored, unpacked_size)
        yield from self._unchecked_records(data, cut=True)

    def _checked(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """The records of a chunk whose CRC-32 matches."""
        place = 0
        while place + HEAD.size <= len(data):
            opcode, size = HEAD.unpack_from(data, place)
            end = place + HEAD.size + size
            if end > len(data):
                break
            if opcode in _IN_CHUNKS:
                yield opcode, data[place + HEAD.size : end]
            place = end
        if place < len(data):
            self._lose_inside(place, len(data))

    def _unchecked_records(self, data: memoryview, *, cut: bool) -> Iterator[tuple[int, memoryview]]:
        """The records of a chunk without CRC-32, or of its first part (`cut`), as far as their structure is sound."""
        source, place = ChunkBytes(data), 0
        while place < source.size:
            end = record_end(source, place)
            if end and source.at(place, 1)[0] in _IN_CHUNKS and is_followed(source, end, cut=cut):
                yield source.at(place, 1)[0], source.at(place + HEAD.size, end - place - HEAD.size)
                place = end
            else:
                start, place = place, next_sound(source, place + 1, INNER)
                self._lose_inside(start, place)

    def _lose_inside(self, start: int, end: int) -> None:
        where = f"the chunk at byte {self.place:,}: no sound record from its byte {start:,} to {end:,}"
        self._damage.add(where, frames=1, size_bytes=end - start)

    def _lose(self, size: int, why: str) -> None:
        self._lost_chunk = True
        self._damage.add(f"the chunk at byte {self.place:,}: {why}", size_bytes=size)

    def _skip(self) -> None:
        """Go on with the next sound record, a known one where the summary knows them."""
        start, self.place = self.place, self._next(self.place + 1)
        self._lost_chunk = self._lost_chunk or self._was_chunk(start)
        why = "no sound record" if self.place < self._source.size else "no sound record up to the end"
        self._damage.add(
            f"{self._name}: byte {start:,}: {why}; skipped to byte {self.place:,}", size_bytes=self.place - start
        )

    def _was_chunk(self, place: int) -> bool:
        """True where the damaged record at `place` was a chunk for certain: the index behind it counts its messages."""
        if self._summary.chunks:
            index = bisect_left(self._summary.chunks, place)
            return index < len(self._summary.chunks) and self._summary.chunks[index] == place
        if place + HEAD.size > self._source.size:
            return False
        opcode, size = HEAD.unpack(self._source.at(place, HEAD.size))
        is_index = claimed_end(self._source, place, presumed=MESSAGE_INDEX) != 0
        return bool(opcode == CHUNK and size < self._source.size and not is_index)

    def _next(self, place: int) -> int:
        summary = self._summary
        if summary.chunks:
            index = bisect_left(summary.places, place)
            return summary.places[index] if index < len(summary.places) else max(summary.data_end, place)
        if self._chunked is None:
            self._chunked = next_sound(self._source, place, CHUNKS) < self._source.size
        begins: re.Pattern[bytes] = OUTER if self._chunked else ANY
        return next_sound(self._source, place, begins)

    def _check_data(self) -> None:
        """Of records that no other CRC-32 protects: are all of them together what the data section's says?"""
        crc, place, end = 0, 0, self._summary.data_end - HEAD.size - 4
        while place < end:
            block = self._source.at(place, min(_CRC_STEP, end - place))
            crc, place = zlib.crc32(block, crc), place + len(block)
        if crc != self._summary.data_crc:
            self._damage.add(
                f"{self._name}: the data section is not what its CRC-32 says: some message is not as it was"
            )


def _chunk_parts(body: memoryview, *, whole: bool = True) -> tuple[int, int, str, memoryview]:
    _, _, unpacked_size, crc = CHUNK_HEAD.unpack_from(body)
    if unpacked_size > MAX_RECORD_BYTES:
        raise ValueError(f"{unpacked_size:,} bytes unpacked are more than an import may hold")
    compression, place = text_at(body, CHUNK_HEAD.size)
    size = struct.unpack_from("<Q", body, place)[0]
    place += 8
    if whole and not 0 <= len(body) - place - size <= MAX_MORE_BYTES:
        raise ValueError(f"{size:,} bytes of records where {len(body) - place:,} are stored")
    return unpacked_size, crc, compression, body[place : place + size]


def _kept_problem(opcode: int, body: memoryview) -> str:
    """What is wrong with an attachment or metadata record, "" where nothing is."""
    try:
        if opcode == METADATA:
            metadata_of(body)
            return ""
        found = attachment_of(body)
    except (ValueError, struct.error) as error:
        return f"is broken: {error}"
    if found.crc:
        return "" if zlib.crc32(body[: found.crc_place]) == found.crc else "is not what its CRC-32 says"
    grown = found.crc_place + 4 < len(body)  # a chunk whose opcode is damaged may look like one
    return "has no text for its name" if grown and "\ufffd" in found.name + found.media_type else ""
