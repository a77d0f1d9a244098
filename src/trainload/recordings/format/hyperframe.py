"""HFRM v1, bytes <-> values: the file header and the index.

The law is docs/spec/hyperframe.md, sections 1, 2 and 5. This file knows no storage: it gets bytes and the size of the
file they came from. Window records are in records.py, the sections after the index in sections.py, the stream table in
streams.py, the window rule in windows.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.codecs.ids import ASSIGNED_CODECS
from trainload.formats.fields import Checker
from trainload.recordings.format import rules

MAGIC = b"HFRM"
VERSION = 1
HEADER_BYTES = 512
ALIGNMENT = 64
INDEX_ENTRY_BYTES = 32
PROFILE_VERSION = 1
MAX_FRAME_BYTES = (1 << 32) - 1
MAX_STREAMS = 1 << 16
MAX_TIMESTAMP_NS = (1 << 63) - 1  # so that times fit into int64 arrays

# Header flags.
LITTLE_ENDIAN = 1 << 0
COMPRESSED = 1 << 1  # some payload is compressed
WINDOW_RECORDS = 1 << 2
FRAME_CRCS = 1 << 3  # index entries carry the CRC-32 of the stored bytes
ENCRYPTED = 1 << 4
FINALIZED = 1 << 31
PROFILE_FLAGS = COMPRESSED | WINDOW_RECORDS | FRAME_CRCS | ENCRYPTED

# Index entry flags.
KEY_FRAME = 1 << 0
HARDWARE_TIME = 1 << 1
CODEC_SHIFT = 2
CODEC_MASK = 0b111 << CODEC_SHIFT
SHUFFLED = 1 << 5
LATE = 1 << 6  # arrived after its window was written
FRAME_ENCRYPTED = 1 << 7
PACKED = 1 << 8  # many samples of one stream in one payload

INDEX_DTYPE = np.dtype(
    [
        ("stream_id", "<u2"),
        ("flags", "<u2"),
        ("stream_index", "<u4"),
        ("timestamp_ns", "<u8"),
        ("byte_offset", "<u8"),
        ("byte_size", "<u4"),
        ("crc", "<u4"),
    ]
)
INDEX_ENTRY = struct.Struct("<HHIQQII")  # the same 32 bytes, for one row at a time
_ENTRY_PLACE = {"flags": 2, "timestamp_ns": 8, "byte_offset": 16, "byte_size": 24}
assert INDEX_DTYPE.itemsize == INDEX_ENTRY.size == INDEX_ENTRY_BYTES

Index = NDArray[np.void]  # rows of INDEX_DTYPE
Entry = tuple[int, int, int, int, int, int, int]  # one of them as numbers: entry[BYTE_OFFSET]
STREAM_ID, FLAGS, STREAM_INDEX, TIMESTAMP_NS, BYTE_OFFSET, BYTE_SIZE, CRC = range(7)


def align(offset: int) -> int:
    """`offset` rounded up to the next place where a frame or a window record may start."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class HyperframeHeader:
    """The 512 bytes at the start of an HFRM file (docs/spec/hyperframe.md, sections 1 and 5), fields in file order.

    | offset | type | field | | offset | type | field |
    |---|---|---|---|---|---|---|
    | 0 | 4s | magic | | 44 | u64 | index_size |
    | 4 | u16 | version | | 52 | u64 | window_ns |
    | 6 | u16 | header_size | | 60 | u64 | sections_offset |
    | 8 | u32 | flags | | 68 | u64 | sections_size |
    | 12 | u64 | time_window_start_ns | | 76 | u8[16] | file_id |
    | 20 | u64 | time_window_end_ns | | 92 | u32 | index_crc |
    | 28 | u32 | frame_count | | 96 | u16 | profile_version |
    | 32 | u32 | stream_count | | 98 | u8[410] | zero |
    | 36 | u64 | index_offset | | 508 | u32 | CRC-32 of bytes 0-507 |

    A plain file, one made from the published text alone, has profile_version 0 and ends its meaning at byte 52.
    """

    flags: int
    time_window_start_ns: int = 0
    time_window_end_ns: int = 0
    frame_count: int = 0
    stream_count: int = 0
    index_offset: int = 0
    index_size: int = 0
    window_ns: int = 0
    sections_offset: int = 0
    sections_size: int = 0
    file_id: bytes = bytes(16)
    index_crc: int = 0
    profile_version: int = PROFILE_VERSION

    @property
    def finalized(self) -> bool:
        return bool(self.flags & FINALIZED)

    @property
    def plain(self) -> bool:
        """True for a file without our profile: no streams table, no checksums, no codecs."""
        return self.profile_version == 0

    @property
    def window_length_ns(self) -> int:
        """The window's target length; of a plain file, the time that the header's window spans (at least 1 ns)."""
        length = self.window_ns or max(1, self.time_window_end_ns - self.time_window_start_ns)
        return min(length, MAX_TIMESTAMP_NS)

    def to_bytes(self) -> bytes:
        """The 512 bytes, with their CRC-32 in the last four."""
        head = _HEADER.pack(
            MAGIC,
            VERSION,
            HEADER_BYTES,
            self.flags,
            self.time_window_start_ns,
            self.time_window_end_ns,
            self.frame_count,
            self.stream_count,
            self.index_offset,
            self.index_size,
            self.window_ns,
            self.sections_offset,
            self.sections_size,
            self.file_id,
            self.index_crc,
            self.profile_version,
        ).ljust(_CRC_OFFSET, b"\0")
        return head + _CRC.pack(isal_zlib.crc32(head))

    @staticmethod
    def from_bytes(
        data: bytes, *, file_size: int, path: str = "", unfinished_allowed: bool = False
    ) -> HyperframeHeader:
        """Parse and check the first 512 bytes of a file of `file_size` bytes.

        Raises FormatError; of a file that was never finished, the error names the recovery command, unless
        `unfinished_allowed` (recovery, a follower), where index and sections are left unchecked.
        """
        check = _HeaderChecker(path)
        check.require(
            len(data) >= HEADER_BYTES,
            rules.HEADER_WHOLE,
            field="header",
            offset=0,
            found=f"{len(data)} bytes",
            expected=f"{HEADER_BYTES} bytes",
        )
        magic, version, header_size, *values = _HEADER.unpack_from(data)
        check.that(magic == MAGIC, "magic", magic, MAGIC)
        check.that(version == VERSION, "version", version, VERSION)
        check.that(header_size == HEADER_BYTES, "header_size", header_size, HEADER_BYTES)
        header = HyperframeHeader(*values)
        check.that(
            bool(header.flags & LITTLE_ENDIAN),
            "flags",
            "bit 0 = 0: a big-endian file",
            "bit 0 = 1: everything is little-endian",
        )
        if not header.finalized and not unfinished_allowed:
            raise rules.UNFINISHED.broken(
                recording=path or "IN",
                field="flags",
                offset=8,
                found="bit 31 = 0",
                expected="bit 31 = 1",
                path=path,
            )
        _check_profile(header, data, check)
        if header.finalized:
            _check_regions(header, check, file_size)
        return header


def _check_profile(header: HyperframeHeader, data: bytes, check: _HeaderChecker) -> None:
    check.that(
        header.profile_version in (0, PROFILE_VERSION),
        "profile_version",
        header.profile_version,
        f"0 (plain) or {PROFILE_VERSION}",
    )
    if header.plain:
        check.that(not header.flags & PROFILE_FLAGS, "profile_version", 0, "1, for the flags say so")
        return
    found, expected = isal_zlib.crc32(data[:_CRC_OFFSET]), _CRC.unpack_from(data, _CRC_OFFSET)[0]
    check.require(
        found == expected,
        rules.HEADER_CRC,
        field="header crc",
        offset=_CRC_OFFSET,
        found=f"{found:#010x}",
        expected=f"{expected:#010x}",
    )
    check.that(header.window_ns > 0, "window_ns", 0, "at least 1")


def _check_regions(header: HyperframeHeader, check: _HeaderChecker, file_size: int) -> None:
    size, count = header.index_size, header.frame_count
    check.that(size == count * INDEX_ENTRY_BYTES, "index_size", size, f"32 bytes for each of {count:,} frames")
    check.that(header.index_offset >= HEADER_BYTES, "index_offset", header.index_offset, "after the header")
    check.that(
        header.index_offset + size <= file_size,
        "index_offset",
        f"{header.index_offset:,}",
        f"an index of {size:,} bytes inside a file of {file_size:,}",
    )
    check.that(header.stream_count <= MAX_STREAMS, "stream_count", header.stream_count, f"at most {MAX_STREAMS}")
    if header.plain:
        return
    for name in ("time_window_start_ns", "time_window_end_ns"):
        time = getattr(header, name)
        check.that(time <= MAX_TIMESTAMP_NS, name, time, f"at most {MAX_TIMESTAMP_NS}")
    inside = header.sections_offset >= HEADER_BYTES and header.sections_offset + header.sections_size <= file_size
    check.that(
        inside,
        "sections_offset",
        f"{header.sections_offset:,}",
        f"a section list of {header.sections_size:,} bytes inside a file of {file_size:,}",
    )


class _HeaderChecker(Checker):
    """Checks header fields by name; the offset comes from the struct."""

    def that(self, good: bool, field: str, found: object, expected: object) -> None:
        self.require(
            good,
            rules.HEADER_FIELD,
            field=field,
            offset=_FIELD_OFFSET[field],
            found=found,
            expected=expected,
        )


_LAYOUT = (
    ("magic", "4s"),
    ("version", "H"),
    ("header_size", "H"),
    ("flags", "I"),
    ("time_window_start_ns", "Q"),
    ("time_window_end_ns", "Q"),
    ("frame_count", "I"),
    ("stream_count", "I"),
    ("index_offset", "Q"),
    ("index_size", "Q"),
    ("window_ns", "Q"),
    ("sections_offset", "Q"),
    ("sections_size", "Q"),
    ("file_id", "16s"),
    ("index_crc", "I"),
    ("profile_version", "H"),
)
_HEADER = struct.Struct("<" + "".join(code for _, code in _LAYOUT))
_FIELD_OFFSET = {
    name: struct.calcsize("<" + "".join(code for _, code in _LAYOUT[:n])) for n, (name, _) in enumerate(_LAYOUT)
}
_CRC = struct.Struct("<I")
_CRC_OFFSET = HEADER_BYTES - _CRC.size
assert [f.name for f in fields(HyperframeHeader)] == list(_FIELD_OFFSET)[3:]


def index_order(index: Index) -> NDArray[np.intp]:
    """The permutation that sorts rows by (stream_id, timestamp_ns, stream_index); equal rows keep their order."""
    return np.lexsort((index["stream_index"], index["timestamp_ns"], index["stream_id"]))


def index_from_bytes(data: bytes, header: HyperframeHeader, *, file_size: int, path: str = "") -> Index:
    """The index, rows of INDEX_DTYPE sorted by (stream_id, timestamp_ns), every row checked against the file's size.

    A plain file's index may be unsorted and is sorted here; ours is sorted on disk, and the result is a read-only view
    of `data`. Raises FormatError.
    """
    check = Checker(path, header.index_offset)
    check.require(
        len(data) == header.index_size,
        rules.INDEX_WHOLE,
        field="index",
        offset=0,
        found=f"{len(data):,} bytes",
        expected=f"{header.index_size:,} bytes",
    )
    if not header.plain:
        found = isal_zlib.crc32(data)
        check.require(
            found == header.index_crc,
            rules.INDEX_CRC,
            field="index crc",
            offset=0,
            found=f"{found:#010x}",
            expected=f"{header.index_crc:#010x}",
        )
    index: Index = np.frombuffer(data, INDEX_DTYPE)
    check_entries(index, check, start=HEADER_BYTES, end=file_size, profile=not header.plain)
    if not is_sorted(index):
        check.require(
            header.plain,
            rules.INDEX_ORDER,
            field="index",
            offset=0,
            found="another order",
            expected="ascending rows",
        )
        index = index[index_order(index)]
    return index


def check_entries(index: Index, check: Checker, *, start: int, end: int, profile: bool) -> None:
    """Raise FormatError unless every row's frame lies in [start, end), aligned, with a time and flags that may be.

    `check` counts offsets from the first row.
    """
    offsets, sizes, flags = index["byte_offset"], index["byte_size"], index["flags"]
    room = end - np.minimum(offsets, end).astype(np.int64)
    codecs = (flags & CODEC_MASK) >> CODEC_SHIFT if profile else np.zeros(1, np.uint16)
    for bad, name, expected in (
        (offsets < start, "byte_offset", f"at least {start:,}"),
        (offsets % ALIGNMENT != 0, "byte_offset", f"a multiple of {ALIGNMENT}"),
        ((sizes > room) | (offsets > end), "byte_size", f"a frame that ends at {end:,} or before"),
        (index["timestamp_ns"] > MAX_TIMESTAMP_NS, "timestamp_ns", f"at most {MAX_TIMESTAMP_NS}"),
        (codecs > max(ASSIGNED_CODECS), "flags", "codec 0 (none), 1 (LZ4) or 2 (Zstandard)"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            place = row * INDEX_ENTRY_BYTES + _ENTRY_PLACE[name]
            check.require(
                False,
                rules.INDEX_ENTRY,
                field=f"index[{row}].{name}",
                offset=place,
                found=f"{int(index[name][row]):,}",
                expected=expected,
            )


def is_sorted(index: Index) -> bool:
    """True where the rows ascend by (stream_id, timestamp_ns)."""
    streams, times = index["stream_id"], index["timestamp_ns"]
    same, later = streams[1:] == streams[:-1], times[1:] >= times[:-1]
    return bool(np.all((streams[1:] > streams[:-1]) | (same & later)))
