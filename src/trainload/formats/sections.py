"""The section list that both containers carry: tag (4 bytes), size (u64), CRC-32 (u32), body; one after the other.

Unknown tags are skipped by readers and kept by tools that rewrite a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from isal import isal_zlib

from trainload.formats.fields import Checker
from trainload.formats.limits import MAX_SECTION_BYTES, MAX_SECTIONS
from trainload.formats.rules import SECTION_CRC, SECTION_END, SECTION_HEAD

_HEAD = struct.Struct("<4sQI")
HEAD_BYTES = _HEAD.size  # 16


def sections_to_bytes(sections: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The section list as bytes, in the given order. A tag is 4 bytes of ASCII."""
    parts = []
    for tag, body in sections:
        parts += [section_head_to_bytes(tag, len(body), isal_zlib.crc32(body)), body]
    return b"".join(parts)


def section_head_to_bytes(tag: bytes, size: int, crc: int) -> bytes:
    """The HEAD_BYTES before a body of that size and CRC-32, for a writer that never holds it whole."""
    return _HEAD.pack(tag, size, crc)


def section_head_from_bytes(head: bytes, *, room: int, path: str, offset: int) -> tuple[bytes, int]:
    """Tag and body size of the section whose head lies at `offset` of the file, `room` bytes before the list's end.

    For a reader that leaves bodies unread until they are asked for. Raises FormatError where head or body do not fit.
    """
    check = Checker(path, offset)
    check.require(
        len(head) >= HEAD_BYTES,
        SECTION_HEAD,
        field="section head",
        offset=0,
        found=f"{len(head)} bytes",
        expected=f"{HEAD_BYTES} bytes",
    )
    tag, size, _ = _HEAD.unpack_from(head)
    field = f"section {tag.decode('ascii', 'backslashreplace')} size"
    check.limit(size, MAX_SECTION_BYTES, field=field, offset=4)
    check.require(
        HEAD_BYTES + size <= room,
        SECTION_END,
        field=field,
        offset=4,
        found=f"{size:,}",
        expected=f"at most {room - HEAD_BYTES:,}",
    )
    return tag, size


def section_crc_from_bytes(head: bytes) -> int:
    """The CRC-32 that a whole section head says its body has."""
    crc: int = _HEAD.unpack(head)[2]
    return crc


def sections_from_bytes(data: bytes, *, path: str, offset: int) -> list[tuple[bytes, bytes]]:
    """The (tag, body) pairs of a section list that fills all of `data`; `offset` is its place in the file.

    Raises FormatError for a section that does not fit, exceeds its limit or fails its CRC-32.
    """
    check = Checker(path, offset)
    sections: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(data):
        check.limit(len(sections) + 1, MAX_SECTIONS, field="section count", offset=at)
        head = data[at : at + HEAD_BYTES]
        tag, size = section_head_from_bytes(head, room=len(data) - at, path=path, offset=offset + at)
        body = data[at + HEAD_BYTES : at + HEAD_BYTES + size]
        expected, found = section_crc_from_bytes(head), isal_zlib.crc32(body)
        check.require(
            found == expected,
            SECTION_CRC,
            offset=at + 12,
            found=f"{found:#010x}",
            field=f"section {tag.decode('ascii', 'backslashreplace')} crc",
            expected=f"{expected:#010x}",
        )
        sections.append((tag, body))
        at += HEAD_BYTES + size
    return sections
