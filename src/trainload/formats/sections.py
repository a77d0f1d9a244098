"""The section list that both containers carry: tag (4 bytes), size (u64), CRC-32 (u32), body; one after the other.

Unknown tags are skipped by readers and kept by tools that rewrite a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from isal import isal_zlib

from trainload.formats.fields import Checker
from trainload.formats.limits import MAX_SECTION_BYTES, MAX_SECTIONS

_HEAD = struct.Struct("<4sQI")
HEAD_BYTES = _HEAD.size  # 16


def sections_to_bytes(sections: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The section list as bytes, in the given order. A tag is 4 bytes of ASCII."""
    parts = []
    for tag, body in sections:
        parts += [_HEAD.pack(tag, len(body), isal_zlib.crc32(body)), body]
    return b"".join(parts)


def sections_from_bytes(data: bytes, *, path: str, offset: int) -> list[tuple[bytes, bytes]]:
    """The (tag, body) pairs of a section list that fills all of `data`; `offset` is its place in the file.

    Raises FormatError for a section that does not fit, exceeds its limit or fails its CRC-32.
    """
    check = Checker(path, offset)
    sections: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(data):
        check.limit(len(sections) + 1, MAX_SECTIONS, field="section count", offset=at)
        check.require(
            len(data) - at >= HEAD_BYTES,
            "a section head must be whole",
            field="section head",
            offset=at,
            found=f"{len(data) - at} bytes",
            expected=f"{HEAD_BYTES} bytes",
        )
        tag, size, crc = _HEAD.unpack_from(data, at)
        name = tag.decode("ascii", "backslashreplace")
        check.limit(size, MAX_SECTION_BYTES, field=f"section {name} size", offset=at + 4)
        check.require(
            at + HEAD_BYTES + size <= len(data),
            "a section must end inside the section list",
            field=f"section {name} size",
            offset=at + 4,
            found=f"{size:,}",
            expected=f"at most {len(data) - at - HEAD_BYTES:,}",
        )
        body = data[at + HEAD_BYTES : at + HEAD_BYTES + size]
        found = isal_zlib.crc32(body)
        check.require(
            found == crc,
            "a section's CRC-32 must match its body",
            field=f"section {name} crc",
            offset=at + 12,
            found=f"{found:#010x}",
            expected=f"{crc:#010x}",
        )
        sections.append((tag, body))
        at += HEAD_BYTES + size
    return sections
