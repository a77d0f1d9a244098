"""Records of ROS 1 bags (format 2.0): headers of name=value fields, what a sound record looks like, and where the next
one begins behind damage. Source: http://wiki.ros.org/Bags/Format/2.0.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from trainload.recordings.importers.logs.log_bytes import BLOCK_BYTES, LogBytes

MESSAGE, BAG_HEADER, INDEX, CHUNK, CHUNK_INFO, CONNECTION = 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
BAD = (ValueError, KeyError, IndexError, struct.error)
_SIZED = struct.Struct("<I")
_OPERATION = b"\x04\0\0\0op="  # a field of that name and one byte
_MAX_HEADER_BYTES = 1 << 20
_MAX_BACK = 4096  # bytes of a header before its operation: the fields of a connection may come first
_SCAN_BYTES = 4 << 20
OUTER = bytes((INDEX, CHUNK, CHUNK_INFO))
INNER = bytes((MESSAGE, CONNECTION))
_IN_A_ROW = 3  # sound records before bytes behind damage count as records
_FIELDS: dict[int, tuple[tuple[str, int], ...]] = {  # what each operation needs, with the size of its value, 0 for any
    MESSAGE: (("conn", 4), ("time", 8)),
    BAG_HEADER: (("index_pos", 8),),
    INDEX: (("conn", 4), ("count", 4)),
    CHUNK: (("compression", 0), ("size", 4)),
    CHUNK_INFO: (("count", 4), ("start_time", 8), ("end_time", 8)),
    CONNECTION: (("conn", 4), ("topic", 0)),
}
_ITEM_BYTES = {INDEX: 12, CHUNK_INFO: 8}  # of a list with `count` items
_COMPRESSIONS = (b"none", b"bz2", b"lz4")


class Record(NamedTuple):
    """One record: its fields, and its data as [start, end) of the bytes, which may end before it does."""

    operation: int
    header: dict[str, bytes]
    start: int
    end: int

    def number(self, name: str) -> int:
        """A u32 or u64 field."""
        return int.from_bytes(self.header[name], "little")

    def time_ns(self, name: str) -> int:
        """A field of seconds and nanoseconds."""
        seconds, nanoseconds = struct.unpack("<II", self.header[name])
        return int(seconds) * 1_000_000_000 + int(nanoseconds)


def record_at(source: LogBytes, place: int) -> Record | None:
    """The record at `place`, None where no sound one begins there. Its data may leave the bytes; its header may not."""
    if place + 8 > source.size:
        return None
    try:
        size = _number_at(source, place)
        header_end = place + 4 + size
        if size > _MAX_HEADER_BYTES or header_end + 4 > source.size:
            return None
        header = fields_of(source.at(place + 4, size))
        operation = header["op"][0]
        for name, width in _FIELDS[operation]:
            if len(header[name]) != width and width:
                return None
        record = Record(operation, header, header_end + 4, header_end + 4 + _number_at(source, header_end))
    except BAD:
        return None
    return record if _adds_up(record) else None


def is_at_end(source: LogBytes, place: int, *, cut: bool) -> bool:
    """True where the bytes end at `place`; cut: or in the header of a record there."""
    left = source.size - place
    return left == 0 or (cut and (left < 8 or _number_at(source, place) > left - 8))


def next_sound(source: LogBytes, place: int, operations: bytes) -> int:
    """Where sound records of one of these operations go on, at `place` or behind; `source.size` where they do not."""
    begin, step = place, BLOCK_BYTES
    while place < source.size:
        block = bytes(source.at(place, min(step, source.size - place)))
        found = block.find(_OPERATION)
        while found >= 0:
            sign = found + len(_OPERATION)
            if sign < len(block) and block[sign] in operations:
                start = _record_around(source, place + found, begin)
                if start is not None:
                    return start
            found = block.find(_OPERATION, found + 1)
        place += max(len(block) - len(_OPERATION), 1)
        step = min(step * 2, _SCAN_BYTES)
    return source.size


def fields_of(data: memoryview) -> dict[str, bytes]:
    """name=value fields. Raises ValueError where one leaves the header, struct.error where its size does."""
    fields: dict[str, bytes] = {}
    place = 0
    while place < len(data):
        size = _SIZED.unpack_from(data, place)[0]
        end = place + 4 + size
        if end > len(data):
            raise ValueError(f"a header field of {size:,} bytes where {len(data) - place - 4} are left")
        name, equals, value = bytes(data[place + 4 : end]).partition(b"=")
        if not equals:
            raise ValueError("a header field without '='")
        fields[name.decode("ascii", "replace")] = value
        place = end
    return fields


def _adds_up(record: Record) -> bool:
    size = record.end - record.start
    if record.operation in _ITEM_BYTES:
        return size == record.number("count") * _ITEM_BYTES[record.operation]
    if record.operation == CHUNK:
        compression = record.header["compression"]
        return compression in _COMPRESSIONS and (compression != b"none" or record.number("size") == size)
    return True


def _record_around(source: LogBytes, field: int, begin: int) -> int | None:
    """Where the record begins whose operation is the field at `field`, not before `begin`; others must follow it."""
    first = max(begin, field - _MAX_BACK)
    before = source.at(first, field - first)
    for start in range(field - 4, first - 1, -1):
        size = _SIZED.unpack_from(before, start - first)[0]
        if field + 8 - start - 4 <= size <= _MAX_BACK * 2 and _goes_on(source, start):
            return start
    return None


def _goes_on(source: LogBytes, place: int) -> bool:
    for _ in range(_IN_A_ROW):
        record = record_at(source, place)
        if record is None:
            return False
        if record.operation == CHUNK or record.end == source.size:
            return True  # what a chunk has is proved by unpacking it
        if record.end > source.size:
            return False
        place = record.end
    return True


def _number_at(source: LogBytes, place: int) -> int:
    return int(_SIZED.unpack(source.at(place, 4))[0])
