"""Bytes that wait to be copied elsewhere: in memory while they are few, then in a file that has no name."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

KEPT_BYTES = 4 << 20
CHUNK_BYTES = 1 << 20


class Spool:
    """Bytes that are written and read at any place; `size` is where the last of them ends.

    Above KEPT_BYTES they move into a file in `folder`, which leaves nothing behind however the process ends.
    Raises OSError where the system refuses that.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] = io.BytesIO()
        self.size = 0

    def write_at(self, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`."""
        end = offset + len(data)
        if isinstance(self._file, io.BytesIO) and end > KEPT_BYTES:
            self._file = self._moved(self._file)
        self._file.seek(offset)
        _write(self._file, memoryview(data))
        self.size = max(self.size, end)

    def append(self, data: bytes) -> None:
        """Write `data` at the end."""
        self.write_at(self.size, data)

    def read_at(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`; fewer at the end."""
        self._file.seek(offset)
        return self._file.read(size)

    def chunks(self) -> Iterator[bytes]:
        """All bytes, from the first on."""
        for offset in range(0, self.size, CHUNK_BYTES):
            yield self.read_at(offset, CHUNK_BYTES)

    def close(self) -> None:
        """Give memory and disk back."""
        self._file.close()

    def _moved(self, memory: io.BytesIO) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - open until close()
        try:
            _write(file, memory.getbuffer())
        except OSError:
            file.close()
            raise
        return file


def _write(file: IO[bytes], data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]
