"""What sound MCAP records look like: opcodes, and lengths that must add up. Finds the next ones behind damage.

A record may have fields behind those that are known ("Readers should ignore any unknown fields"), up to MAX_MORE_BYTES
of them. Source: the MCAP specification, version 0.
"""

from __future__ import annotations

import re
import struct

from trainload.recordings.importers.logs.log_bytes import BLOCK_BYTES, LogBytes

MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
CHUNK_INDEX, ATTACHMENT, ATTACHMENT_INDEX, STATISTICS, METADATA = 0x08, 0x09, 0x0A, 0x0B, 0x0C
METADATA_INDEX, SUMMARY_OFFSET, DATA_END = 0x0D, 0x0E, 0x0F
PRIVATE = 0x80  # and above
HEAD = struct.Struct("<BQ")
CHUNK_HEAD = struct.Struct("<QQQI")

MAX_MORE_BYTES = 4096  # of fields that a later version of the format adds to a record

_SIZED, _LONG_SIZED, _REST = struct.Struct("<I"), struct.Struct("<Q"), None  # texts, maps, lists; data; anything
_LAYOUTS: dict[int, tuple[int | struct.Struct | None, ...]] = {
    HEADER: (_SIZED, _SIZED),
    FOOTER: (20,),
    SCHEMA: (2, _SIZED, _SIZED, _SIZED),
    CHANNEL: (4, _SIZED, _SIZED, _SIZED),
    MESSAGE: (22, _REST),
    CHUNK: (CHUNK_HEAD.size, _SIZED, _LONG_SIZED),
    MESSAGE_INDEX: (2, _SIZED),
    CHUNK_INDEX: (32, _SIZED, 8, _SIZED, 16),
    ATTACHMENT: (16, _SIZED, _SIZED, _LONG_SIZED, 4),
    ATTACHMENT_INDEX: (40, _SIZED, _SIZED),
    STATISTICS: (42, _SIZED),
    METADATA: (_SIZED, _SIZED),
    METADATA_INDEX: (16, _SIZED),
    SUMMARY_OFFSET: (17,),
    DATA_END: (4,),
}
_COMPRESSIONS = (b"\0\0\0\0", b"\x03\0\0\0lz4", b"\x04\0\0\0zstd")  # as a chunk record has them
_LARGEST = 1 << 40  # what a record may claim to be
_IN_A_ROW = 3  # sound records before bytes behind damage count as records
_SCAN_BYTES = 4 << 20
_HEAD_SIGN = rb"[%s].{4}\0{4}"  # an opcode, and a size below 4 GB
OUTER = re.compile(_HEAD_SIGN % b"\x02\x06-\x0f", re.DOTALL)
"""Begins of records that a file of chunks has outside them."""
CHUNKS = re.compile(_HEAD_SIGN % b"\x06", re.DOTALL)
INNER = re.compile(_HEAD_SIGN % b"\x03-\x05", re.DOTALL)
"""Begins of records inside a chunk."""
ANY = re.compile(_HEAD_SIGN % b"\x02-\x0f", re.DOTALL)


def record_end(source: LogBytes, place: int) -> int:
    """Where the sound record at `place` ends; 0 where none lies there whole."""
    end = claimed_end(source, place)
    return end if end <= source.size else 0


def claimed_end(source: LogBytes, place: int, presumed: int | None = None, more: int = MAX_MORE_BYTES) -> int:
    """Where the record at `place` says it ends, behind the last byte too; 0 where its lengths do not add up.

    presumed: an opcode to take for its own. more: how many bytes it may have behind the fields that are known.
    """
    if place + HEAD.size > source.size:
        return 0
    opcode, size = HEAD.unpack(source.at(place, HEAD.size))
    opcode = opcode if presumed is None else presumed
    layout = _LAYOUTS.get(opcode)
    if size > _LARGEST or (layout is None and opcode < PRIVATE):
        return 0
    place += HEAD.size
    end: int = place + size
    length = 0  # of the last sized part
    for part in layout or (_REST,):
        if part is None:
            return end if place <= end else 0
        if isinstance(part, int):
            place += part
            continue
        if place + part.size > end:
            return 0
        if place + part.size > source.size:
            return end
        length = part.unpack(source.at(place, part.size))[0]
        place += part.size + length
    return end if 0 <= end - place <= more and not (opcode == MESSAGE_INDEX and length % 16) else 0


def is_followed(source: LogBytes, place: int, *, cut: bool) -> bool:
    """True where a sound record begins at `place`, or nothing does. cut: the bytes may end inside that record."""
    left = source.size - place
    if left < HEAD.size:
        return cut or left == 0
    end = claimed_end(source, place)
    return end != 0 and (cut or end <= source.size)


def next_sound(source: LogBytes, place: int, begins: re.Pattern[bytes]) -> int:
    """Where sound records go on, at `place` or behind; `source.size` where they do not.

    begins: OUTER, CHUNKS, INNER or ANY. What follows must be a chunk, or several sound records in a row.
    """
    step = BLOCK_BYTES
    while place + HEAD.size <= source.size:
        block = source.at(place, min(step, source.size - place))
        found = begins.search(block)
        while found is not None:
            if _goes_on(source, place + found.start()):
                return place + found.start()
            found = begins.search(block, found.start() + 1)
        place += len(block) - HEAD.size + 1
        step = min(step * 2, _SCAN_BYTES)
    return source.size


def _goes_on(source: LogBytes, place: int) -> bool:
    for _ in range(_IN_A_ROW):
        end = record_end(source, place)
        if end == 0:
            return False
        opcode = source.at(place, 1)[0]
        if opcode == CHUNK:
            return _compression(source, place) in _COMPRESSIONS
        if opcode == FOOTER or end == source.size:
            return True
        place = end
    return True


def _compression(source: LogBytes, place: int) -> bytes:
    """The name in the chunk record at `place`, with its length."""
    begin = place + HEAD.size + CHUNK_HEAD.size
    return bytes(source.at(begin, min(_SIZED.size + _SIZED.unpack(source.at(begin, _SIZED.size))[0], 8)))
