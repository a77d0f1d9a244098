"""Attachments and metadata records of a log as the stream RECORD_STREAM keeps them: an opcode, then MCAP's fields.

Fields that a later version of MCAP added behind these are kept with the record and not read. Source: the MCAP
specification, version 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from trainload.recordings.format import rules

ATTACHMENT, METADATA = 0x09, 0x0C
_SIZE, _LONG_SIZE, _TIMES = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a log carries. crc: of all before it, 0 for none; crc_place: where it lies in the record."""

    log_ns: int
    create_ns: int
    name: str
    media_type: str
    data: memoryview
    crc: int
    crc_place: int


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """A name and texts by name."""

    name: str
    texts: dict[str, str]


def text_at(body: memoryview, place: int) -> tuple[str, int]:
    """A string with its u32 length, and where it ends. Raises ValueError where it would leave the record."""
    size = _SIZE.unpack_from(body, place)[0]
    end = place + _SIZE.size + size
    if end > len(body):
        raise ValueError(f"a string of {size:,} bytes where {len(body) - place - _SIZE.size:,} are left")
    return bytes(body[place + _SIZE.size : end]).decode("utf-8", "replace"), end


def texts_at(body: memoryview, place: int) -> tuple[dict[str, str], int]:
    """A map of strings with its size in bytes, and where it ends. Raises ValueError where these do not add up."""
    end = place + _SIZE.size + _SIZE.unpack_from(body, place)[0]
    place += _SIZE.size
    if end > len(body):
        raise ValueError(f"a map up to byte {end:,} of a record of {len(body):,}")
    found: dict[str, str] = {}
    while place < end:
        key, place = text_at(body[:end], place)
        found[key], place = text_at(body[:end], place)
    return found, end


def attachment_of(body: memoryview) -> Attachment:
    """The record behind its opcode. Raises ValueError or struct.error for one that is cut off."""
    log_ns, create_ns = _TIMES.unpack_from(body)
    name, place = text_at(body, _TIMES.size)
    media_type, place = text_at(body, place)
    size = _LONG_SIZE.unpack_from(body, place)[0]
    place += _LONG_SIZE.size
    if size > len(body) - place:
        raise ValueError(f"an attachment of {size:,} bytes where {len(body) - place:,} are left")
    crc = _SIZE.unpack_from(body, place + size)[0]
    return Attachment(log_ns, create_ns, name, media_type, body[place : place + size], crc, place + size)


def metadata_of(body: memoryview) -> MetadataRecord:
    """The record behind its opcode. Raises ValueError or struct.error for one that is cut off."""
    name, place = text_at(body, 0)
    return MetadataRecord(name, texts_at(body, place)[0])


def record_from_bytes(data: bytes | memoryview, *, path: str = "") -> Attachment | MetadataRecord:
    """A frame of RECORD_STREAM. Raises FormatError."""
    view = memoryview(data)
    try:
        if view[0] == ATTACHMENT:
            return attachment_of(view[1:])
        if view[0] == METADATA:
            return metadata_of(view[1:])
        raise ValueError(f"an opcode {view[0]:#x}")
    except (ValueError, IndexError, struct.error) as error:
        raise rules.KEPT_RECORD.broken(
            field="import/records",
            offset=None,
            found=str(error),
            expected="an attachment or metadata record of MCAP",
            path=path,
        ) from error
