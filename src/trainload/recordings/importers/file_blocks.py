"""Small pieces of a large file in about ascending order, read a block at a time and without keeping it open."""

from __future__ import annotations

from pathlib import Path

from trainload.storage.file import FileSource

BLOCK_BYTES = 64 << 10


class BlockReader:
    """`read_at` gives bytes of the file at `path`; the block that they lie in is kept for the next call."""

    def __init__(self, path: Path, block_bytes: int = BLOCK_BYTES) -> None:
        self._path = path
        self._block_bytes = block_bytes
        self._start = 0
        self._block = b""

    def read_at(self, offset: int, size: int) -> bytes:
        """Exactly those bytes. Raises OSError, or FormatError where the file is shorter by now."""
        end = offset + size
        if not (self._start <= offset and end <= self._start + len(self._block)):
            with FileSource(self._path) as file:
                self._block = file.read_at(offset, max(size, min(self._block_bytes, file.size - offset)))
            self._start = offset
        return self._block[offset - self._start : end - self._start]
