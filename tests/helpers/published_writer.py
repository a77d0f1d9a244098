"""The sample writer of the published text, written down from it: sorts nothing, packs IndexSize as 4 bytes."""

from __future__ import annotations

import os
import struct
from pathlib import Path

MAGIC = b"HFRM"
HEADER_SIZE = 512
ALIGNMENT = 64


class PublishedWriter:
    def __init__(self, path: Path, window_ns: int = 100_000_000) -> None:
        self.path = Path(path)
        self.window_ns = window_ns
        self._fd = open(self.path, "wb")  # noqa: SIM115 - as published
        self._fd.write(b"\x00" * HEADER_SIZE)
        self._fd.flush()
        self._records: list[tuple[int, int, int, int, int, int]] = []
        self._stream_index: dict[int, int] = {}

    def append(self, stream_id: int, timestamp_ns: int, payload: bytes, flags: int = 0) -> None:
        self._pad()
        offset = self._fd.tell()
        self._fd.write(payload)
        idx = self._stream_index.setdefault(stream_id, 0)
        self._stream_index[stream_id] += 1
        self._records.append((stream_id, flags, idx, timestamp_ns, offset, len(payload)))

    def finalize(self) -> None:
        self._fd.flush()
        self._pad()
        index_offset = self._fd.tell()
        index_bytes = b"".join(struct.pack("<HHIQQII", *record, 0) for record in self._records)
        self._fd.write(index_bytes)
        header = struct.pack(
            "<4sHHIQQIIQIII",
            MAGIC,
            1,
            HEADER_SIZE,
            0x80000001,
            0,
            self.window_ns,
            len(self._records),
            len(self._stream_index),
            index_offset,
            len(index_bytes),
            0,
            0,
        )
        self._fd.seek(0)
        self._fd.write(header.ljust(HEADER_SIZE, b"\x00"))
        self._fd.flush()
        os.fsync(self._fd.fileno())
        self._fd.close()

    def _pad(self) -> None:
        self._fd.write(b"\x00" * (-self._fd.tell() % ALIGNMENT))
