"""A reader of HFRM files written from the published text alone: header, index, bisect, pread. Knows no profile."""

from __future__ import annotations

import bisect
import os
import struct
from pathlib import Path

Row = tuple[int, int, int, int, int]  # timestamp, offset, size, flags, stream index
Frame = tuple[int, int, int, bytes]  # stream index, timestamp, flags, payload


class PublishedReader:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        header = os.pread(self._fd, 512, 0)
        if header[:4] != b"HFRM":
            raise ValueError("not a hyperframe file")
        flags = struct.unpack("<I", header[8:12])[0]
        if not flags & 0x80000000:
            raise ValueError("file is not finalized")
        if not flags & 1:
            raise ValueError("file is big-endian")
        self.start_ns, self.end_ns, self.frame_count, self.stream_count = struct.unpack("<QQII", header[12:36])
        index_offset, index_size = struct.unpack("<QQ", header[36:52])
        raw_index = os.pread(self._fd, index_size, index_offset)
        self.sorted = True
        self._by_stream: dict[int, list[Row]] = {}
        previous = (-1, -1)
        for entry in struct.iter_unpack("<HHIQQII", raw_index):
            stream_id, entry_flags, stream_index, ts, offset, size, _ = entry
            self._by_stream.setdefault(stream_id, []).append((ts, offset, size, entry_flags, stream_index))
            self.sorted &= previous <= (stream_id, ts)
            previous = (stream_id, ts)
        for rows in self._by_stream.values():
            rows.sort()

    def streams(self) -> list[int]:
        return sorted(self._by_stream)

    def read(self, stream_id: int, timestamp_ns: int) -> Frame | None:
        rows = self._by_stream.get(stream_id)
        if not rows:
            return None
        return self._frame(rows[min(bisect.bisect_left(rows, (timestamp_ns,)), len(rows) - 1)])

    def read_range(self, stream_id: int, start_ns: int, end_ns: int) -> list[Frame]:
        rows = self._by_stream.get(stream_id, [])
        low, high = (bisect.bisect_left(rows, (ts,)) for ts in (start_ns, end_ns))
        return [self._frame(row) for row in rows[low:high]]

    def _frame(self, row: Row) -> Frame:
        ts, offset, size, flags, stream_index = row
        return stream_index, ts, flags, os.pread(self._fd, size, offset)

    def close(self) -> None:
        os.close(self._fd)
