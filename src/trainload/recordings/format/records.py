"""Window records, bytes <-> values, and the walk over them that recovery and a follower share.

A record lies just before the frames of its window and says all that is needed to index them: see
docs/spec/hyperframe.md, section 6. The walk trusts nothing: a record counts only where its CRC-32, its commit word, its
file id and the places of its frames agree.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from isal import isal_zlib

from trainload.errors import FormatError
from trainload.formats.fields import Checker
from trainload.formats.sections import sections_from_bytes, sections_to_bytes
from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import (
    ALIGNMENT,
    HEADER_BYTES,
    INDEX_DTYPE,
    INDEX_ENTRY_BYTES,
    MAX_TIMESTAMP_NS,
    Index,
    align,
    check_entries,
)

SYNC_WORD = bytes.fromhex("48 46 57 e2 96 b6 0d 0a 1a 0a 9f c3 5d 71 e8 04")
COMMIT_WORD = b"HFwc"
END_RECORD = 1 << 0  # record flags: no window follows, the index is next
MAX_RECORD_BYTES = 1 << 28
MAX_EXTENT_BYTES = 1 << 62  # so that places in a file fit into int64
RECORD_HEAD = struct.Struct("<16s16sQQQQIIII")
RECORD_TAIL = struct.Struct("<I4s")
RECORD_HEAD_BYTES = RECORD_HEAD.size  # 80
_SCAN_BYTES = 4 << 20
_CRC = struct.Struct("<I")

Section = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The first 80 bytes of a window record, fields in file order (the sync word comes first, its CRC-32 last).

    | offset | type | field | | offset | type | field |
    |---|---|---|---|---|---|---|
    | 0 | u8[16] | sync word | | 56 | u64 | extent_size |
    | 16 | u8[16] | file_id | | 64 | u32 | entry_count |
    | 32 | u64 | window_number | | 68 | u32 | sections_size |
    | 40 | u64 | start_ns | | 72 | u32 | flags |
    | 48 | u64 | end_ns | | 76 | u32 | CRC-32 of bytes 0-75 |

    extent_size: bytes from the record's first byte to where the next record starts, a multiple of 64.
    """

    file_id: bytes
    window_number: int
    start_ns: int
    end_ns: int
    extent_size: int
    entry_count: int
    sections_size: int
    flags: int = 0

    @property
    def record_size(self) -> int:
        """Bytes of the record itself: head, entries, sections, tail."""
        return RECORD_HEAD_BYTES + self.entry_count * INDEX_ENTRY_BYTES + self.sections_size + RECORD_TAIL.size

    def to_bytes(self) -> bytes:
        head = RECORD_HEAD.pack(
            SYNC_WORD,
            self.file_id,
            self.window_number,
            self.start_ns,
            self.end_ns,
            self.extent_size,
            self.entry_count,
            self.sections_size,
            self.flags,
            0,
        )[:-4]
        return head + _CRC.pack(isal_zlib.crc32(head))

    @staticmethod
    def from_bytes(data: bytes, *, offset: int, room: int, path: str = "") -> RecordHead:
        """Parse the 80 bytes at `offset` of a file that holds `room` bytes from there on. Raises FormatError."""
        check = Checker(path, offset)
        check.require(
            len(data) >= RECORD_HEAD_BYTES,
            rules.RECORD_HEAD,
            field="record head",
            offset=0,
            found=f"{len(data)} bytes",
            expected=f"{RECORD_HEAD_BYTES} bytes",
        )
        sync, file_id, number, start, end, extent, count, sections, flags, crc = RECORD_HEAD.unpack_from(data)
        check.require(
            sync == SYNC_WORD,
            rules.RECORD_SYNC,
            field="sync word",
            offset=0,
            found=sync.hex(),
            expected=SYNC_WORD.hex(),
        )
        found = isal_zlib.crc32(data[: RECORD_HEAD_BYTES - 4])
        check.require(
            found == crc,
            rules.RECORD_HEAD_CRC,
            field="head crc",
            offset=RECORD_HEAD_BYTES - 4,
            found=f"{found:#010x}",
            expected=f"{crc:#010x}",
        )
        head = RecordHead(file_id, number, start, end, extent, count, sections, flags)
        check.limit(head.record_size, MAX_RECORD_BYTES, field="record size", offset=64)
        check.limit(extent, MAX_EXTENT_BYTES, field="extent_size", offset=56)
        good = extent % ALIGNMENT == 0 and head.record_size <= extent and head.record_size <= room
        check.require(
            good,
            rules.RECORD_EXTENT,
            field="extent_size",
            offset=56,
            found=f"{extent:,}",
            expected=f"a multiple of {ALIGNMENT} from {head.record_size:,}, with {room:,} bytes left in the file",
        )
        check.require(
            start <= MAX_TIMESTAMP_NS,
            rules.RECORD_START,
            field="start_ns",
            offset=40,
            found=start,
            expected=f"at most {MAX_TIMESTAMP_NS}",
        )
        return head


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """One whole window record: where it lies, its head, its index entries in the order of the frames, its sections.

    `entries` are rows of INDEX_DTYPE with absolute offsets, all inside the extent.
    """

    offset: int
    head: RecordHead
    entries: Index
    sections: tuple[Section, ...] = ()

    @property
    def end(self) -> int:
        """The offset where the next record starts."""
        return self.offset + self.head.extent_size

    @property
    def last(self) -> bool:
        """True for the end record: no window follows."""
        return bool(self.head.flags & END_RECORD)

    @staticmethod
    def from_bytes(data: bytes, *, offset: int, room: int, path: str = "") -> WindowRecord:
        """Parse the record that starts at `offset` of the file; `data` begins there and holds the whole record.

        The frames may be cut off by the end of the file (a crash); whoever reads them checks their length and CRC-32.
        Raises FormatError.
        """
        head = RecordHead.from_bytes(data, offset=offset, room=room, path=path)
        check = Checker(path, offset)
        size = head.record_size
        check.require(
            len(data) >= size,
            rules.RECORD_WHOLE,
            field="record",
            offset=0,
            found=f"{len(data):,} bytes",
            expected=f"{size:,} bytes",
        )
        crc, commit = RECORD_TAIL.unpack_from(data, size - RECORD_TAIL.size)
        check.require(
            commit == COMMIT_WORD,
            rules.RECORD_COMMIT,
            field="commit word",
            offset=size - 4,
            found=commit,
            expected=COMMIT_WORD,
        )
        found = isal_zlib.crc32(memoryview(data)[: size - RECORD_TAIL.size])
        check.require(
            found == crc,
            rules.RECORD_CRC,
            field="record crc",
            offset=size - 8,
            found=f"{found:#010x}",
            expected=f"{crc:#010x}",
        )
        entries: Index = np.frombuffer(data, INDEX_DTYPE, head.entry_count, RECORD_HEAD_BYTES)
        check_entries(
            entries,
            Checker(path, offset + RECORD_HEAD_BYTES),
            start=offset + align(size),
            end=offset + head.extent_size,
            profile=True,
        )
        at = RECORD_HEAD_BYTES + entries.nbytes
        sections = sections_from_bytes(data[at : at + head.sections_size], path=path, offset=offset + at)
        return WindowRecord(offset, head, entries, tuple(sections))


def record_to_bytes(head: RecordHead, entry_rows: Sequence[bytes], sections: bytes) -> bytes:
    """A whole record: `entry_rows` are packed INDEX_ENTRYs, `sections` a section list of head.sections_size bytes."""
    body = b"".join((head.to_bytes(), *entry_rows, sections))
    return body + RECORD_TAIL.pack(isal_zlib.crc32(body), COMMIT_WORD)


def record_sections_to_bytes(sections: Sequence[Section]) -> bytes:
    """The section list that a record carries; most records carry none, or receive times and durations."""
    return sections_to_bytes(sections) if sections else b""


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [offset, end) where the walk found no window record, and the reason that the first one there gave."""

    offset: int
    end: int
    reason: str


ReadAt = Callable[[int, int], bytes]


def walk_records(
    read_at: ReadAt, size: int, *, file_id: bytes | None = None, start: int = HEADER_BYTES, path: str = ""
) -> Iterator[WindowRecord | Hole]:
    """Every window record from `start` to the end record or to `size`, in file order, with the holes between them.

    read_at(offset, size) gives exactly so many bytes. file_id: take only records of that recording; None takes the id
    of the first record found. After damage the walk goes on at the next sync word. A hole that reaches `size` is what a
    crash left half written, or the index of a file whose end record is lost.
    """
    at = start
    while at < size:
        found = _record_at(read_at, at, size, path)
        if isinstance(found, WindowRecord) and file_id in (None, found.head.file_id):
            file_id = found.head.file_id
            yield found
            if found.last:
                return
            at = found.end
        else:
            reason = found.rule if isinstance(found, FormatError) else "a window record of another recording"
            end = _next_record(read_at, at + ALIGNMENT, size, file_id, path)
            yield Hole(at, end, reason)
            at = end


def _record_at(read_at: ReadAt, offset: int, size: int, path: str) -> WindowRecord | FormatError:
    room = size - offset
    try:
        head = RecordHead.from_bytes(read_at(offset, min(room, RECORD_HEAD_BYTES)), offset=offset, room=room, path=path)
        return WindowRecord.from_bytes(read_at(offset, head.record_size), offset=offset, room=room, path=path)
    except FormatError as error:
        return error


def _next_record(read_at: ReadAt, start: int, size: int, file_id: bytes | None, path: str) -> int:
    """The offset of the next good record from `start`, or `size`."""
    for at in _sync_words(read_at, align(start), size):
        found = _record_at(read_at, at, size, path)
        if isinstance(found, WindowRecord) and file_id in (None, found.head.file_id):
            return at
    return size


def _sync_words(read_at: ReadAt, start: int, size: int) -> Iterator[int]:
    at = start
    while at < size:
        # A multiple of 64 from an aligned start: an aligned sync word never straddles two chunks.
        chunk = read_at(at, min(_SCAN_BYTES, size - at))
        place = chunk.find(SYNC_WORD)
        while place >= 0:
            if place % ALIGNMENT == 0:
                yield at + place
            place = chunk.find(SYNC_WORD, place + 1)
        at += len(chunk)
