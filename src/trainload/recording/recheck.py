"""Reads a finished recording back and compares it with what was meant to be in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from isal import isal_zlib

from trainload.errors import FormatError
from trainload.formats import hyperframe as hfrm
from trainload.formats.hyperframe_sections import TAG_STREAMS, TAG_WINDOWS
from trainload.formats.hyperframe_streams import streams_from_bytes
from trainload.formats.hyperframe_windows import WindowTable
from trainload.formats.sections import sections_from_bytes
from trainload.storage.file import FileSource


def recheck(path: Path, expected: hfrm.Index) -> None:
    """Raise FormatError unless the file holds exactly the `expected` frames (any order, byte_offset 0), all good.

    Reads everything once: header, index, stream table, window table, and every frame against its CRC-32.
    """
    with FileSource(path) as source:
        head = source.read_at(0, hfrm.HEADER_BYTES)
        header = hfrm.HyperframeHeader.from_bytes(head, file_size=source.size, path=source.path)
        data = source.read_at(header.index_offset, header.index_size)
        index = hfrm.index_from_bytes(data, header, file_size=source.size, path=source.path)
        body = source.read_at(header.sections_offset, header.sections_size)
        found = dict(sections_from_bytes(body, path=source.path, offset=header.sections_offset))
        streams_from_bytes(found[TAG_STREAMS], path=source.path)
        WindowTable.from_bytes(found[TAG_WINDOWS], frame_count=len(index), file_size=source.size, path=source.path)
        _check_frames(source, index)
    rows = index.copy()
    rows["byte_offset"] = 0
    if rows.tobytes() != expected[hfrm.index_order(expected)].tobytes():
        raise FormatError("the new file must hold every frame that was copied", field="index", offset=None,
                          found=f"{len(rows):,} frames", expected=f"{len(expected):,} frames, the same ones",
                          path=source.path)  # fmt: skip


def _check_frames(source: FileSource, index: hfrm.Index) -> None:
    order = np.argsort(index["byte_offset"])
    for row in index[order]:
        offset, crc = int(row["byte_offset"]), int(row["crc"])
        found = isal_zlib.crc32(source.read_at(offset, int(row["byte_size"])))
        if found != crc:
            raise FormatError("a frame's CRC-32 must match", field="frame", offset=offset, found=f"{found:#010x}",
                              expected=f"{crc:#010x}", path=source.path)  # fmt: skip
