"""Files of a recording that are no sensor's frames (a raw log, labels, a scan of the room), kept byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainload.recordings.format.envelopes import IMPORT_PREFIX
from trainload.recordings.importers.columns import Column
from trainload.recordings.importers.file_blocks import BlockReader
from trainload.recordings.importers.source import SourceStream

PIECE_BYTES = 16 << 20


def attached_column(name: str, path: Path, time_ns: int, *, encoding: str, **more: Any) -> Column:
    """The stream import/NAME whose frames, one after the other, are the file: pieces of at most PIECE_BYTES.

    All are at one time, which is not the file's own, so the clock is the host's.
    """
    size = path.stat().st_size
    starts = range(0, size, PIECE_BYTES)
    reader = BlockReader(path, block_bytes=0)
    more["calibration"] = {**more.get("calibration", {}), "file": path.name, "size_bytes": size}
    stream = SourceStream(
        IMPORT_PREFIX + name, encoding=encoding, clock="host", time_source="a file without a time", **more
    )

    def load(index: int) -> bytes:
        return reader.read_at(starts[index], min(PIECE_BYTES, size - starts[index]))

    return Column(stream, np.full(len(starts), time_ns, np.int64), load)


def first_time(columns: list[Column]) -> int:
    """The earliest time of all columns, 0 where there is none."""
    return max(0, min((int(column.times.min()) for column in columns if len(column.times)), default=0))
