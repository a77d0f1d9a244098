"""The summary of an MCAP file: definitions, places of records, statistics. Believed only where all of it is sound."""

from __future__ import annotations

import struct
import zlib
from array import array
from dataclasses import dataclass, field

from trainload.recordings.importers.logs.log_bytes import FileBytes
from trainload.recordings.importers.logs.mcap.structure import (
    ATTACHMENT_INDEX,
    CHANNEL,
    CHUNK_INDEX,
    DATA_END,
    FOOTER,
    HEAD,
    MAGIC,
    METADATA_INDEX,
    SCHEMA,
    STATISTICS,
    record_end,
)

_FOOTER_BODY = struct.Struct("<QQI")
_FOOTER_BYTES = HEAD.size + _FOOTER_BODY.size
_DATA_END_BYTES = HEAD.size + 4
_CHUNK_COUNT = struct.Struct("<I")
_PLACE_AND_SIZE = struct.Struct("<QQ")
_PLACE_AT = {CHUNK_INDEX: 16, ATTACHMENT_INDEX: 0, METADATA_INDEX: 0}  # of offset and length, in the record


@dataclass(slots=True)
class Summary:
    """records: (opcode, body) of schemas and channels. chunks: where they begin, sorted; none where not all are listed.
    places: where chunks, attachments and metadata begin and end, sorted. data_end: where the data section ends. ended:
    True where the file has its footer. data_crc: 0 where it is not known."""

    records: list[tuple[int, memoryview]] = field(default_factory=list)
    chunks: array[int] = field(default_factory=lambda: array("Q"))
    places: array[int] = field(default_factory=lambda: array("Q"))
    statistics: memoryview | None = None
    data_end: int = 0
    ended: bool = False
    data_crc: int = 0


def read_summary(source: FileBytes) -> Summary:
    """What the summary section says; of one that is not there, or not what its CRC-32 says, no more than its end."""
    result = Summary(data_end=source.size)
    foot = source.size - len(MAGIC) - _FOOTER_BYTES
    if foot < len(MAGIC) or bytes(source.at(source.size - len(MAGIC), len(MAGIC))) != MAGIC:
        return result
    head, size = HEAD.unpack(source.at(foot, HEAD.size))
    if (head, size) != (FOOTER, _FOOTER_BODY.size):
        return result
    start, _, crc = _FOOTER_BODY.unpack(source.at(foot + HEAD.size, size))
    result.ended, result.data_end = True, foot
    begin = start or foot
    if not len(MAGIC) <= begin <= foot:
        return result
    found = Summary(data_end=begin, ended=True, data_crc=_data_crc(source, begin))
    return found if _read(source, begin, foot, crc, found) else result


def _read(source: FileBytes, place: int, foot: int, crc: int, found: Summary) -> bool:
    """Fill `found`; False where the section is not sound."""
    running, places, chunks = 0, array("Q"), array("Q")
    while place < foot:
        end = record_end(source, place)
        if not place < end <= foot:
            return False
        head, body = source.at(place, HEAD.size), source.at(place + HEAD.size, end - place - HEAD.size)
        if crc:
            running = zlib.crc32(body, zlib.crc32(head, running))
        opcode = head[0]
        if opcode in (SCHEMA, CHANNEL):
            found.records.append((opcode, memoryview(bytes(body))))
        elif opcode == STATISTICS:
            found.statistics = memoryview(bytes(body))
        elif opcode in _PLACE_AT:
            begin, size = _PLACE_AND_SIZE.unpack_from(body, _PLACE_AT[opcode])
            if not len(MAGIC) <= begin <= begin + size <= found.data_end:
                return False
            places.extend((begin, begin + size))
            if opcode == CHUNK_INDEX:
                chunks.append(begin)
        place = end
    if found.statistics is None or _CHUNK_COUNT.unpack_from(found.statistics, 22)[0] == len(chunks):
        found.chunks, found.places = (array("Q", sorted(numbers)) for numbers in (chunks, places))
    foot_head = source.at(foot, HEAD.size + 16)
    return not crc or zlib.crc32(foot_head, running) == crc


def _data_crc(source: FileBytes, end: int) -> int:
    """From the record before the summary."""
    place = end - _DATA_END_BYTES
    if place < len(MAGIC) or HEAD.unpack(source.at(place, HEAD.size)) != (DATA_END, 4):
        return 0
    return int(struct.unpack("<I", source.at(place + HEAD.size, 4))[0])
