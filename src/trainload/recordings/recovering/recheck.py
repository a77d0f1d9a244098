"""Reads a finished recording back and compares it with what was meant to be in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from isal import isal_zlib

from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import rules
from trainload.recordings.format.records import Hole, WindowRecord, walk_records
from trainload.recordings.format.sections import TAG_STREAMS, TAG_WINDOWS
from trainload.recordings.format.streams import streams_from_bytes
from trainload.recordings.format.windows import WindowTable
from trainload.recordings.recovering.file_tables import FileTables
from trainload.storage.file import FileSource

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class EntrySum:
    """Which index entries there are, in any order: their number, and the sum of a 64-bit mix of each.

    Other entries have the same sum in one of 2^64 cases. 16 bytes stand for any number of entries.
    """

    count: int = 0
    total: int = 0

    def add(self, rows: hfrm.Index, *, placed: bool = True) -> None:
        """Count rows in; placed=False takes their byte_offset as 0."""
        rows = rows.copy()
        if not placed:
            rows["byte_offset"] = 0
        mixed = np.zeros(len(rows), np.uint64)
        for word in rows.view("<u8").reshape(-1, hfrm.INDEX_ENTRY_BYTES // 8).T:
            mixed = (mixed ^ word) * _ODD
            mixed ^= mixed >> np.uint64(32)
        self.count += len(rows)
        self.total = (self.total + int(mixed.sum())) % (1 << 64)


def recheck(path: Path, copied: EntrySum) -> None:
    """Raise FormatError unless the file holds exactly the frames that were `copied` (placed=False), all good.

    Reads everything once: header, index, sections, window records, and every frame against its CRC-32.
    """
    with FileSource(path) as source:
        tables = FileTables(source)
        streams_from_bytes(tables.section(TAG_STREAMS), path=source.path)
        count = tables.header.frame_count
        WindowTable.from_bytes(tables.section(TAG_WINDOWS), frame_count=count, file_size=source.size, path=source.path)
        indexed, in_records, found = EntrySum(), EntrySum(), EntrySum()
        for _, rows in tables.index():
            indexed.add(rows)
            found.add(rows, placed=False)
        for record in walk_records(source.read_at, source.size, file_id=tables.header.file_id, path=source.path):
            in_records.add(_checked_frames(source, record))
    for one, other, what in ((found, copied, "copied"), (in_records, indexed, "indexed")):
        if one != other:
            raise rules.RECOVER_FRAMES.broken(
                what=what,
                field="index",
                offset=None,
                found=f"{one.count:,} frames",
                expected=f"{other.count:,} frames, the same ones",
                path=source.path,
            )


def _checked_frames(source: FileSource, record: WindowRecord | Hole) -> hfrm.Index:
    """The entries of a record, after every frame's bytes were compared with its CRC-32."""
    if isinstance(record, Hole):
        raise rules.RECOVER_HOLE.broken(
            field="window record",
            offset=record.offset,
            found=record.reason,
            expected="a window record",
            path=source.path,
        )
    for row in record.entries.tolist():
        *_, offset, size, crc = row
        found = isal_zlib.crc32(source.read_at(offset, size))
        if found != crc:
            raise rules.RECOVER_FRAME_CRC.broken(
                field="frame",
                offset=offset,
                found=f"{found:#010x}",
                expected=f"{crc:#010x}",
                path=source.path,
            )
    return record.entries
